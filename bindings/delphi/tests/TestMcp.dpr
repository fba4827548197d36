program TestMcp;
{ The promises of the units, against a running server: see McpCheck.ServerUrl. TestMcp [case ...] }

{$IFDEF FPC}{$MODE DELPHI}{$CODEPAGE UTF8}{$ELSE}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}{$IFDEF UNIX}cthreads,{$ENDIF}{$ENDIF}
  {$IFDEF FPC}SysUtils, Classes, Math, SyncObjs, dynlibs,{$ELSE}System.SysUtils, System.Classes, System.Math, System.SyncObjs,
  {$IFDEF MSWINDOWS}Winapi.Windows,{$ENDIF}{$ENDIF}
  McpNative.Text in '../McpNative.Text.pas',
  McpNative.Json in '../McpNative.Json.pas',
  McpNative.Abi in '../McpNative.Abi.pas',
  McpNative.Load in '../McpNative.Load.pas',
  McpNative.Errors in '../McpNative.Errors.pas',
  McpNative.Channel in '../McpNative.Channel.pas',
  McpNative.Result in '../McpNative.Result.pas',
  McpNative.Task in '../McpNative.Task.pas',
  McpNative.Input in '../McpNative.Input.pas',
  McpNative.Client in '../McpNative.Client.pas',
  McpCheck in 'McpCheck.pas';

const
  Patience = 20000; { ms that any wait may take before the case fails }

