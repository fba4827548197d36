program RealServer;
{ One long-running tool call on a server of the user's, told line by line; exit code 0 when a task was made of it, and completed.
    RealServer [url [tool [arguments]]]
  What is not given comes from MCP_URL, MCP_TOOL ("long_job") and MCP_ARGUMENTS (a JSON object, steps 5); MCP_WAIT_MS (60000)
  is the limit for all of it. }

{$IFDEF FPC}{$MODE DELPHI}{$CODEPAGE UTF8}{$ELSE}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}{$IFDEF UNIX}cthreads,{$ENDIF}{$ENDIF}
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Text in '../McpNative.Text.pas',
  McpNative.Task in '../McpNative.Task.pas',
  McpNative.Client in '../McpNative.Client.pas';

type
  TWatcher = class
    TaskId: string;
    Completed: Boolean;
    Done: Boolean;
    procedure Tell(const What, Text: string);
    procedure TellStatus(Task: TMcpTask);
    procedure TaskCreated(Sender: TObject; Task: TMcpTask);
    procedure TaskChanged(Sender: TObject; Task: TMcpTask);
    procedure TaskEnded(Sender: TObject; Task: TMcpTask);
    procedure Answered(Sender: TObject; Response: TMcpResponse);
    procedure HandlerRaised(Sender: TObject; Error: Exception);
  end;

procedure TWatcher.Tell(const What, Text: string);
begin
  WriteLn(What, ': ', Text);
  Flush(Output);
end;

procedure TWatcher.TellStatus(Task: TMcpTask);
var
  Line: string;
begin
  Line := McpTaskStatusName(Task.Status);
  if Task.StatusMessage <> '' then
    Line := Line + ', ' + Task.StatusMessage;
  Tell('status', Line);
end;

procedure TWatcher.TaskCreated(Sender: TObject; Task: TMcpTask);
begin
  TaskId := Task.TaskId;
  Tell('created', TaskId);
  TellStatus(Task);
end;

procedure TWatcher.TaskChanged(Sender: TObject; Task: TMcpTask);
begin
  if Task.TaskId <> TaskId then
    raise Exception.Create('a status of a task that was not created');
  TellStatus(Task);
end;

procedure TWatcher.TaskEnded(Sender: TObject; Task: TMcpTask);
begin
  if Task.TaskId <> TaskId then
    raise Exception.Create('the end of a task that was not created');
  Done := True;
  Tell(McpTaskReasonName(Task.Reason), TaskId);
  if Task.Error.Failed then
    Tell('error', Task.Error.Describe)
  else if Task.Result <> nil then
  begin
    Completed := (Task.Reason = trCompleted) and not Task.Result.IsError;
    Tell('result', Task.Text);
  end;
end;

procedure TWatcher.Answered(Sender: TObject; Response: TMcpResponse);
begin
  if Response.Task <> nil then
    Exit;
  Done := True;
  if Response.Error.Failed then
    Tell('error', Response.Error.Describe)
  else
    Tell('error', 'answered at once, without a task: ' + Response.Result.Text);
end;

procedure TWatcher.HandlerRaised(Sender: TObject; Error: Exception);
begin
  Done := True;
  Completed := False;
  Tell('error', Error.Message);
end;

function Setting(Index: Integer; const Variable, Default: string): string;
begin
  Result := ParamStr(Index);
  if Result = '' then
    Result := GetEnvironmentVariable(Variable);
  if Result = '' then
    Result := Default;
end;

procedure Work(Client: TMcpClient; Watcher: TWatcher);
var
  Start, Limit: Int64;
begin
  Start := McpTicks;
  Limit := StrToInt(Setting(MaxInt, 'MCP_WAIT_MS', '60000'));
  Client.Url := Setting(1, 'MCP_URL', '');
  Client.OnTaskCreated := Watcher.TaskCreated;
  Client.OnTaskStatus := Watcher.TaskChanged;
  Client.OnTaskCompleted := Watcher.TaskEnded;
  Client.OnToolResponse := Watcher.Answered;
  Client.OnCallbackError := Watcher.HandlerRaised;
  if not Client.WaitOpen(Limit) then
    raise Exception.Create('no answer from ' + Client.Url);
  Watcher.Tell('connected', Client.ServerName + ', ' + Client.ProtocolVersion);
  Client.CallTool(Setting(2, 'MCP_TOOL', 'long_job'), Setting(3, 'MCP_ARGUMENTS', '{"steps":5}'));
  while not Watcher.Done and (McpTicks - Start < Limit) do
    McpPump(50);
  if not Watcher.Done then
    raise Exception.Create('the time ran out');
end;

var
  Client: TMcpClient;
  Watcher: TWatcher;
begin
  ExitCode := 1;
  Watcher := TWatcher.Create;
  Client := TMcpClient.Create(nil);
  try
    try
      Work(Client, Watcher);
      if Watcher.Completed then
        ExitCode := 0;
    except
      on E: Exception do
        Watcher.Tell('error', E.Message);
    end;
  finally
    Client.Free;
    Watcher.Free;
  end;
end.
