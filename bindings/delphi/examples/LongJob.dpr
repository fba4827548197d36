program LongJob;
{ A long-running tool call from a console program: watch it, answer its question, print its result.
  LongJob http://127.0.0.1:8080/mcp }

{$IFDEF FPC}{$MODE DELPHI}{$CODEPAGE UTF8}{$ENDIF}
{$IFNDEF FPC}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}{$IFDEF UNIX}cthreads,{$ENDIF}{$ENDIF} { first of all, or Free Pascal has no threads on Unix }
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Client;

type
  TWatcher = class
    Done: Boolean;
    procedure Created(Sender: TObject; Task: TMcpTask);
    procedure Changed(Sender: TObject; Task: TMcpTask);
    procedure Completed(Sender: TObject; Task: TMcpTask);
    procedure Asked(Sender: TObject; Input: TMcpInput);
    procedure Answered(Sender: TObject; Response: TMcpResponse);
  end;

procedure TWatcher.Created(Sender: TObject; Task: TMcpTask);
begin
  WriteLn('created    ', Task.TaskId);
end;

procedure TWatcher.Changed(Sender: TObject; Task: TMcpTask);
begin
  WriteLn('status     ', Task.StatusMessage);
end;

procedure TWatcher.Completed(Sender: TObject; Task: TMcpTask);
begin
  if Task.Error.Failed then
  begin
    WriteLn('failed     ', Task.Error.Describe);
    ExitCode := 1;
  end
  else
    WriteLn('result     ', Task.Text);
  Done := True;
end;

procedure TWatcher.Asked(Sender: TObject; Input: TMcpInput);
begin
  WriteLn('question   ', Input.Message);
  Input.Answer(McpArgs(['value', 'yes']));
end;

procedure TWatcher.Answered(Sender: TObject; Response: TMcpResponse);
begin
  if Response.Error.Failed then
  begin
    WriteLn('failed     ', Response.Error.Describe);
    ExitCode := 1;
  end
  else if Response.Result <> nil then
    WriteLn('result     ', Response.Result.Text);
  Done := Response.Task = nil;
end;

var
  Client: TMcpClient;
  Watcher: TWatcher;
begin
  Watcher := TWatcher.Create;
  Client := TMcpClient.Create(nil);
  try
    try
      Client.Url := ParamStr(1);
      Client.OnTaskCreated := Watcher.Created;
      Client.OnTaskStatus := Watcher.Changed;
      Client.OnTaskCompleted := Watcher.Completed;
      Client.OnInputRequired := Watcher.Asked;
      Client.OnToolResponse := Watcher.Answered;
      if not Client.WaitOpen then
        raise Exception.Create('no answer from ' + Client.Url);
      WriteLn('connected  ', Client.ServerName, ' ', Client.ProtocolVersion);
      Client.CallTool('slow_job', McpArgs(['steps', 5, 'step_ms', 200, 'ask', True]));
      while not Watcher.Done do
        McpPump; { a form application needs no such loop }
    except
      on E: Exception do
      begin
        WriteLn(E.ClassName, ': ', E.Message);
        ExitCode := 1;
      end;
    end;
  finally
    Client.Free;
    Watcher.Free;
  end;
end.
