{$IFDEF FPC}{$MODE DELPHI}{$CODEPAGE UTF8}{$ENDIF}
{ A check harness of one page: prints each check, counts failures, ends with exit code 1 when there were any. }
unit McpCheck;

interface

type
  TCase = procedure;

procedure Check(Ok: Boolean; const What: string);
procedure CheckEqual(const Got, Wanted, What: string); overload;
procedure CheckEqual(Got, Wanted: Int64; const What: string); overload;

{ Runs one case; an exception that leaves it is a failure. With arguments on the command line, only the cases named there. }
procedure Run(const Name: string; Body: TCase);
{ Prints the sum and sets the exit code. }
procedure Finish;

{ The server: MCP_TEST_URL, or MCP_TEST_SERVER started (Free Pascal only). '' when there is neither. }
function ServerUrl: string;
procedure StopServer;

{ Another server that follows a script (JSON), in the place of the one before; '' where none can be started. }
function ScriptedUrl(const Script: string): string;

implementation

uses
  {$IFDEF FPC}SysUtils, Classes, Process{$ELSE}System.SysUtils, System.Classes{$ENDIF};

var
  Checks, Failures, Cases: Integer;
  {$IFDEF FPC}
  Server, Scripted: TProcess;
  {$ENDIF}
  Url: string;

procedure Check(Ok: Boolean; const What: string);
begin
  Inc(Checks);
  if Ok then
    WriteLn('  ok    ', What)
  else
  begin
    Inc(Failures);
    WriteLn('  FAIL  ', What);
  end;
end;

procedure CheckEqual(const Got, Wanted, What: string);
begin
  if Got = Wanted then
    Check(True, What)
  else
    Check(False, What + ': got "' + Got + '", wanted "' + Wanted + '"');
end;

procedure CheckEqual(Got, Wanted: Int64; const What: string);
begin
  CheckEqual(IntToStr(Got), IntToStr(Wanted), What);
end;

procedure Run(const Name: string; Body: TCase);
var
  I: Integer;
  Named: Boolean;
begin
  Named := ParamCount = 0;
  for I := 1 to ParamCount do
    Named := Named or (ParamStr(I) = Name);
  if not Named then
    Exit;
  Inc(Cases);
  WriteLn(Name);
  try
    Body;
  except
    on E: Exception do
      Check(False, Name + ' raised ' + E.ClassName + ': ' + E.Message);
  end;
  Flush(Output);
end;

procedure Finish;
begin
  WriteLn(Cases, ' cases, ', Checks, ' checks, ', Failures, ' failures');
  if (Failures > 0) or (Checks = 0) then
    ExitCode := 1;
end;

{$IFDEF FPC}
function StartServer(const Path, Script: string; out Address: string): TProcess;
var
  Line: string;
  C: AnsiChar;
begin
  Result := TProcess.Create(nil);
  Result.Executable := Path;
  Result.Parameters.Add('--stdin-guard'); { ends with us, however we end }
  if Script <> '' then
  begin
    Result.Parameters.Add('--script-json');
    Result.Parameters.Add(Script);
  end;
  Result.Options := [poUsePipes];
  Result.Execute;
  Line := '';
  while (Result.Output.Read(C, 1) = 1) and (C <> #10) do
    Line := Line + C;
  if Pos('listening ', Line) <> 1 then
    raise Exception.Create('the test server said: ' + Line);
  Address := Trim(Copy(Line, 11, MaxInt));
end;

procedure EndServer(var Process: TProcess);
begin
  if Process <> nil then
  begin
    Process.CloseInput;
    Process.WaitOnExit;
    FreeAndNil(Process);
  end;
end;
{$ENDIF}

function ServerUrl: string;
begin
  if Url = '' then
    Url := GetEnvironmentVariable('MCP_TEST_URL');
  {$IFDEF FPC}
  if (Url = '') and (GetEnvironmentVariable('MCP_TEST_SERVER') <> '') then
    Server := StartServer(GetEnvironmentVariable('MCP_TEST_SERVER'), '', Url);
  {$ENDIF}
  if Url = '' then
    raise Exception.Create('no server: set MCP_TEST_URL or MCP_TEST_SERVER');
  Result := Url;
end;

function ScriptedUrl(const Script: string): string;
begin
  Result := '';
  {$IFDEF FPC}
  EndServer(Scripted);
  if GetEnvironmentVariable('MCP_TEST_SERVER') <> '' then
    Scripted := StartServer(GetEnvironmentVariable('MCP_TEST_SERVER'), Script, Result);
  {$ENDIF}
end;

procedure StopServer;
begin
  {$IFDEF FPC}
  EndServer(Scripted);
  EndServer(Server);
  {$ENDIF}
end;

end.
