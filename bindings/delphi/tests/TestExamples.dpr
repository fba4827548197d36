program TestExamples;
{ Runs the example programs as a user does, and looks at what they print and at their exit codes.
    TestExamples folder     where the compiled programs are }

{$MODE DELPHI}{$CODEPAGE UTF8} { Free Pascal only: it starts programs }

uses
  {$IFDEF UNIX}cthreads,{$ENDIF}
  SysUtils, Classes, Process,
  McpCheck in 'McpCheck.pas';

function Start(const Name: string; const Arguments: array of string; out Output: string): Integer;
var
  Child: TProcess;
  Buffer: array[0..4095] of AnsiChar;
  Got: Integer;
  Piece: string;
  I: Integer;
begin
  Output := '';
  Child := TProcess.Create(nil);
  try
    Child.Executable := IncludeTrailingPathDelimiter(ParamStr(1)) + Name;
    for I := 0 to High(Arguments) do
      Child.Parameters.Add(Arguments[I]);
    Child.Options := [poUsePipes, poStderrToOutPut];
    Child.Execute;
    repeat
      Got := Child.Output.Read(Buffer, SizeOf(Buffer));
      SetString(Piece, PAnsiChar(@Buffer), Got);
      Output := Output + Piece;
    until Got <= 0;
    Child.WaitOnExit;
    Result := Child.ExitStatus; { after WaitOnExit this is the code; ExitCode would decode it once more }
  finally
    Child.Free;
  end;
end;

{ Each of Marks, in this order, with anything between them. }
procedure CheckOrder(const Output: string; const Marks: array of string; const What: string);
var
  I, From, At: Integer;
begin
  From := 1;
  for I := 0 to High(Marks) do
  begin
    At := Pos(Marks[I], Output, From);
    if At = 0 then
    begin
      Check(False, What + ': "' + Marks[I] + '" is missing, or out of order, in:' + LineEnding + Output);
      Exit;
    end;
    From := At + Length(Marks[I]);
  end;
  Check(True, What);
end;

var
  Output: string;
  Nobody: string = 'http://127.0.0.1:9/mcp';
begin
  WriteLn('examples');
  CheckEqual(Start('LongJob', [ServerUrl], Output), 0, 'LongJob: exit code');
  CheckOrder(Output, ['connected', 'created', 'status', 'question   Go on?', 'result     done'], 'LongJob: what it prints');
  CheckEqual(Start('LongJob', [Nobody], Output), 1, 'LongJob without a server: exit code');
  CheckOrder(Output, ['MCP_E_CONNECT'], 'LongJob without a server: what it prints');
  CheckEqual(Start('RealServer', [ServerUrl, 'slow_job', '{"steps":5,"step_ms":60}'], Output), 0, 'RealServer: exit code');
  CheckOrder(Output, ['connected: ', 'created: ', 'status: working', 'completed: ', 'result: done'], 'RealServer: what it prints');
  CheckEqual(Start('RealServer', [ServerUrl, 'fail_job', '{"steps":1}'], Output), 1, 'RealServer, a job that fails: exit code');
  CheckOrder(Output, ['created: ', 'failed: ', 'error: MCP_E_TASK_FAILED'], 'RealServer, a job that fails: what it prints');
  CheckEqual(Start('RealServer', [ServerUrl, 'tool_error_job', '{"steps":1}'], Output), 1, 'RealServer, a tool that fails: exit code');
  CheckEqual(Start('RealServer', [ServerUrl, 'echo', '{"a":1}'], Output), 1, 'RealServer, no task: exit code');
  CheckOrder(Output, ['without a task'], 'RealServer, no task: what it prints');
  CheckEqual(Start('RealServer', [Nobody], Output), 1, 'RealServer without a server: exit code');
  StopServer;
  Finish;
end.