type
  TMode = (mdWatch, mdRaise, mdFree, mdRelease, mdLater, mdNestedCall, mdDecline, mdFail, mdTraps);

  TWatcher = class
  public
    Mode: TMode;
    Client: TMcpClient;
    Log: string;            { what happened, in order }
    Done: Boolean;
    Text: string;
    Question: string;
    OtherThread: Boolean;   { an event ran elsewhere than on the main thread }
    MainThread: Boolean;    { an event ran on the main thread }
    Caught: string;
    CaughtLast: Boolean;
    Kept: TMcpInput;
    KeptTask: TMcpTask;
    TaskId: string;
    Responses: Integer;
    Reason: TMcpTaskReason;
    Error: TMcpErrorInfo;
    Progress: Integer;
    Nested: string;
    QuestionKind: TMcpInputKind;
    CallId: Int64;
    Trapped: Integer;       { handlers in which the host's traps were armed }
    Untrapped: Integer;
    constructor Create(AMode: TMode = mdWatch);
    destructor Destroy; override;
    procedure Note(const What: string);
    procedure Attach(AClient: TMcpClient);
    procedure Created(Sender: TObject; Task: TMcpTask);
    procedure Changed(Sender: TObject; Task: TMcpTask);
    procedure Completed(Sender: TObject; Task: TMcpTask);
    procedure Asked(Sender: TObject; Input: TMcpInput);
    procedure Answered(Sender: TObject; Response: TMcpResponse);
    procedure Progressed(Sender: TObject; const Value: TMcpProgress);
    procedure Stated(Sender: TObject; State: TMcpState; const AError: TMcpErrorInfo);
    procedure Raised(Sender: TObject; AError: Exception);
    procedure Resumed(Sender: TObject; Task: TMcpTask);
    procedure Subscribed(Sender: TObject; const News: TMcpSubscription);
    procedure Heard(Sender: TObject; ACallId: Int64; const Method, Params: string);
    function Await: Boolean;
    procedure AwaitTask;
  end;

var
  Nought: Double = 0; { not a constant to the compiler }

{ True where the host's own 0.0/0.0 still raises. }
function HostTraps: Boolean;
var
  X: Double;
begin
  try
    X := Nought / Nought;
    Result := X = 1; { never }
  except
    on EMathError do
      Result := True;
  end;
end;

constructor TWatcher.Create(AMode: TMode);
begin
  inherited Create;
  Mode := AMode;
  Error := McpNoError;
end;

destructor TWatcher.Destroy;
begin
  Kept.Free;
  KeptTask.Free;
  inherited Destroy;
end;

procedure TWatcher.Note(const What: string);
begin
  if Log <> '' then
    Log := Log + ' ';
  Log := Log + What;
  if McpThreadId = MainThreadID then
    MainThread := True
  else
    OtherThread := True;
  if Mode = mdTraps then
    if HostTraps then
      Inc(Trapped)
    else
      Inc(Untrapped);
end;

procedure TWatcher.Attach(AClient: TMcpClient);
begin
  Client := AClient;
  Client.OnTaskCreated := Created;
  Client.OnTaskStatus := Changed;
  Client.OnTaskCompleted := Completed;
  Client.OnInputRequired := Asked;
  Client.OnToolResponse := Answered;
  Client.OnProgress := Progressed;
  Client.OnCallbackError := Raised;
end;

procedure TWatcher.Created(Sender: TObject; Task: TMcpTask);
begin
  Note('created');
  TaskId := Task.TaskId;
  if Mode = mdRaise then
    raise Exception.Create('raised in OnTaskCreated');
  if Mode = mdFree then
  begin
    Done := True;
    FreeAndNil(Client);
  end;
  if Mode = mdRelease then
  begin
    Done := True;
    Client.Release;
    Nested := Client.Url; { still alive }
    Client := nil;
  end;
  if Mode = mdNestedCall then
  begin
    Task.Keep;
    KeptTask := Task;
    with Client.CallToolWait('echo', '{"nested":1}', Patience) do
    begin
      Nested := Text;
      Free;
    end;
  end;
end;

procedure TWatcher.Changed(Sender: TObject; Task: TMcpTask);
begin
  if Pos('status', Log) = 0 then
    Note('status');
  if Mode = mdRaise then
    raise Exception.Create('raised in OnTaskStatus');
end;

procedure TWatcher.Completed(Sender: TObject; Task: TMcpTask);
begin
  Note('completed');
  Text := Task.Text;
  Reason := Task.Reason;
  Error := Task.Error;
  Done := True;
  if Mode = mdRaise then
    raise Exception.Create('raised in OnTaskCompleted');
end;

procedure TWatcher.Asked(Sender: TObject; Input: TMcpInput);
begin
  Note('asked');
  Question := Input.Message;
  case Mode of
    mdLater:
      begin
        Input.Keep;
        Kept := Input;
      end;
    mdDecline: Input.Decline;
    mdFail:
      begin
        QuestionKind := Input.Kind;
        CallId := Input.CallId;
        Input.Fail('no such thing here');
      end;
  else
    Input.Answer(McpArgs(['value', 'yes']));
  end;
end;

procedure TWatcher.Answered(Sender: TObject; Response: TMcpResponse);
begin
  Inc(Responses);
  if Response.Task <> nil then
    Note('response-task')
  else if Response.Error.Failed then
  begin
    Note('response-error');
    Error := Response.Error;
    Done := True;
  end
  else
  begin
    Note('response-result');
    Text := Response.Result.Text;
    Done := True;
  end;
  if Mode = mdRaise then
    raise Exception.Create('raised in OnToolResponse');
end;

procedure TWatcher.Progressed(Sender: TObject; const Value: TMcpProgress);
begin
  Inc(Progress);
  if Mode = mdTraps then
    Note('progress');
  if Mode = mdRaise then
    raise Exception.Create('raised in OnProgress');
end;

procedure TWatcher.Stated(Sender: TObject; State: TMcpState; const AError: TMcpErrorInfo);
begin
  case State of
    msOpening: Note('opening');
    msReady: Note('ready');
    msClosing: Note('closing');
    msClosed: Note('closed');
    msFailed: Note('failed');
  else
    Note('other');
  end;
  Error := AError;
end;

procedure TWatcher.Raised(Sender: TObject; AError: Exception);
begin
  Caught := Caught + AError.Message + ';';
  CaughtLast := Pos('OnTaskCompleted', AError.Message) > 0; { last, for another thread that waits for it }
end;

function TWatcher.Await: Boolean;
var
  Start: Int64;
begin
  Start := McpTicks;
  while not Done and (McpTicks - Start < Patience) do
    if (Client <> nil) and (Client.EventThread = etManual) then
      Client.DispatchEvents(20)
    else
      McpPump(20);
  Result := Done;
end;

procedure TWatcher.AwaitTask;
var
  Start: Int64;
begin
  Start := McpTicks;
  while (TaskId = '') and (McpTicks - Start < Patience) do
    McpPump(20);
end;

procedure TWatcher.Resumed(Sender: TObject; Task: TMcpTask);
begin
  Note('resumed');
end;

function NewClient: TMcpClient;
begin
  Result := TMcpClient.Create(nil);
  Result.Url := ServerUrl;
  Result.ClientName := 'pascal-tests';
  Result.ClientVersion := '1.0';
end;

{ A job that has asked says in its text what it was answered. }
procedure CheckDone(const Text, What: string);
begin
  CheckEqual(Text, 'done; answers: {"ask-1":{"action":"accept","content":{"value":"yes"}}}', What);
end;

procedure CheckBegins(const Text, Start, What: string);
begin
  if Pos(Start, Text) = 1 then
    Check(True, What)
  else
    CheckEqual(Text, Start + '...', What);
end;

{ ---- without a server ---- }

procedure TestJson;
var
  O: TMcpJsonObject;
  S, V: UTF8String;
  Items: TMcpJsonTexts;
begin
  CheckEqual(McpArgs(['a', 1, 'b', 'x"y', 'c', True, 'd', Int64(5000000000), 'e', nil]),
    '{"a":1,"b":"x\"y","c":true,"d":5000000000,"e":null}', 'arguments from pairs');
  CheckEqual(McpArgs([]), '{}', 'no arguments');
  CheckEqual(McpStr(McpJsonQuote('tab' + #9 + ' back\ e' + #1)), '"tab\u0009 back\\ e\u0001"', 'quoting');
  CheckEqual(McpStr(McpJsonUnquote('"\u00e9\ud83d\ude00\n\/"')), 'é😀'#10'/', 'unquoting with surrogates');
  CheckEqual(McpStr(McpJsonUnquote('"\ud83d x"')), McpStr(UTF8String(#$EF#$BF#$BD' x')), 'a lone surrogate is replaced');
  S := ' { "a" : [1, {"b":"]}"}, "x,y" ] , "n":-1.5e3, "t":true, "s":"q" } ';
  Check(McpJsonIsObject(S), 'an object is seen');
  Check(not McpJsonIsObject('{"a":1'), 'a cut object is not');
  Check(not McpJsonIsObject('[1]'), 'an array is not');
  Check(McpJsonMember(S, 'a', V), 'a member is found');
  Items := McpJsonItems(V);
  CheckEqual(Length(Items), 3, 'items of an array');
  CheckEqual(McpStr(Items[1]), '{"b":"]}"}', 'nested item');
  CheckEqual(McpJsonStr(Items[1], 'b'), ']}', 'string member');
  Check(McpJsonFloat('{"n":-1.5e3}', 'n') = -1500, 'float member');
  Check(McpJsonFloat('{"n":1e999}', 'n', 7) = 7, 'a number beyond Double does not raise');
  Check(McpJsonFloat('{"n":-1e9999}', 'n', 7) = 7, 'nor one beyond Extended');
  Check(McpJsonBool('{"t":true}', 't'), 'boolean member');
  CheckEqual(Length(McpJsonItems('[]')), 0, 'empty array');
  CheckEqual(Length(McpJsonItems('null')), 0, 'no array');
  O.Clear;
  O.Put('a', 1);
  O.Put('b', 'x');
  Check(O.Merge('{"b":[1,2],"c":{}}'), 'merge');
  CheckEqual(McpStr(O.Text), '{"a":1,"b":[1,2],"c":{}}', 'a merged member replaces');
  Check(not O.Merge('nonsense'), 'merging nonsense is refused');
  CheckEqual(FormatDateTime('yyyy-mm-dd hh:nn:ss', McpParseTime('2026-07-28T10:20:30.456+02:00')), '2026-07-28 08:20:30', 'time with an offset');
  Check(McpParseTime('yesterday') = 0, 'no time');
end;

procedure TestSettings;
var
  Client: TMcpClient;
  Raised: string;
begin
  Client := TMcpClient.Create(nil);
  try
    Client.Url := 'http://127.0.0.1:1/mcp';
    Client.Headers.Add('X-Key: a=b');
    Client.Headers.Add('X-Other=c:d');
    Client.ClientName := 'n';
    Client.Timeouts.ConnectMs := 5;
    Client.Tasks.MinPollMs := 7;
    Client.Settings.Text := '{"era":"modern"}';
    CheckEqual(Client.SettingsJson, '{"url":"http://127.0.0.1:1/mcp","headers":{"X-Key":"a=b","X-Other":"c:d"},' +
      '"client":{"name":"n","version":"0"},"timeouts":{"connect_ms":5},' +
      '"tasks":{"enabled":true,"auto_poll":true,"min_poll_ms":7},"era":"modern"}', 'settings document');
    Client.Headers.Clear;
    Client.ClientName := '';
    Client.Timeouts.ConnectMs := 0;
    Client.Settings.Clear;
    Client.Proxy := 'http://u:p@proxy:3128';
    Client.NoProxy := 'localhost,.internal';
    Client.Tls.CaFile := 'ca.pem';
    Client.Tls.OnlyOwn := True;
    Client.Tls.ClientCertFile := 'me.pem';
    Client.Tls.ClientKeyFile := 'key.pem';
    CheckEqual(Client.SettingsJson, '{"url":"http://127.0.0.1:1/mcp","proxy":"http://u:p@proxy:3128","no_proxy":["localhost,.internal"],' +
      '"tls":{"ca_file":"ca.pem","roots":"only","client_cert_file":"me.pem","client_key_file":"key.pem"},' +
      '"tasks":{"enabled":true,"auto_poll":true,"min_poll_ms":7}}', 'proxy and TLS in the settings document');
    Client.Tls.OnlyOwn := False;
    Client.Tls.ClientCertFile := '';
    Client.Tls.ClientKeyFile := '';
    Client.Tls.CaFile := 'no-such-file.pem';
    Raised := '';
    try
      Client.Open;
    except
      on E: EMcpError do
        if E.Status = MCP_E_ARGUMENT then
          Raised := E.Message;
    end;
    Check(Pos('settings.tls.ca_file: no-such-file.pem cannot be read', Raised) > 0, 'a file that is missing is named: ' + Raised);
    Client.Tls.CaFile := '';
    Client.Settings.Text := '{"no_such_key":1}';
    Raised := '';
    try
      Client.Open;
    except
      on E: EMcpError do
        if E.Status = MCP_E_ARGUMENT then
          Raised := E.Message;
    end;
    Check(Pos('no_such_key', Raised) > 0, 'an unknown setting is refused by name: ' + Raised);
    Check(not Client.Active, 'still closed');
    Client.Settings.Text := '{"era":';
    Raised := '';
    try
      Client.Open;
    except
      on E: EMcpError do
        Raised := E.Message;
    end;
    Check(Raised <> '', 'broken settings are refused: ' + Raised);
    Raised := '';
    try
      Client.CallTool('echo');
    except
      on E: EMcpError do
        if E.Status = MCP_E_STATE then
          Raised := E.Message;
    end;
    Check(Raised <> '', 'a call on a closed client is refused: ' + Raised);
  finally
    Client.Free;
  end;
end;

procedure TestNoServer;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Status: Integer;
  Start: Int64;
begin
  Client := TMcpClient.Create(nil);
  Watcher := TWatcher.Create;
  try
    Client.Url := 'http://127.0.0.1:9/mcp';
    Client.OnStateChange := Watcher.Stated;
    Status := 0;
    try
      Client.WaitOpen(Patience);
    except
      on E: EMcpError do
        Status := E.Status;
    end;
    CheckEqual(McpStatusName(Status), 'MCP_E_CONNECT', 'opening says why it failed');
    Start := McpTicks; { a wait may return before the event that says the same }
    while (Pos('failed', Watcher.Log) = 0) and (McpTicks - Start < Patience) do
      McpPump(20);
    Check(Pos('failed', Watcher.Log) > 0, 'OnStateChange: ' + Watcher.Log);
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

{ ---- with the server ---- }

procedure TestSmoke;
var
  Client: TMcpClient;
  Answer: TMcpResult;
  Tools: TMcpTools;
  I: Integer;
  Found: Boolean;
  Status: Integer;
begin
  Check(McpVersion <> '', 'library ' + McpVersion + ' from ' + ExtractFileName(McpLibraryPath));
  Client := NewClient;
  try
    Check(Client.WaitOpen(Patience), 'open');
    Check(Client.State = msReady, 'state is ready');
    Check(Client.Active, 'Active');
    CheckEqual(Client.Era, 'modern', 'era');
    Check(Client.ProtocolVersion <> '', 'version ' + Client.ProtocolVersion);
    Check(Client.ServerName <> '', 'server ' + Client.ServerName);
    Check(McpJsonIsObject(McpUtf8(Client.Capabilities)), 'capabilities');
    Answer := Client.CallToolWait('echo', McpArgs(['text', 'Grüße, 世界 😀']), Patience);
    try
      Check(not Answer.IsError, 'echo is no error');
      CheckEqual(McpJsonStr(McpUtf8(Answer.Structured), 'text'), 'Grüße, 世界 😀', 'text survives both ways');
      CheckEqual(Answer.BlockCount, 1, 'one block');
      Check(Answer.Blocks[0].Kind = bkText, 'a text block');
      CheckEqual(Answer.Blocks[0].Text, Answer.Text, 'its text');
      Status := 0;
      try
        Answer.Blocks[5];
      except
        on E: EMcpError do
          Status := E.Status;
      end;
      CheckEqual(Status, MCP_E_ARGUMENT, 'a block that is not there');
    finally
      Answer.Free;
    end;
    Answer := Client.CallToolWait('add', McpArgs(['a', 2, 'b', 40]), Patience);
    CheckEqual(Answer.Text, '42', 'add');
    Answer.Free;
    Answer := Client.CallToolWait('tool_error', '', Patience);
    Check(Answer.IsError, 'a tool''s own error is a result');
    Answer.Free;
    Answer := Client.CallToolWait('big', McpArgs(['bytes', 1000000]), Patience);
    CheckEqual(Length(Answer.Text), 1000000, 'a big text');
    Answer.Free;
    Tools := Client.ListTools(Patience);
    Found := False;
    for I := 0 to High(Tools) do
      Found := Found or (Tools[I].Name = 'echo') and McpJsonIsObject(McpUtf8(Tools[I].InputSchema));
    Check(Found, 'tools are listed');
    Check(McpJsonIsObject(McpUtf8(Client.Request('tools/list', '', Patience))), 'any request');
    Check(Pos('test_simple_prompt', Client.ListPrompts(Patience)) > 0, 'prompts');
    Check(Pos('test://static-text', Client.ListResources(Patience, 'until_changed')) > 0, 'resources');
    Check(Pos('test://template/{id}/data', Client.ListResourceTemplates(Patience)) > 0, 'templates');
    CheckEqual(Client.ExpandUriTemplate('test://template/{id}/data', McpArgs(['id', 'a b'])), 'test://template/a%20b/data',
      'a template expanded');
    Check(Pos('static text resource', Client.ReadResource('test://static-text', Patience, 'off')) > 0, 'a resource');
    Check(Pos('simple prompt', Client.GetPrompt('test_simple_prompt', '', Patience)) > 0, 'a prompt');
    Check(Pos('arg1=''x''', Client.GetPrompt('test_prompt_with_arguments', McpArgs(['arg1', 'x', 'arg2', 'y']), Patience)) > 0,
      'a prompt with arguments');
    CheckEqual(McpJsonRaw(McpUtf8(Client.CompletePrompt('p', 'city', 'pari', '', Patience)), 'values'), '["paris"]',
      'a completion of a prompt');
    Check(Pos('"park"', Client.CompleteTemplate('test://template/{id}/data', 'id', 'park', McpArgs(['a', 'b']), Patience)) > 0,
      'a completion of a template');
    CheckEqual(Client.ToolsGeneration + Client.PromptsGeneration + Client.ResourcesGeneration, 3, 'generations');
    Status := 0;
    try
      Client.CallToolWait('no_such_tool', '', Patience).Free;
    except
      on E: EMcpError do
      begin
        Status := E.Status;
        Check(E.RpcCode <> 0, 'the peer''s code: ' + IntToStr(E.RpcCode));
      end;
    end;
    CheckEqual(McpStatusName(Status), 'MCP_E_RPC', 'an unknown tool');
    Status := 0;
    try
      Client.CallToolWait('echo', '[1]', Patience).Free;
    except
      on E: EMcpError do
        Status := E.Status;
    end;
    CheckEqual(McpStatusName(Status), 'MCP_E_ARGUMENT', 'arguments that are no object');
    Check(McpJsonIsObject(McpUtf8(Client.Stats)), 'stats');
    Client.Poke;
    Client.Close;
    Check(Client.WaitClosed(Patience), 'closed');
    Check(not Client.Active, 'not active');
    Check(Client.WaitOpen(Patience), 'opened again');
  finally
    Client.Free;
  end;
end;

procedure TestBlocks;
var
  Client: TMcpClient;
  Answer: TMcpResult;
  Block: TMcpBlock;
begin
  Client := NewClient;
  try
    Client.WaitOpen(Patience);
    Answer := Client.CallToolWait('binary', '', Patience);
    try
      CheckEqual(Answer.BlockCount, 5, 'five blocks');
      Block := Answer.Blocks[1];
      Check(Block.Kind = bkImage, 'an image');
      Check((Length(Block.Bytes) > 8) and (Block.Bytes[1] = Ord('P')) and (Block.Bytes[2] = Ord('N')), 'decoded');
      Check(Answer.Blocks[2].Kind = bkAudio, 'audio');
      Check(Length(Answer.Blocks[3].Bytes) > 8, 'bytes of a resource');
      Check(Answer.Blocks[4].Kind = bkResourceLink, 'a link');
    finally
      Answer.Free;
    end;
  finally
    Client.Free;
  end;
end;

procedure TestTask;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Task: TMcpTask;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    Check(Client.CallTool('slow_job', McpArgs(['steps', 4, 'step_ms', 100, 'poll_ms', 100]), '{"tool_call_id":"call_7"}') > 0, 'a call id');
    Check(Watcher.Await, 'the task ended');
    CheckEqual(Watcher.Log, 'created response-task status completed', 'order of events');
    CheckEqual(Watcher.Text, 'done', 'its text');
    Check(Watcher.Reason = trCompleted, 'reason');
    Check(Watcher.MainThread and not Watcher.OtherThread, 'events ran on the main thread');
    Task := Client.TaskOpen(Watcher.TaskId);
    try
      Check(Task.IsTerminal and (Task.Status = tsCompleted), 'terminal');
      CheckEqual(Task.ToolName, 'slow_job', 'tool');
      CheckEqual(Task.ToolCallId, 'call_7', 'tool call id');
      Check(Task.CreatedAt > 0, 'created at ' + FormatDateTime('yyyy-mm-dd hh:nn:ss', Task.CreatedAt));
      CheckEqual(Task.PollIntervalMs, 100, 'poll interval');
      Check(Task.Result <> nil, 'a result');
      Check(not Task.Error.Failed, 'no error');
      Check(not Task.Cancel, 'nothing left to cancel');
    finally
      Task.Free;
    end;
    CheckEqual(Length(Client.TaskList), 0, 'nothing pending');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestTaskWait;
var
  Client: TMcpClient;
  Answer: TMcpResult;
  Task: TMcpTask;
  Watcher: TWatcher;
  Status: Integer;
  List: TMcpTaskInfos;
  Start: Int64;
begin
  Watcher := TWatcher.Create(mdNestedCall);
  Client := NewClient;
  try
    Client.WaitOpen(Patience);
    Answer := Client.CallToolWait('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'poll_ms', 100]), Patience);
    CheckEqual(Answer.Text, 'done', 'one call through a task, nobody listening');
    Answer.Free;
    Client.OnTaskCreated := Watcher.Created;
    Watcher.Client := Client;
    Answer := Client.CallToolWait('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'poll_ms', 100]), Patience);
    CheckEqual(Answer.Text, 'done', 'one call through a task, with a handler');
    Answer.Free;
    Check(Watcher.Nested <> '', 'a call inside a handler');
    Check(Watcher.KeptTask <> nil, 'a task kept');
    Check(Watcher.KeptTask.Wait(Patience) and Watcher.KeptTask.IsTerminal, 'waited for');
    Watcher.Mode := mdWatch;
    Status := 0;
    Start := McpTicks;
    try
      Client.CallToolWait('slow_job', McpArgs(['steps', 100, 'step_ms', 1000, 'poll_ms', 100]), 400).Free;
    except
      on E: EMcpError do
        Status := E.Status;
    end;
    CheckEqual(McpStatusName(Status), 'MCP_E_TIMEOUT', 'time ran out');
    Check(McpTicks - Start < 5000, 'in time');
    Client.CallTool('slow_job', McpArgs(['steps', 100, 'step_ms', 1000, 'poll_ms', 100]), '{"tool_call_id":"b"}');
    Watcher.TaskId := '';
    Start := McpTicks;
    while (Watcher.TaskId = '') and (McpTicks - Start < Patience) do
      McpPump(20);
    List := Client.TaskList('b');
    CheckEqual(Length(List), 1, 'one is pending');
    if Length(List) = 1 then
      CheckEqual(List[0].ToolName, 'slow_job', 'its tool');
    Task := Client.TasksGet(Watcher.TaskId, Patience);
    try
      Check(Task.Status = tsWorking, 'working');
      Check(not Task.Wait(50), 'a wait that runs out says False');
      Check(Task.Cancel, 'asked to stop');
      Check(Task.Wait(Patience), 'ended');
      Check(Task.Reason = trCancelled, 'as cancelled');
      Check(Task.Status = tsCancelled, 'status cancelled');
    finally
      Task.Free;
    end;
    CheckEqual(Client.Check(Patience, 'nobody'), '[]', 'nothing finished for another tool call');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestWaitMany;
var
  Client: TMcpClient;
  Tasks: array[0..2] of TMcpTask;
  Watcher: TWatcher;
  I: Integer;
  Start: Int64;
begin
  Watcher := TWatcher.Create(mdWatch);
  Client := NewClient;
  FillChar(Tasks, SizeOf(Tasks), 0);
  try
    Client.WaitOpen(Patience);
    Client.OnTaskCreated := Watcher.Created;
    for I := 0 to 2 do
    begin
      Watcher.TaskId := '';
      Client.CallTool('slow_job', McpArgs(['steps', 1 + 1000 * Ord(I <> 1), 'step_ms', 20, 'poll_ms', 100]),
        '{"context":{"chat":' + IntToStr(I) + '}}');
      Start := McpTicks;
      while (Watcher.TaskId = '') and (McpTicks - Start < Patience) do
        McpPump(20);
      Tasks[I] := Client.TasksGet(Watcher.TaskId, Patience);
    end;
    Check(McpWaitAny(Tasks, Patience) = Tasks[1], 'the short one ends first');
    Check(Tasks[1].IsTerminal, 'and the object knows it');
    Check(McpWaitAny([Tasks[0], Tasks[2]], 50) = nil, 'a wait that runs out');
    Check(not McpWaitAll(Tasks, 50), 'not all');
    CheckEqual(Length(Client.TaskList('', '{"chat":2}')), 1, 'one of that chat');
    CheckEqual(Length(Client.TaskList('', '{"chat":9}')), 0, 'none of another');
    CheckEqual(Client.Check(Patience, '', '{"chat":9}'), '[]', 'nothing finished there');
    Tasks[0].Cancel;
    Tasks[2].Cancel;
    Check(McpWaitAll(Tasks, Patience), 'all');
    Check(Tasks[0].Reason = trCancelled, 'as they ended');
    Check(McpWaitAll([], 0) and (McpWaitAny([], 0) = nil), 'of none');
  finally
    for I := 0 to 2 do
      Tasks[I].Free;
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestTaskFails;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Status: Integer;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    Client.CallTool('fail_job', McpArgs(['steps', 1, 'step_ms', 10, 'poll_ms', 100]));
    Check(Watcher.Await, 'the task ended');
    Check(Watcher.Reason = trFailed, 'as failed');
    CheckEqual(Watcher.Error.RpcCode, -32050, 'with the server''s code');
    CheckEqual(McpJsonStr(McpUtf8(Watcher.Error.RpcData), 'reason'), 'scripted', 'and data');
    Status := 0;
    try
      Client.CallToolWait('fail_job', McpArgs(['steps', 1, 'step_ms', 10, 'poll_ms', 100]), Patience).Free;
    except
      on E: EMcpError do
      begin
        Status := E.Status;
        CheckEqual(E.RpcCode, -32050, 'the exception has the code');
      end;
    end;
    CheckEqual(McpStatusName(Status), 'MCP_E_TASK_FAILED', 'waited for, it raises');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestQuestion;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Answer: TMcpResult;
  Start: Int64;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    Client.CallTool('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 100]));
    Check(Watcher.Await, 'a task with a question ended');
    CheckEqual(Watcher.Question, 'Go on?', 'the question');
    Check(Pos('asked', Watcher.Log) > 0, Watcher.Log);
    CheckDone(Watcher.Text, 'its text');
    { the same, waited for on the main thread: the handler must still run }
    Answer := Client.CallToolWait('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 100]), Patience);
    CheckDone(Answer.Text, 'a blocking call whose question an event answers');
    Answer.Free;
    Answer := Client.CallToolWait('ask_first', '', Patience);
    CheckEqual(McpJsonRaw(McpUtf8(McpJsonRaw(McpUtf8(Answer.Structured), 'ask-1')), 'action'), '"accept"', 'a question before the answer');
    Answer.Free;
    { hours later, from elsewhere }
    Watcher.Mode := mdLater;
    Watcher.Done := False;
    Watcher.Text := '';
    Client.CallTool('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 100]));
    Start := McpTicks;
    while (Watcher.Kept = nil) and (McpTicks - Start < Patience) do
      McpPump(20);
    Check(Watcher.Kept <> nil, 'a question kept');
    if Watcher.Kept <> nil then
    begin
      CheckEqual(Watcher.Kept.Method, 'elicitation/create', 'method');
      Check(Watcher.Kept.TaskId <> '', 'of a task');
      with Client.TaskOpen(Watcher.Kept.TaskId) do
        try
          CheckEqual(Length(InputRequests), 1, 'the task shows it');
          if Length(InputRequests) = 1 then
            CheckEqual(InputRequests[0].Message, 'Go on?', 'with its message');
        finally
          Free;
        end;
      Check(Watcher.Kept.Answer(McpArgs(['value', 'later'])), 'answered later');
      Check(not Watcher.Kept.Answer(McpArgs(['value', 'twice'])), 'once only');
    end;
    Check(Watcher.Await, 'and the task ended');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TWatcher.Subscribed(Sender: TObject; const News: TMcpSubscription);
const
  Names: array[TMcpSubscriptionState] of string = ('active', 'lost', 'catch-up', 'ended');
begin
  Note(Names[News.State] + ' ' + News.Json);
  CallId := News.CallId;
  Error := News.Error;
  Done := True;
end;

procedure TWatcher.Heard(Sender: TObject; ACallId: Int64; const Method, Params: string);
begin
  Note(Method);
  CallId := ACallId;
  Done := True;
end;

{ BR-46: what a subscription hears, and where it stands. }
procedure TestSubscribe;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Id: Int64;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Client.OnSubscription := Watcher.Subscribed;
    Client.OnHeard := Watcher.Heard;
    Client.WaitOpen(Patience);
    Id := Client.Subscribe('{"toolsListChanged":true}');
    Check(Watcher.Await, 'the server acknowledged');
    CheckEqual(Watcher.CallId, Id, 'the id of the call');
    Watcher.Done := False;
    Client.CallToolWait('change', McpArgs(['what', 'tools']), Patience).Free;
    Check(Watcher.Await, 'a change came');
    CheckEqual(Watcher.CallId, Id, 'with the id of the call');
    Watcher.Done := False;
    Check(Client.CancelCall(Id), 'cancelled');
    Check(Watcher.Await, 'its end is told');
    CheckEqual(McpStatusName(Watcher.Error.Status), 'MCP_E_CANCELLED', 'as cancelled');
    CheckEqual(Watcher.Log, 'active {"toolsListChanged":true} notifications/tools/list_changed ended ', 'in this order');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestProgress;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Answer: TMcpResult;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    Answer := Client.CallToolWait('progress', McpArgs(['n', 5, 'gap_ms', 30]), Patience);
    CheckEqual(Answer.Text, '5 steps', 'result');
    Answer.Free;
    McpPump(20);
    CheckEqual(Watcher.Responses, 0, 'a call that was waited for is told once');
    Check(Watcher.Progress > 0, 'progress was told: ' + IntToStr(Watcher.Progress));
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestCancelCall;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Id, Start: Int64;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    Start := McpTicks;
    Id := Client.CallTool('sleep', McpArgs(['ms', 60000]));
    Check(Client.CancelCall(Id), 'cancelled');
    Check(Watcher.Await, 'the call ended');
    CheckEqual(McpStatusName(Watcher.Error.Status), 'MCP_E_CANCELLED', 'as cancelled');
    Check(McpTicks - Start < 5000, 'at once');
    Check(not Client.CancelCall(Id), 'nothing left to cancel');
    Id := Client.CallTool('echo', '{"a":1}');
    Watcher.Done := False;
    Check(Watcher.Await, 'the client still works');
    Check(not Client.CancelCall(Id), 'a call that is over');
    CheckEqual(Watcher.Responses, 2, 'two responses');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

{ BR-48, Pascal: what a handler raises does not reach the library, on whatever thread the handler runs. }
procedure TestRaise;
var
  Client, Other: TMcpClient;
  Watcher: TWatcher;
  Kind: TMcpEventThread;
  Answer: TMcpResult;
  Start: Int64;
begin
  Other := NewClient;
  try
    Other.WaitOpen(Patience);
    for Kind := etMain to etManual do
    begin
      Watcher := TWatcher.Create(mdRaise);
      Client := NewClient;
      try
        Watcher.Attach(Client);
        Client.EventThread := Kind;
        Client.WaitOpen(Patience);
        Client.CallTool('progress', McpArgs(['n', 3, 'gap_ms', 5]));
        Check(Watcher.Await, 'BR-48: the call ended');
        Watcher.Done := False;
        Client.CallTool('slow_job', McpArgs(['steps', 3, 'step_ms', 80, 'poll_ms', 100]));
        Check(Watcher.Await, 'BR-48: the task ended');
        CheckEqual(Watcher.Text, 'done', 'BR-48: with its result');
        Answer := Client.CallToolWait('add', McpArgs(['a', 2, 'b', 3]), Patience);
        CheckEqual(Answer.Text, '5', 'BR-48: the client is usable');
        Answer.Free;
        Start := McpTicks;
        while not Watcher.CaughtLast and (McpTicks - Start < Patience) do
          McpPump(20);
        Client.Close;
        Check(Client.WaitClosed(Patience), 'BR-48: and closes');
        Check(Pos('raised in OnProgress;', Watcher.Caught) > 0, 'BR-48: OnCallbackError got the one of OnProgress');
        Check(Pos('raised in OnToolResponse;', Watcher.Caught) > 0, 'BR-48: OnToolResponse');
        Check(Pos('raised in OnTaskCreated;', Watcher.Caught) > 0, 'BR-48: OnTaskCreated');
        Check(Pos('raised in OnTaskStatus;', Watcher.Caught) > 0, 'BR-48: OnTaskStatus');
        Check(Pos('raised in OnTaskCompleted;', Watcher.Caught) > 0, 'BR-48: OnTaskCompleted');
      finally
        Client.Free;
        Watcher.Free;
      end;
    end;
    Answer := Other.CallToolWait('add', McpArgs(['a', 20, 'b', 3]), Patience);
    CheckEqual(Answer.Text, '23', 'BR-48: another client was not touched');
    Answer.Free;
  finally
    Other.Free;
  end;
end;

var
  Hooked: string;

procedure Hook(Sender, Error: TObject);
begin
  if (Hooked = '') and (Error is Exception) then { once: it is read while more come }
    Hooked := Exception(Error).Message;
end;

procedure TestRaiseHook;
var
  Client: TMcpClient;
  Watcher: TWatcher;
begin
  Watcher := TWatcher.Create(mdRaise);
  Client := NewClient;
  McpUnhandledException := Hook;
  try
    Watcher.Attach(Client);
    Client.OnCallbackError := nil;
    Client.EventThread := etLibrary;
    Client.WaitOpen(Patience);
    Client.CallTool('slow_job', McpArgs(['steps', 1, 'step_ms', 10, 'poll_ms', 100]));
    Check(Watcher.Await, 'BR-48: the task still ended, events on a thread of the unit');
    Check(Watcher.OtherThread and not Watcher.MainThread, 'they ran there');
    Check(Pos('raised in', Hooked) = 1, 'BR-48: the hook got it: ' + Hooked);
  finally
    McpUnhandledException := nil;
    Client.Free;
    Watcher.Free;
  end;
end;

procedure FreeInside(Mode: TMode; EventThread: TMcpEventThread; const What: string);
var
  Watcher: TWatcher;
  Start: Int64;
begin
  Watcher := TWatcher.Create(Mode);
  try
    Watcher.Attach(NewClient);
    Watcher.Client.EventThread := EventThread;
    Watcher.Client.WaitOpen(Patience);
    Start := McpTicks;
    Watcher.Client.CallTool('slow_job', McpArgs(['steps', 1000, 'step_ms', 1000, 'poll_ms', 100]));
    Check(Watcher.Await, What);
    while (Watcher.Client <> nil) and (McpTicks - Start < Patience) do
      McpPump(20);
    Check(Watcher.Client = nil, What + ': gone');
    Check(McpTicks - Start < 10000, What + ': in bounded time');
    McpPump(20);
    CheckEqual(Watcher.Log, 'created', What + ': nothing came afterwards');
    if Mode = mdRelease then
      CheckEqual(Watcher.Nested, ServerUrl, What + ': alive to the end of the handler');
  finally
    Watcher.Free;
  end;
end;

procedure TestFreeInside;
begin
  FreeInside(mdFree, etMain, 'Free inside an event');
  FreeInside(mdRelease, etMain, 'Release inside an event');
  FreeInside(mdFree, etLibrary, 'Free inside an event on the unit''s thread');
  FreeInside(mdRelease, etLibrary, 'Release inside an event on the unit''s thread');
end;

procedure TestFreeBusy;
var
  Client: TMcpClient;
  I: Integer;
  Start: Int64;
  Kind: TMcpEventThread;
  Watcher: TWatcher;
begin
  for Kind := etMain to etManual do
  begin
    Watcher := TWatcher.Create;
    Client := NewClient;
    Watcher.Attach(Client);
    Client.EventThread := Kind;
    Client.WaitOpen(Patience);
    for I := 1 to 20 do
      Client.CallTool('sleep', McpArgs(['ms', 60000]));
    for I := 1 to 20 do
      Client.CallTool('echo', '{}');
    Start := McpTicks;
    Client.Free;
    Check(McpTicks - Start < 8000, Format('freed with calls in flight in %d ms', [McpTicks - Start]));
    Watcher.Free;
  end;
end;

procedure TestManual;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Answer: TMcpResult;
  Start: Int64;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.EventThread := etManual;
    Client.WaitOpen(Patience);
    Client.CallTool('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 100]));
    Start := McpTicks;
    while not Watcher.Done and (McpTicks - Start < Patience) do
      Client.DispatchEvents(50);
    CheckDone(Watcher.Text, 'a task, events by hand');
    Answer := Client.CallToolWait('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 100]), Patience);
    CheckDone(Answer.Text, 'a blocking call on the serving thread');
    Answer.Free;
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

type
  TCaller = class(TThread)
  protected
    procedure Execute; override;
  public
    Client: TMcpClient;
    Good: Integer;
  end;

procedure TCaller.Execute;
var
  I: Integer;
  Answer: TMcpResult;
begin
  try
    for I := 1 to 25 do
    begin
      Answer := Client.CallToolWait('add', McpArgs(['a', I, 'b', 1]), Patience);
      if Answer.Text = IntToStr(I + 1) then
        Inc(Good);
      Answer.Free;
    end;
  except
    Good := -1000;
  end;
end;

procedure TestThreads;
var
  Client: TMcpClient;
  Callers: array[0..3] of TCaller;
  I, Sum: Integer;
  Watcher: TWatcher;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    for I := 0 to High(Callers) do
    begin
      Callers[I] := TCaller.Create(True);
      Callers[I].Client := Client;
      Callers[I].Start;
    end;
    Sum := 0;
    for I := 0 to High(Callers) do
    begin
      Callers[I].WaitFor;
      Sum := Sum + Callers[I].Good;
      Callers[I].Free;
    end;
    CheckEqual(Sum, 100, 'four threads, one client');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

procedure TestManyCalls;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  I: Integer;
  Start: Int64;
begin
  Watcher := TWatcher.Create;
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.WaitOpen(Patience);
    for I := 1 to 600 do
      Client.CallTool('echo', McpArgs(['i', I]));
    Start := McpTicks;
    while (Watcher.Responses < 600) and (McpTicks - Start < Patience) do
      McpPump(20);
    CheckEqual(Watcher.Responses, 600, 'every call was answered once');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

{ The host's floating-point traps: they stay armed, also inside handlers, and no number of a server's sets one off. }
const
  Armed = [exDenormalized, exUnderflow, exPrecision]; { masked; the others trap }
  Huge = '{\"huge\":17976931348623159e300,\"more\":1e999,\"less\":-1e999,\"tiny\":1e-999}';
  Numbers = '{"rules":[' +
    '{"match":{"method":"tools/call","name":"echo"},"do":{"sse":[' +
    '{"raw":"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":' +
    '{\"progressToken\":$token,\"progress\":17976931348623159e300,\"total\":1e999}}\n\n"},' +
    '{"raw":"data: {\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",' +
    '\"content\":[{\"type\":\"text\",\"text\":\"numbers\",\"size\":1e999}],\"structuredContent\":' + Huge + '}}\n\n"}]}},' +
    '{"match":{"method":"tasks/get","nth":1,"per":"connection"},"do":{"headers":{"Content-Type":"application/json"},"body":' +
    '"{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"resultType\":\"complete\",\"taskId\":\"$taskId\",\"status\":\"working\",' +
    '\"statusMessage\":\"numbers\",\"createdAt\":\"2026-07-28T00:00:00Z\",\"lastUpdatedAt\":\"2026-07-28T00:00:00Z\",' +
    '\"ttlMs\":17976931348623159e300,\"pollIntervalMs\":1e999}}"}}]}';

procedure FloatWith(const Url: string; Kind: TMcpEventThread; const What: string);
var
  Client: TMcpClient;
  Answer: TMcpResult;
  Watcher: TWatcher;
begin
  SetExceptionMask(Armed);
  Check(HostTraps, What + ': traps are armed');
  Watcher := TWatcher.Create(mdTraps);
  Client := NewClient;
  try
    Client.Url := Url;
    Watcher.Attach(Client);
    Client.EventThread := Kind;
    Client.WaitOpen(Patience);
    Answer := Client.CallToolWait('echo', '{"huge":17976931348623159e300,"more":1e999,"tiny":1e-999}', Patience);
    CheckEqual(Answer.Text, 'numbers', What + ': numbers beyond Double travel');
    CheckEqual(Answer.Structured, StringReplace(Huge, '\', '', [rfReplaceAll]), What + ': and arrive as they were sent');
    Answer.Free;
    Check(HostTraps, What + ': still armed after a call');
    Client.CallTool('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'poll_ms', 50]));
    Check(Watcher.Await, What + ': a task whose answers have such numbers ends');
    CheckEqual(Watcher.Text, 'done', What + ': with its result');
    Check(Watcher.Progress > 0, What + ': progress with such numbers is told');
    Check((Watcher.Trapped > 2) and (Watcher.Untrapped = 0), Format('%s: armed in %d handlers, not in %d',
      [What, Watcher.Trapped, Watcher.Untrapped]));
    Client.Close;
    Client.WaitClosed(Patience);
    Check(HostTraps, What + ': still armed at the end');
    Check(GetExceptionMask = Armed, What + ': the mask is the same');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

var
  RawTrapped, RawUntrapped, RawLast: Integer;

{ Called by the library itself, inside mcp_queue_dispatch: what a host does that needs no component. }
procedure RawEvent(Event: PMcpEvent; User: Pointer); cdecl;
begin
  RawLast := mcp_event_kind(Event); { an entry point inside a callback }
  if HostTraps then
    Inc(RawTrapped)
  else
    Inc(RawUntrapped);
end;

procedure Must(Status: Integer);
begin
  McpNative.Errors.McpCheck(Status); { the unit McpCheck hides the plain name }
end;

procedure FloatRaw(const Url: string);
var
  Client: PMcpClient;
  Queue: PMcpQueue;
  Call: PMcpCall;
  Settings: UTF8String;
  Start: Int64;
begin
  SetExceptionMask(Armed);
  RawTrapped := 0;
  RawUntrapped := 0;
  Settings := UTF8String('{"url":"') + McpUtf8(Url) + UTF8String('"}');
  Must(mcp_client_new(McpPtr(Settings), Length(Settings), Client));
  Must(mcp_queue_new(Queue));
  Must(mcp_client_set_queue(Client, Queue));
  Must(mcp_client_on(Client, MCP_EVENT_ANY, RawEvent, nil, nil));
  Must(mcp_client_open(Client));
  Must(mcp_client_wait_open(Client, Patience));
  Must(mcp_tool_call(Client, 'echo', nil, 0, nil, 0, Call));
  Start := McpTicks;
  while (RawLast <> MCP_EVENT_CALL_DONE) and (McpTicks - Start < Patience) do
    Must(mcp_queue_dispatch(Queue, 100, nil));
  CheckEqual(mcp_call_status(Call), MCP_OK, 'callback of the library: the call ended');
  Must(mcp_call_free(Call));
  Must(mcp_client_close(Client));
  CheckEqual(mcp_client_wait_closed(Client, Patience), MCP_OK, 'callback of the library: closed');
  Must(mcp_client_free(Client));
  Must(mcp_queue_free(Queue));
  Check((RawTrapped > 2) and (RawUntrapped = 0), Format('callback of the library: armed in %d, not in %d', [RawTrapped, RawUntrapped]));
  Check(HostTraps, 'callback of the library: still armed afterwards');
end;

procedure TestFloat;
var
  Url: string;
  Before: TFPUExceptionMask;
begin
  Url := ScriptedUrl(Numbers);
  if Url = '' then
  begin
    Check(True, 'not tried: no server that takes a script');
    Exit;
  end;
  Before := GetExceptionMask;
  try
    FloatWith(Url, etMain, 'events on the main thread');
    FloatWith(Url, etLibrary, 'events on the unit''s thread');
    FloatWith(Url, etManual, 'events by hand');
    FloatRaw(Url);
  finally
    SetExceptionMask(Before);
  end;
end;

{ A result that does not match its schema is a failure, and is at hand all the same. }
procedure TestSchema;
const
  Answer = '{"content":[{"type":"text","text":"words"}],"structuredContent":{"n":1}}';
  Listed = '"inputSchema":{"type":"object"},"outputSchema":{"type":"object","required":["files"]}}';
  Script = '{"options":{"poll_interval_ms":10},"rules":['
    + '{"match":{"method":"tools/list"},"do":{"result":{"tools":[{"name":"plain",' + Listed + ',{"name":"slow",' + Listed + ']}}},'
    + '{"match":{"method":"tools/call","name":"plain"},"do":{"result":' + Answer + '}}],'
    + '"tasks":[{"tool":"slow","polls":[{"task":{"status":"completed","result":' + Answer + '}}]}]}';
var
  Client: TMcpClient;
  Url: string;
  Kind: TMcpEventThread;

  procedure Try_(const Tool: string);
  var
    Raised: Boolean;
  begin
    Raised := False;
    try
      Client.CallToolWait(Tool, '{}', Patience).Free;
    except
      on E: EMcpSchemaError do
      begin
        Raised := True;
        CheckEqual(E.Status, MCP_E_SCHEMA, Tool + ': the status');
        CheckBegins(E.Info.Message, 'the result of tool ' + Tool + ' does not match its outputSchema: required', Tool + ': says what');
        CheckEqual(E.Answer.Structured, '{"n":1}', Tool + ': the result is at hand');
      end;
    end;
    Check(Raised, Tool + ': a result that does not match is a failure');
  end;

begin
  Url := ScriptedUrl(Script);
  if Url = '' then
  begin
    Check(True, 'not tried: no server that takes a script');
    Exit;
  end;
  for Kind := etMain to etManual do
  begin
    Client := TMcpClient.Create(nil);
    try
      Client.Url := Url;
      Client.EventThread := Kind;
      Client.WaitOpen(Patience);
      Client.ListTools(Patience);
      Try_('plain');
      Try_('slow');
    finally
      Client.Free;
    end;
  end;
end;

{ Questions to be answered by hand, and questions of the other kinds. }
procedure TestByHand;
var
  Client: TMcpClient;
  Watcher: TWatcher;
  Task: TMcpTask;
  List: TMcpTaskInfos;
  Kind: TMcpEventThread;

  function Refused(const Tool, Arguments: string): string;
  begin
    Result := 'nothing raised';
    try
      Client.CallToolWait(Tool, Arguments, Patience).Free;
    except
      on E: EMcpError do
        Result := E.Message;
    end;
  end;

begin
  for Kind := etMain to etManual do
  begin
    Watcher := TWatcher.Create;
    Client := NewClient;
    try
      Watcher.Attach(Client);
      Client.EventThread := Kind;
      Client.Settings.Text := '{"input":{"elicitation":"manual"}}';
      Client.WaitOpen(Patience);
      CheckBegins(Refused('ask_first', '{}'), 'MCP_E_INPUT_REQUIRED: ', 'a call that asks');
      CheckBegins(Refused('slow_job', McpArgs(['steps', 2, 'step_ms', 20, 'ask', True, 'poll_ms', 50])), 'MCP_E_INPUT_REQUIRED: ',
        'a task that asks');
      List := Client.TaskList;
      CheckEqual(Length(List), 1, 'the task goes on');
      if Length(List) = 1 then
      begin
        Task := Client.TaskOpen(List[0].TaskId);
        try
          Check(not Task.Wait(Patience) and (Task.Status = tsInputRequired), 'a wait ends with the question');
          CheckEqual(Length(Task.InputRequests), 1, 'it is in the task');
          Check(Task.Accept('ask-1', McpArgs(['value', 'yes']), Patience), 'accepted');
          Check(not Task.Accept('ask-1', McpArgs(['value', 'yes']), Patience), 'once only');
          Check(Task.Wait(Patience), 'it ended');
          CheckDone(Task.Text, 'its text');
        finally
          Task.Free;
        end;
      end;
    finally
      Client.Free;
      Watcher.Free;
    end;
  end;
  Watcher := TWatcher.Create(mdFail);
  Client := NewClient;
  try
    Watcher.Attach(Client);
    Client.InputKinds := [ikElicitation, ikSampling, ikRoots];
    Client.WaitOpen(Patience);
    CheckBegins(Refused('ask_first', McpArgs(['kind', 'sampling'])), 'MCP_E_INPUT_REFUSED: ', 'sampling refused');
    Check(Watcher.QuestionKind = ikSampling, 'its kind');
    Check(Watcher.CallId > 0, 'the call that asks');
    CheckBegins(Refused('ask_first', McpArgs(['kind', 'roots'])), 'MCP_E_INPUT_REFUSED: ', 'roots refused');
    Check(Watcher.QuestionKind = ikRoots, 'its kind');
  finally
    Client.Free;
    Watcher.Free;
  end;
end;

{ A task that another client has made, taken up by its id. }
procedure TestResumed;
var
  Maker, Client: TMcpClient;
  Watcher: TWatcher;
begin
  Watcher := TWatcher.Create;
  Maker := NewClient;
  Client := NewClient;
  try
    Watcher.Attach(Maker);
    Maker.WaitOpen(Patience);
    Maker.CallTool('slow_job', McpArgs(['steps', 4, 'step_ms', 100, 'poll_ms', 50]));
    Watcher.AwaitTask;
    FreeAndNil(Maker);
    Watcher.Log := '';
    Watcher.Attach(Client);
    Client.OnTaskResumed := Watcher.Resumed;
    Client.WaitOpen(Patience);
    Client.TaskOpen(Watcher.TaskId).Free;
    Check(Watcher.Await, 'the task ended');
    CheckBegins(Watcher.Log, 'resumed ', 'order of events: ' + Watcher.Log);
    CheckEqual(Watcher.Text, 'done', 'its text');
  finally
    Maker.Free;
    Client.Free;
    Watcher.Free;
  end;
end;

{ What one client leaves in a file, the next one goes on with. }
procedure TestLedger;
var
  Maker, Client: TMcpClient;
  Watcher: TWatcher;
  Folder, RecordJson: string;
  Task: TMcpTask;
  Start: Int64;
begin
  Folder := IncludeTrailingPathDelimiter({$IFDEF FPC}GetTempDir{$ELSE}GetEnvironmentVariable('TEMP'){$ENDIF}) + 'mcpnative-pascal-' + IntToStr(McpTicks);
  Check(CreateDir(Folder), 'a folder for the ledger');
  Watcher := TWatcher.Create;
  Maker := NewClient;
  Client := NewClient;
  try
    Maker.Tasks.Ledger := Folder + PathDelim + 'tasks.db';
    Client.Tasks.Assign(Maker.Tasks);
    Watcher.Attach(Maker);
    Maker.WaitOpen(Patience);
    Maker.CallTool('slow_job', McpArgs(['steps', 4, 'step_ms', 100, 'poll_ms', 50]));
    Watcher.AwaitTask;
    Task := Maker.TaskOpen(Watcher.TaskId);
    RecordJson := Task.ExportRecord;
    Task.Free;
    FreeAndNil(Maker);
    Watcher.Log := '';
    Watcher.Attach(Client);
    Client.OnTaskResumed := Watcher.Resumed;
    Client.WaitOpen(Patience);
    Check(Watcher.Await, 'the task ended');
    CheckBegins(Watcher.Log, 'resumed ', 'order of events: ' + Watcher.Log);
    { the event may come a moment before the client has put the task away }
    Start := McpTicks;
    Task := Client.TaskImport(RecordJson);
    while (not Task.Repeated) and (McpTicks - Start < Patience) do
    begin
      Task.Free;
      Task := Client.TaskImport(RecordJson);
    end;
    Check(Task.Repeated, 'an end from the ledger is marked');
    Check(Task.Acknowledge, 'acknowledged');
    Task.Free;
    CheckEqual(Client.Purge, 1, 'purged');
  finally
    Maker.Free;
    Client.Free;
    Watcher.Free;
    DeleteFile(Folder + PathDelim + 'tasks.db');
    RemoveDir(Folder);
  end;
end;

type
  { Any function of the library, asked with nothing but a handle: surplus arguments do no harm in cdecl. }
  TAnyDoor = function(Handle: Pointer; A, B, C, D, E, F, G: NativeUInt): Int64; cdecl;

var
  Doors: array of TAnyDoor;
  DoorNames: TStringList;
  {$IFDEF FPC}
  DoorHandle: TLibHandle;
  {$ELSE}
  DoorHandle: HMODULE;
  {$ENDIF}

function Collect(const Name: AnsiString): Pointer;
begin
  Result := {$IFDEF FPC}GetProcedureAddress(DoorHandle, Name){$ELSE}GetProcAddress(DoorHandle, PAnsiChar(Name)){$ENDIF};
  SetLength(Doors, Length(Doors) + 1);
  @Doors[High(Doors)] := Result;
  DoorNames.Add(string(Name));
end;

{ BR-48: every function that takes a handle, with one that is none: an error code or nil, never a crash. }
procedure TestDoors;
const
  NoHandle: array[0..10] of string = ('mcp_clock_hold', 'mcp_clock_advance', 'mcp_clock_release', 'mcp_abi_version', 'mcp_version', 'mcp_status_name', 'mcp_last_error', 'mcp_shutdown', 'mcp_log_on',
    'mcp_queue_new', 'mcp_client_new');
var
  I, J, Code: Integer;
  Tried, Wrong: Integer;
  Skip: Boolean;
  Bad: array[0..2] of Pointer;
  Freed: PMcpClient;
begin
  McpLoad;
  Check(mcp_client_new('{"url":"http://127.0.0.1:9/mcp"}', 32, Freed) = MCP_OK, 'BR-48: a client');
  Check(mcp_client_free(Freed) = MCP_OK, 'BR-48: freed');
  CheckEqual(mcp_client_free(Freed), MCP_E_HANDLE, 'BR-48: freed twice');
  Bad[0] := nil;
  Bad[1] := Freed;
  Bad[2] := Pointer(NativeUInt(12345));
  DoorNames := TStringList.Create;
  DoorHandle := SafeLoadLibrary(McpLibraryPath);
  McpAbiBind(Collect);
  Tried := 0;
  Wrong := 0;
  for I := 0 to High(Doors) do
  begin
    Skip := False;
    for J := Low(NoHandle) to High(NoHandle) do
      Skip := Skip or (NoHandle[J] = DoorNames[I]);
    if Skip then
      Continue;
    for J := Low(Bad) to High(Bad) do
    begin
      Inc(Tried);
      Code := Integer(Doors[I](Bad[J], 0, 0, 0, 0, 0, 0, 0) and $FFFFFFFF);
      { nil from those that give a text; MCP_OK from freeing nil }
      if not ((Code = MCP_E_HANDLE) or (Code = MCP_E_ARGUMENT) or (Code = 0) and ((J = 0) or (Pos('_text', DoorNames[I]) > 0) or
        (Pos('_json', DoorNames[I]) > 0) or (Pos('_bytes', DoorNames[I]) > 0))) then
      begin
        Inc(Wrong);
        WriteLn('  ', DoorNames[I], ' with bad handle ', J, ': ', Code);
      end;
    end;
  end;
  CheckEqual(Wrong, 0, Format('BR-48: %d functions, %d bad calls', [Length(Doors), Tried]));
  DoorNames.Free;
  Doors := nil;
  FreeLibrary(DoorHandle);
end;

{ Texts of any kind handed to every door: an error code, never a crash (BR-48 a). }
procedure TestMisuse;
var
  Client: TMcpClient;
  Event: PMcpEvent;
  N: Int64;
  Raised: Boolean;
begin
  McpLoad;
  CheckEqual(mcp_client_open(nil), MCP_E_HANDLE, 'nil client');
  CheckEqual(mcp_client_free(nil), MCP_OK, 'free(nil)');
  CheckEqual(mcp_event_keep(PMcpEvent(Pointer(NativeUInt(12345))), Event), MCP_E_HANDLE, 'no handle');
  CheckEqual(mcp_event_number(nil, 1, N), MCP_E_HANDLE, 'nil event');
  Client := NewClient;
  try
    Client.WaitOpen(Patience);
    Raised := False;
    try
      Client.CallTool('a' + #0 + 'b');
    except
      on EConvertError do
        Raised := True;
    end;
    Check(Raised, 'a NUL in a name is refused');
    {$IFDEF FPC}
    Raised := False;
    try
      Client.CallTool('echo', '{"a":"' + #$C3 + #$28 + '"}');
      McpPump(0);
    except
      on E: EMcpError do
        Raised := E.Status = MCP_E_UTF8;
    end;
    {$IFDEF UNIX}
    { bytes that are no UTF-8 are converted from the system's code page, if that has them }
    Check(True, 'bytes that are no UTF-8: ' + BoolToStr(Raised, 'refused', 'converted'));
    {$ENDIF}
    {$ENDIF}
    Raised := False;
    try
      Client.DispatchEvents(0);
    except
      on E: EMcpError do
        Raised := E.Status = MCP_E_STATE;
    end;
    Check(Raised, 'DispatchEvents is for etManual');
  finally
    Client.Free;
  end;
end;

begin
  Run('json', TestJson);
  Run('settings', TestSettings);
  Run('noserver', TestNoServer);
  Run('smoke', TestSmoke);
  Run('blocks', TestBlocks);
  Run('task', TestTask);
  Run('taskwait', TestTaskWait);
  Run('waitmany', TestWaitMany);
  Run('taskfails', TestTaskFails);
  Run('question', TestQuestion);
  Run('progress', TestProgress);
  Run('subscribe', TestSubscribe);
  Run('cancelcall', TestCancelCall);
  Run('raise', TestRaise);
  Run('raisehook', TestRaiseHook);
  Run('freeinside', TestFreeInside);
  Run('freebusy', TestFreeBusy);
  Run('manual', TestManual);
  Run('threads', TestThreads);
  Run('manycalls', TestManyCalls);
  Run('float', TestFloat);
  Run('schema', TestSchema);
  Run('byhand', TestByHand);
  Run('resumed', TestResumed);
  Run('ledger', TestLedger);
  Run('doors', TestDoors);
  Run('misuse', TestMisuse);
  StopServer;
  Finish;
end.
