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

implementation

uses
  {$IFDEF FPC}SysUtils, Classes, Process{$ELSE}System.SysUtils, System.Classes{$ENDIF};

var
  Checks, Failures, Cases: Integer;
  {$IFDEF FPC}
  Server: TProcess;
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
procedure StartServer(const Path: string);
var
  Line: string;
  C: AnsiChar;
begin
  Server := TProcess.Create(nil);
  Server.Executable := Path;
  Server.Parameters.Add('--stdin-guard'); { ends with us, however we end }
  Server.Options := [poUsePipes];
  Server.Execute;
  Line := '';
  while (Server.Output.Read(C, 1) = 1) and (C <> #10) do
    Line := Line + C;
  if Pos('listening ', Line) <> 1 then
    raise Exception.Create('the test server said: ' + Line);
  Url := Trim(Copy(Line, 11, MaxInt));
end;
{$ENDIF}

function ServerUrl: string;
begin
  if Url = '' then
    Url := GetEnvironmentVariable('MCP_TEST_URL');
  {$IFDEF FPC}
  if (Url = '') and (GetEnvironmentVariable('MCP_TEST_SERVER') <> '') then
    StartServer(GetEnvironmentVariable('MCP_TEST_SERVER'));
  {$ENDIF}
  if Url = '' then
    raise Exception.Create('no server: set MCP_TEST_URL or MCP_TEST_SERVER');
  Result := Url;
end;

procedure StopServer;
begin
  {$IFDEF FPC}
  if Server <> nil then
  begin
    Server.CloseInput;
    Server.WaitOnExit;
    FreeAndNil(Server);
  end;
  {$ENDIF}
end;

end.
