program TestExit;
{ Ways to end a process that a library with threads may not spoil; each must give exit code 0.
    open      the program ends with a client open and calls in flight, nothing freed
    pumpless  the same, with events that nobody pumped
    shutdown  McpShutdown by hand; a later use starts anew; then the end
    unload    BR-50: the library is unloaded by hand after its shutdown, then the process ends
    unloadopen  BR-50: the same with a client open; the finalization of the units comes after it
    threads   BR-50: twenty threads, one after the other: load, call, shut down, unload, end
    nolib     there is no library: an exception that names the places, and a clean end }

{$IFDEF FPC}{$MODE DELPHI}{$ELSE}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}{$IFDEF UNIX}cthreads,{$ENDIF}{$ENDIF}
  {$IFDEF FPC}SysUtils, Classes, dynlibs,{$ELSE}System.SysUtils, System.Classes, {$IFDEF MSWINDOWS}Winapi.Windows,{$ENDIF}{$ENDIF}
  McpNative.Abi in '../McpNative.Abi.pas',
  McpNative.Load in '../McpNative.Load.pas',
  McpNative.Errors in '../McpNative.Errors.pas',
  McpNative.Client in '../McpNative.Client.pas',
  McpCheck in 'McpCheck.pas';

type
  TSink = class
    procedure Answered(Sender: TObject; Response: TMcpResponse);
    procedure Created(Sender: TObject; Task: TMcpTask);
  end;

procedure TSink.Answered(Sender: TObject; Response: TMcpResponse);
begin
end;

procedure TSink.Created(Sender: TObject; Task: TMcpTask);
begin
end;

function Busy(Sink: TSink): TMcpClient;
var
  I: Integer;
begin
  Result := TMcpClient.Create(nil);
  Result.Url := ServerUrl;
  Result.OnToolResponse := Sink.Answered;
  Result.OnTaskCreated := Sink.Created;
  Check(Result.WaitOpen(20000), 'open');
  for I := 1 to 10 do
  begin
    Result.CallTool('sleep', McpArgs(['ms', 60000]));
    Result.CallTool('echo', McpArgs(['i', I]));
    Result.CallTool('slow_job', McpArgs(['steps', 1000, 'step_ms', 1000, 'poll_ms', 100]));
  end;
end;

function Unload: Boolean;
var
  {$IFDEF FPC}
  Handle: TLibHandle;
  {$ELSE}
  Handle: HMODULE;
  {$ENDIF}
begin
  Handle := SafeLoadLibrary(McpLibraryPath); { a second name for the same library }
  Result := Handle <> 0;
  FreeLibrary(Handle);
  FreeLibrary(Handle); { and the one that the units hold }
  Result := Result and (mcp_abi_version() = MCP_ABI_VERSION_);
end;

{ Threads of this process, where the system tells; else 0. }
function ThreadsAlive: Integer;
{$IFDEF LINUX}
var
  Found: TSearchRec;
{$ENDIF}
begin
  Result := 0;
  {$IFDEF LINUX}
  if FindFirst('/proc/self/task/*', faDirectory, Found) = 0 then
    repeat
      if Found.Name[1] <> '.' then
        Inc(Result);
    until FindNext(Found) <> 0;
  FindClose(Found);
  {$ENDIF}
end;

type
  TRound = class(TThread)
  protected
    procedure Execute; override;
  public
    Good: Boolean;
  end;

procedure TRound.Execute;
var
  Client: TMcpClient;
  Answer: TMcpResult;
begin
  try
    Client := TMcpClient.Create(nil);
    try
      Client.Url := ServerUrl;
      Client.EventThread := etManual; { this thread serves its events itself }
      if Client.WaitOpen(20000) then
      begin
        Answer := Client.CallToolWait('add', '{"a":1,"b":2}', 20000);
        Good := Answer.Text = '3';
        Answer.Free;
      end;
    finally
      Client.Free;
    end;
    Good := McpShutdown(5000) and Good;
    Good := Unload and Good;
  except
    on E: Exception do
    begin
      Good := False;
      WriteLn('  ', E.ClassName, ': ', E.Message);
    end;
  end;
end;

procedure Rounds;
var
  I, Good, Before: Integer;
  Round: TRound;
begin
  Good := 0;
  ServerUrl;
  Before := ThreadsAlive;
  for I := 1 to 20 do
  begin
    Round := TRound.Create(False);
    Round.WaitFor;
    if Round.Good then
      Inc(Good);
    Round.Free;
  end;
  CheckEqual(Good, 20, 'BR-50: rounds of load, call, shutdown, unload in a thread that ends');
  Check(ThreadsAlive <= Before + 1, Format('BR-50: %d threads before, %d after', [Before, ThreadsAlive]));
end;

procedure Again(Sink: TSink);
var
  Client: TMcpClient;
  Answer: TMcpResult;
begin
  Client := TMcpClient.Create(nil);
  Client.Url := ServerUrl;
  Client.OnToolResponse := Sink.Answered;
  Check(Client.WaitOpen(20000), 'open after a shutdown');
  Answer := Client.CallToolWait('add', '{"a":1,"b":2}', 20000);
  CheckEqual(Answer.Text, '3', 'a call after a shutdown');
  Answer.Free;
  Client.Free;
end;

var
  Client: TMcpClient;
  Sink: TSink;
  Mode, Raised: string;
begin
  Mode := ParamStr(1);
  WriteLn(Mode);
  Sink := TSink.Create;
  if Mode = 'nolib' then
  begin
    Raised := '';
    Client := TMcpClient.Create(nil);
    Client.Url := 'http://127.0.0.1:9/mcp';
    Client.LibraryPath := 'no-such-folder/mcpnative.missing';
    try
      Client.Open;
    except
      on E: EMcpLibrary do
        Raised := E.Message;
    end;
    Check(Pos('mcpnative.missing', Raised) > 0, 'the message names the place');
    Client.Free;
  end
  else if Mode = 'threads' then
    Rounds
  else
  begin
    Client := Busy(Sink);
    if Mode = 'open' then
      McpPump(100)
    else if Mode = 'unloadopen' then
      Check(Unload, 'BR-50: unloaded, its code is still there')
    else if Mode <> 'pumpless' then
    begin
      Client.Free;
      Check(McpShutdown(5000), 'shut down');
      Check(McpShutdown(5000), 'twice');
      if Mode = 'unload' then
        Check(Unload, 'BR-50: unloaded, its code is still there')
      else
        Again(Sink);
    end;
  end;
  { "open", "pumpless" and "unloadopen" leave everything as it is on purpose }
  Finish;
end.
