program TestExit;
{ Ways to end a process that a library with threads may not spoil; each must give exit code 0.
    open      the program ends with a client open and calls in flight, nothing freed
    pumpless  the same, with events that nobody pumped
    shutdown  McpShutdown by hand, then the end; later calls are refused
    unload    BR-50, Pascal: the library is unloaded by hand after its shutdown, then the process ends
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

procedure Unload;
var
  {$IFDEF FPC}
  Handle: TLibHandle;
  {$ELSE}
  Handle: HMODULE;
  {$ENDIF}
begin
  Handle := SafeLoadLibrary(McpLibraryPath); { a second name for the same library }
  Check(Handle <> 0, 'found again');
  FreeLibrary(Handle);
  FreeLibrary(Handle); { and the one that the units hold }
  Check(mcp_abi_version() = MCP_ABI_VERSION_, 'BR-50: its code is still there');
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
  else
  begin
    Client := Busy(Sink);
    if Mode = 'open' then
      McpPump(100)
    else if Mode <> 'pumpless' then
    begin
      Client.Free;
      Check(McpShutdown(5000), 'shut down');
      Check(McpShutdown(5000), 'twice');
      if Mode = 'unload' then
        Unload
      else
      begin
        Raised := '';
        Client := TMcpClient.Create(nil);
        Client.Url := ServerUrl;
        try
          Client.Open;
        except
          on E: EMcpError do
            Raised := E.Message;
        end;
        WriteLn('  after a shutdown: ', Raised);
        Client.Free;
      end;
    end;
  end;
  { "open" and "pumpless" leave everything as it is on purpose }
  Finish;
end.
