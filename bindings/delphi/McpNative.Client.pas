{$I McpNative.inc}
{ The component: one connection to one MCP server. Set Url, assign events, Open. Events run on the main thread unless
  EventThread says otherwise. Rules of threads and ownership: README.md. }
unit McpNative.Client;

interface

uses
  {$IFDEF FPC}SysUtils, Classes,{$ELSE}System.SysUtils, System.Classes,{$ENDIF}
  McpNative.Text, McpNative.Json, McpNative.Abi, McpNative.Load, McpNative.Errors, McpNative.Channel,
  McpNative.Result, McpNative.Task, McpNative.Input;

type
  { so that a program needs this unit alone in its "uses" }
  TMcpEventThread = McpNative.Channel.TMcpEventThread;
  TMcpErrorInfo = McpNative.Errors.TMcpErrorInfo;
  EMcpError = McpNative.Errors.EMcpError;
  EMcpSchemaError = McpNative.Result.EMcpSchemaError;
  EMcpLibrary = McpNative.Load.EMcpLibrary;
  TMcpResult = McpNative.Result.TMcpResult;
  TMcpBlock = McpNative.Result.TMcpBlock;
  TMcpTask = McpNative.Task.TMcpTask;
  TMcpTaskStatus = McpNative.Task.TMcpTaskStatus;
  TMcpTaskReason = McpNative.Task.TMcpTaskReason;
  TMcpInput = McpNative.Input.TMcpInput;
  TMcpInputKind = McpNative.Input.TMcpInputKind;
  TMcpInputKinds = McpNative.Input.TMcpInputKinds;

const
  etMain = McpNative.Channel.etMain;
  etLibrary = McpNative.Channel.etLibrary;
  etManual = McpNative.Channel.etManual;

type
  TMcpClient = class;

  TMcpState = (msNew, msOpening, msReady, msClosing, msClosed, msFailed);
  TMcpTtlPolicy = (tpFollow, tpStop);
  TMcpCancelPolicy = (cpFollow, cpLetGo);
  TMcpTaskHealth = (thOverdue, thDegraded, thRecovered);
  { Acknowledged; gone and opened again by itself; active again after a gap, so look again at what you follow; over. }
  TMcpSubscriptionState = (ssActive, ssLost, ssCatchUp, ssEnded);

  { The answer to CallTool or Request that was started without waiting. Exactly one of Result, Task and Error says something. }
  TMcpResponse = class(TMcpKept)
  private
    FCallId: Int64;
    FResult: TMcpResult;
    FTask: TMcpTask;
    FError: TMcpErrorInfo;
  public
    destructor Destroy; override;
    property CallId: Int64 read FCallId;
    { nil unless the call was answered with a result. Belongs to the response. }
    property Result: TMcpResult read FResult;
    { nil unless the server made a task of the call; OnTaskCompleted brings its result. Belongs to the response. }
    property Task: TMcpTask read FTask;
    { Status = MCP_OK unless the call failed. }
    property Error: TMcpErrorInfo read FError;
  end;

  TMcpProgress = record
    CallId: Int64;
    Progress: Double;
    Total: Double;      { 0 = not told }
    Message: string;
    Json: string;       { the notification's params }
  end;

  TMcpSubscription = record
    CallId: Int64;
    State: TMcpSubscriptionState;
    Json: string;       { what the server granted, where it is active }
    Error: TMcpErrorInfo; { Status = MCP_OK where all is well }
  end;

  TMcpTool = record
    Name: string;
    Title: string;
    Description: string;
    InputSchema: string;    { JSON }
    Json: string;
  end;
  TMcpTools = array of TMcpTool;

  { One line of the list of pending tasks. }
  TMcpTaskInfo = record
    TaskId: string;
    ToolName: string;
    ToolCallId: string;
    Context: string;        { JSON }
    Status: string;         { as on the wire: "working", "input_required", ... }
    StatusMessage: string;
    NextPollMs: Int64;
    Overdue: Boolean;
    Json: string;
  end;
  TMcpTaskInfos = array of TMcpTaskInfo;

  TMcpTaskEvent = procedure(Sender: TObject; Task: TMcpTask) of object;
  TMcpTaskHealthEvent = procedure(Sender: TObject; Task: TMcpTask; Health: TMcpTaskHealth; const Error: TMcpErrorInfo) of object;
  TMcpInputEvent = procedure(Sender: TObject; Input: TMcpInput) of object;
  TMcpResponseEvent = procedure(Sender: TObject; Response: TMcpResponse) of object;
  TMcpProgressEvent = procedure(Sender: TObject; const Progress: TMcpProgress) of object;
  TMcpLogEvent = procedure(Sender: TObject; const Level, Text, Json: string) of object;
  TMcpNotificationEvent = procedure(Sender: TObject; const Method, Params: string) of object;
  TMcpHeardEvent = procedure(Sender: TObject; CallId: Int64; const Method, Params: string) of object;
  TMcpSubscriptionEvent = procedure(Sender: TObject; const Subscription: TMcpSubscription) of object;
  TMcpStateEvent = procedure(Sender: TObject; State: TMcpState; const Error: TMcpErrorInfo) of object;
  TMcpErrorEvent = procedure(Sender: TObject; const Error: TMcpErrorInfo) of object;
  TMcpExceptionEvent = procedure(Sender: TObject; Error: Exception) of object;

  { How long-running calls are treated. Read when the client opens. }
  TMcpTaskOptions = class(TPersistent)
  private
    FEnabled: Boolean;
    FAutoPoll: Boolean;
    FPush: Boolean;
    FMinPollMs: Int64;
    FLedger: string;
    FTtl: TMcpTtlPolicy;
    FOnCancel: TMcpCancelPolicy;
  public
    constructor Create;
    procedure Assign(Source: TPersistent); override;
  published
    { Tell the server that its tools may answer with a task. }
    property Enabled: Boolean read FEnabled write FEnabled default True;
    { Follow tasks in the background. Off: Refresh, Check and Poke are the program's business. }
    property AutoPoll: Boolean read FAutoPoll write FAutoPoll default True;
    { Let the server tell of tasks by itself where it offers that; polls are the back-stop then. }
    property Push: Boolean read FPush write FPush default True;
    { Poll no more often than this; the server's own interval is kept in any case. }
    property MinPollMs: Int64 read FMinPollMs write FMinPollMs default 0;
    { The file in which tasks are stored: the next process follows what this one leaves (OnTaskResumed). '' = memory. }
    property Ledger: string read FLedger write FLedger;
    { tpFollow: a task beyond its TTL is followed as long as the server knows it. tpStop: it ends as expired. }
    property Ttl: TMcpTtlPolicy read FTtl write FTtl default tpFollow;
    { After a cancel: follow the task to its real end, or let it go. }
    property AfterCancel: TMcpCancelPolicy read FOnCancel write FOnCancel default cpFollow;
  end;

  { Time limits in milliseconds. 0 = the library's own default, -1 = no limit. Read when the client opens. }
  TMcpTimeouts = class(TPersistent)
  private
    FConnect: Int64;
    FProbe: Int64;
    FIdle: Int64;
    FTotal: Int64;
  public
    procedure Assign(Source: TPersistent); override;
  published
    property ConnectMs: Int64 read FConnect write FConnect default 0;
    property ProbeMs: Int64 read FProbe write FProbe default 0;
    property IdleMs: Int64 read FIdle write FIdle default 0;
    property TotalMs: Int64 read FTotal write FTotal default 0;
  end;

  { https: PEM files, read and checked when the client opens. '' = none. }
  TMcpTls = class(TPersistent)
  private
    FCaFile: string;
    FOnlyOwn: Boolean;
    FClientCertFile: string;
    FClientKeyFile: string;
  public
    procedure Assign(Source: TPersistent); override;
  published
    { Certificates of authorities of one's own. }
    property CaFile: string read FCaFile write FCaFile;
    { Those alone count, not the system's. }
    property OnlyOwn: Boolean read FOnlyOwn write FOnlyOwn default False;
    property ClientCertFile: string read FClientCertFile write FClientCertFile;
    property ClientKeyFile: string read FClientKeyFile write FClientKeyFile;
  end;

  {$IFNDEF FPC}
  [ComponentPlatformsAttribute(pidWin32 or pidWin64)]
  {$ENDIF}
  TMcpClient = class(TComponent)
  private
    FChannel: TMcpChannel;
    FUrl: string;
    FHeaders: TStrings;
    FClientName: string;
    FClientVersion: string;
    FTimeouts: TMcpTimeouts;
    FProxy: string;
    FNoProxy: string;
    FTls: TMcpTls;
    FTasks: TMcpTaskOptions;
    FSettings: TStrings;
    FEventThread: TMcpEventThread;
    FInputKinds: TMcpInputKinds;
    FLibraryPath: string;
    FStreamedActive: Boolean;
    FOnTaskCreated: TMcpTaskEvent;
    FOnTaskResumed: TMcpTaskEvent;
    FOnTaskStatus: TMcpTaskEvent;
    FOnTaskCompleted: TMcpTaskEvent;
    FOnTaskHealth: TMcpTaskHealthEvent;
    FOnInputRequired: TMcpInputEvent;
    FOnInputWithdrawn: TMcpInputEvent;
    FOnToolResponse: TMcpResponseEvent;
    FOnProgress: TMcpProgressEvent;
    FOnLog: TMcpLogEvent;
    FOnNotification: TMcpNotificationEvent;
    FOnHeard: TMcpHeardEvent;
    FOnSubscription: TMcpSubscriptionEvent;
    FOnStateChange: TMcpStateEvent;
    FOnError: TMcpErrorEvent;
    FOnCallbackError: TMcpExceptionEvent;
    procedure SetHeaders(Value: TStrings);
    procedure SetTimeouts(Value: TMcpTimeouts);
    procedure SetTls(Value: TMcpTls);
    procedure SetTasks(Value: TMcpTaskOptions);
    procedure SetSettings(Value: TStrings);
    procedure SetEventThread(Value: TMcpEventThread);
    procedure SetActive(Value: Boolean);
    function GetActive: Boolean;
    function GetState: TMcpState;
    function Live: TMcpChannel;
    procedure DropChannel;
    procedure FreeSelf;
    function Wants(Kind: Integer): Boolean;
    procedure Deliver(Event: PMcpEvent);
    procedure CallbackFailed;
    procedure FireTask(const Handler: TMcpTaskEvent; Event: PMcpEvent);
    procedure FireHealth(Health: TMcpTaskHealth; Event: PMcpEvent);
    procedure FireInput(const Handler: TMcpInputEvent; Event: PMcpEvent);
    procedure FireResponse(Event: PMcpEvent);
    procedure FireNotification(Event: PMcpEvent);
    procedure FireSubscription(Event: PMcpEvent);
    function ServerText(Field: Integer): string;
    function Number(Field: Integer): Int64;
    function Part(const Method, ParamsJson, Member: string; WaitMs: Int64; const OptionsJson: string): string;
    function Complete(const Reference, Argument, Value, ContextJson: string; WaitMs: Int64): string;
  protected
    procedure Loaded; override;
  public
    constructor Create(AOwner: TComponent); override;
    { Closes, waits within a bound, frees the handles. Fine inside one of the component's own events; the rest of that
      handler must not touch the component. }
    destructor Destroy; override;
    { Frees the component once the running handler has returned, or at once where none runs. }
    procedure Release;

    { Loads the library if need be, checks the settings, and starts to connect; does not wait. Raises EMcpError on a bad
      setting, EMcpLibrary when there is no library. Open on an open client does nothing. }
    procedure Open;
    { Waits until the client is ready. False when WaitMs ran out; raises EMcpError when opening failed. Opens if need be. }
    function WaitOpen(WaitMs: Int64 = 30000): Boolean;
    { Begins the end; does not wait. Events of the end still come. }
    procedure Close;
    { Delivers events while it waits, where this thread does that. False when WaitMs ran out. }
    function WaitClosed(WaitMs: Int64 = 10000): Boolean;

    { Starts a call and gives its id; OnToolResponse tells the outcome, OnTaskCreated that it became a task.
      ArgumentsJson: a JSON object, see McpArgs. OptionsJson: tool_call_id, context, total_ms, ... }
    function CallTool(const Name: string; const ArgumentsJson: string = ''; const OptionsJson: string = ''): Int64;
    { Calls and waits, through a task if the server makes one; delivers events meanwhile. The result is the caller's to free.
      Raises EMcpError on failure; when WaitMs runs out, call and task are cancelled (Status MCP_E_TIMEOUT). -1 = no limit.
      A question to be answered by hand raises, too (Status MCP_E_INPUT_REQUIRED): a task goes on, see TaskList and
      TasksUpdate; a call without a task is cancelled. }
    function CallToolWait(const Name: string; const ArgumentsJson: string = ''; WaitMs: Int64 = -1;
      const OptionsJson: string = ''): TMcpResult;
    { Cancels a call that was started here. False when it is over. A task of it goes on: TasksCancel. }
    function CancelCall(CallId: Int64): Boolean;
    { Every page of tools/list. Blocks. }
    function ListTools(WaitMs: Int64 = 60000): TMcpTools;
    function ListToolsJson(WaitMs: Int64 = 60000): string;
    { Every page of a list, as a JSON array. Block. Cache is the call option of that name: 'server', 'until_changed',
      'refresh', 'off'; '' = 'server'. }
    function ListPrompts(WaitMs: Int64 = 60000; const Cache: string = ''): string;
    function ListResources(WaitMs: Int64 = 60000; const Cache: string = ''): string;
    { ExpandUriTemplate makes URIs of these. }
    function ListResourceTemplates(WaitMs: Int64 = 60000; const Cache: string = ''): string;
    { The contents of a resource, as a JSON array. Blocks. }
    function ReadResource(const Uri: string; WaitMs: Int64 = 60000; const Cache: string = ''): string;
    { A prompt with its arguments filled in, as the server gives it. ArgumentsJson: a JSON object, see McpArgs. Blocks. }
    function GetPrompt(const Name: string; const ArgumentsJson: string = ''; WaitMs: Int64 = 60000): string;
    { Completions of an argument, as a JSON object with "values". ContextJson: the arguments that are settled already,
      a JSON object. Block. }
    function CompletePrompt(const Prompt, Argument, Value: string; const ContextJson: string = '';
      WaitMs: Int64 = 60000): string;
    function CompleteTemplate(const UriTemplate, Argument, Value: string; const ContextJson: string = '';
      WaitMs: Int64 = 60000): string;
    { The URI that a template (RFC 6570) makes of the variables, a JSON object; see McpArgs. Asks nobody. }
    function ExpandUriTemplate(const UriTemplate: string; const VariablesJson: string = ''): string;
    { These grow whenever the list is known to have changed. Read them before the list. They ask nobody. }
    function ToolsGeneration: Int64;
    function PromptsGeneration: Int64;
    function ResourcesGeneration: Int64;
    { Any request of the protocol, waited for; gives the result as JSON. }
    function Request(const Method: string; const ParamsJson: string = ''; WaitMs: Int64 = -1; const OptionsJson: string = ''): string;
    { The same without waiting; OnToolResponse tells the outcome. }
    function StartRequest(const Method: string; const ParamsJson: string = ''; const OptionsJson: string = ''): Int64;
    { Hears of changes until CancelCall; gives the id of the call. FilterJson: an object with toolsListChanged,
      promptsListChanged, resourcesListChanged (true) and resourceSubscriptions (an array of URIs), as far as wanted.
      OnSubscription tells where it stands, OnHeard what it hears. }
    function Subscribe(const FilterJson: string; const OptionsJson: string = ''): Int64;
    procedure Notify(const Method: string; const ParamsJson: string = '');

    { A task by its id; one not known yet is taken up and followed. No round trip. The caller frees it. }
    function TaskOpen(const TaskId: string): TMcpTask;
    { A task from what TMcpTask.ExportRecord gave, in this process or an earlier one. The caller frees it. }
    function TaskImport(const RecordJson: string): TMcpTask;
    { Takes the records of tasks that ended at least so long ago out of the ledger. How many. }
    function Purge(AgeMs: Int64 = 0): Int64;
    { The same with one tasks/get now. Blocks. The caller frees it. }
    function TasksGet(const TaskId: string; WaitMs: Int64 = 60000): TMcpTask;
    { tasks/update with the answers in an object, question key -> response. Blocks. False: answered already. }
    function TasksUpdate(const TaskId, ResponsesJson: string; WaitMs: Int64 = 60000): Boolean;
    { Asks the server to stop; the task is followed to its real end. Does not wait. False: ended already. }
    function TasksCancel(const TaskId: string): Boolean;
    { The tasks that have not ended. ToolCallId narrows, and ContextJson to those whose context has these members with
      these values. Waits for nothing. }
    function TaskList(const ToolCallId: string = ''; const ContextJson: string = ''): TMcpTaskInfos;
    { Polls each task that is due once and gives what has finished since, as a JSON array. Blocks. For a chat loop. }
    function Check(WaitMs: Int64 = 60000; const ToolCallId: string = ''; const ContextJson: string = ''): string;
    { The network came back, the machine woke: try again now. }
    procedure Poke;
    { Counters, JSON. }
    function Stats: string;

    { EventThread = etManual: run the handlers on this thread; waits at most WaitMs for the first. Number of events run. }
    function DispatchEvents(WaitMs: Int64 = 0): Integer;

    { What the server said of itself; raises EMcpError (MCP_E_STATE) before the client is ready. }
    function Era: string;
    function ProtocolVersion: string;
    function ServerInfo: string;          { JSON }
    function ServerName: string;
    function Instructions: string;
    function Capabilities: string;        { JSON }
    { The settings document as it would be sent to the library now. }
    function SettingsJson: string;

    property State: TMcpState read GetState;
    { Where to load the library from; '' = the usual places. Counts for the first Open of the process. }
    property LibraryPath: string read FLibraryPath write FLibraryPath;
  published
    property Url: string read FUrl write FUrl;
    { "Name=Value" or "Name: Value", one a line. }
    property Headers: TStrings read FHeaders write SetHeaders;
    property ClientName: string read FClientName write FClientName;
    property ClientVersion: string read FClientVersion write FClientVersion;
    property Timeouts: TMcpTimeouts read FTimeouts write SetTimeouts;
    { '' or 'env' = as the environment says, 'none', or http://user:password@host:port. }
    property Proxy: string read FProxy write FProxy;
    { Hosts that are reached without the proxy, with commas between them, as in NO_PROXY. '' = as the environment says. }
    property NoProxy: string read FNoProxy write FNoProxy;
    property Tls: TMcpTls read FTls write SetTls;
    property Tasks: TMcpTaskOptions read FTasks write SetTasks;
    { More settings, a JSON object with the keys of the library's settings document. It wins over the properties, key by key. }
    property Settings: TStrings read FSettings write SetSettings;
    { Which questions OnInputRequired can answer. Only what is here, with a handler assigned before Open, is offered to the server. }
    property InputKinds: TMcpInputKinds read FInputKinds write FInputKinds default [ikElicitation];
    { Where the events run. Set it while closed. }
    property EventThread: TMcpEventThread read FEventThread write SetEventThread default etMain;

    property OnTaskCreated: TMcpTaskEvent read FOnTaskCreated write FOnTaskCreated;
    { A task named by its id (TaskOpen, TasksGet), or one of an earlier process, is followed from now on. }
    property OnTaskResumed: TMcpTaskEvent read FOnTaskResumed write FOnTaskResumed;
    { Status, message or open questions changed. }
    property OnTaskStatus: TMcpTaskEvent read FOnTaskStatus write FOnTaskStatus;
    { The task has ended, for whatever reason: see Task.Reason. Once per task. }
    property OnTaskCompleted: TMcpTaskEvent read FOnTaskCompleted write FOnTaskCompleted;
    property OnTaskHealth: TMcpTaskHealthEvent read FOnTaskHealth write FOnTaskHealth;
    property OnInputRequired: TMcpInputEvent read FOnInputRequired write FOnInputRequired;
    property OnInputWithdrawn: TMcpInputEvent read FOnInputWithdrawn write FOnInputWithdrawn;
    property OnToolResponse: TMcpResponseEvent read FOnToolResponse write FOnToolResponse;
    property OnProgress: TMcpProgressEvent read FOnProgress write FOnProgress;
    property OnLog: TMcpLogEvent read FOnLog write FOnLog;
    property OnNotification: TMcpNotificationEvent read FOnNotification write FOnNotification;
    { A notification of a call, with its id: of a subscription mostly. Without this event OnNotification gets it. }
    property OnHeard: TMcpHeardEvent read FOnHeard write FOnHeard;
    property OnSubscription: TMcpSubscriptionEvent read FOnSubscription write FOnSubscription;
    property OnStateChange: TMcpStateEvent read FOnStateChange write FOnStateChange;
    { Something in the background failed that no call and no task can report. }
    property OnError: TMcpErrorEvent read FOnError write FOnError;
    { A handler raised. Without this event the application's handler of exceptions gets it. }
    property OnCallbackError: TMcpExceptionEvent read FOnCallbackError write FOnCallbackError;

    { Last, so that a form file has set all else before. True starts to connect; False closes. }
    property Active: Boolean read GetActive write SetActive default False;
  end;

{ Shortcuts to the same names elsewhere. }
function McpPump(WaitMs: Integer = 50): Boolean;
function McpArgs(const Pairs: array of const): string;

implementation

function McpPump(WaitMs: Integer): Boolean;
begin
  Result := McpNative.Channel.McpPump(WaitMs);
end;

function McpArgs(const Pairs: array of const): string;
begin
  Result := McpNative.Json.McpArgs(Pairs);
end;

{ Readers of an event }

function EventText(Event: PMcpEvent; Field: Integer): UTF8String;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  Result := '';
  N := 0;
  P := mcp_event_text(Event, Field, @N);
  if (P <> nil) and (N > 0) then
  begin
    SetLength(Result, N);
    Move(P^, Pointer(Result)^, N);
  end;
end;

function EventNumber(Event: PMcpEvent; Field: Integer): Int64;
begin
  if mcp_event_number(Event, Field, Result) <> MCP_OK then
    Result := 0;
end;

function EventError(Event: PMcpEvent; Fallback: Integer): TMcpErrorInfo;
var
  Error: PMcpError;
begin
  Error := nil;
  if mcp_event_error(Event, Error) <> MCP_OK then
    Error := nil;
  Result := McpTakeError(Error, Fallback);
end;

function EventTask(Channel: TMcpChannel; Event: PMcpEvent): TMcpTask;
var
  Task: PMcpTask;
  Snapshot: PMcpSnapshot;
begin
  Result := nil;
  if (mcp_event_task(Event, Task) <> MCP_OK) or (Task = nil) then
    Exit;
  if mcp_event_snapshot(Event, Snapshot) <> MCP_OK then
    Snapshot := nil;
  Result := TMcpTask.Adopt(Channel, Task, Snapshot);
end;

function TakeText(Text: PMcpText): UTF8String;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  Result := '';
  try
    N := 0;
    P := mcp_text_get(Text, @N);
    if (P <> nil) and (N > 0) then
    begin
      SetLength(Result, N);
      Move(P^, Pointer(Result)^, N);
    end;
  finally
    mcp_text_free(Text);
  end;
end;

{ Calls that are waited for. They use the channel alone: a handler that runs meanwhile may free the component. }

procedure RaiseOf(Error: PMcpError; Status: Integer);
var
  Info: TMcpErrorInfo;
begin
  Info := McpTakeError(Error, Status);
  raise EMcpError.CreateInfo(Info);
end;

{ The result of a call that is over, or its error raised. Frees the call. To be called right after what gave Status. }
function FinishCall(Call: PMcpCall; Status: Integer): TMcpResult;
var
  Handle: PMcpResult;
  Last, Error: PMcpError;
  Task: PMcpTask;
begin
  Result := nil;
  if Call = nil then
    McpCheck(Status);
  try
    if Status >= 0 then
    begin
      McpCheck(mcp_call_result(Call, Handle));
      if Handle = nil then
        McpRaise(MCP_E_INTERNAL, 'the call ended without a result');
      Result := TMcpResult.Adopt(Handle);
      Exit;
    end;
    if mcp_last_error(Last) <> MCP_OK then { the next call forgets it }
      Last := nil;
    if mcp_call_error(Call, Error) <> MCP_OK then
      Error := nil;
    if Status = MCP_E_INPUT_REQUIRED then
      if (mcp_call_task(Call, Task) = MCP_OK) and (Task <> nil) then
        mcp_task_free(Task)
      else
        mcp_call_cancel(Call); { nobody could answer it any more }
    if Error = nil then
      Error := Last
    else
      mcp_error_free(Last);
    { the one failure that has a result all the same }
    if (Status = MCP_E_SCHEMA) and (mcp_call_result(Call, Handle) = Status) and (Handle <> nil) then
      raise EMcpSchemaError.CreateAnswer(McpTakeError(Error, Status), TMcpResult.Adopt(Handle));
    RaiseOf(Error, Status);
  finally
    mcp_call_free(Call);
  end;
end;

{ The result of a task that is over, or its error raised. Frees the snapshot. }
function FinishTask(Snapshot: PMcpSnapshot): TMcpResult;
const
  Codes: array[MCP_REASON_FAILED..MCP_REASON_CLOSED] of Integer =
    (MCP_E_TASK_FAILED, MCP_E_TASK_CANCELLED, MCP_E_TASK_EXPIRED, MCP_E_TASK_UNKNOWN, MCP_E_CLOSED);
var
  Reason: Int64;
  Handle: PMcpResult;
  Error: PMcpError;
  Code: Integer;
begin
  Result := nil;
  try
    McpCheck(mcp_snapshot_number(Snapshot, MCP_SNAPSHOT_REASON, Reason));
    if Reason = MCP_REASON_COMPLETED then
    begin
      McpCheck(mcp_snapshot_result(Snapshot, Handle));
      if Handle = nil then
        McpRaise(MCP_E_INTERNAL, 'the task completed without a result');
      if (mcp_snapshot_error(Snapshot, Error) = MCP_OK) and (Error <> nil) then
        raise EMcpSchemaError.CreateAnswer(McpTakeError(Error, MCP_E_SCHEMA), TMcpResult.Adopt(Handle));
      Result := TMcpResult.Adopt(Handle);
      Exit;
    end;
    Code := MCP_E_TASK_FAILED;
    if (Reason >= Low(Codes)) and (Reason <= High(Codes)) then
      Code := Codes[Integer(Reason)];
    Error := nil;
    if mcp_snapshot_error(Snapshot, Error) <> MCP_OK then
      Error := nil;
    if Error = nil then
      McpRaise(Code, 'the task ended without a result');
    RaiseOf(Error, Code);
  finally
    mcp_snapshot_free(Snapshot);
  end;
end;

{ Waits for a started call, and for its task; gives both up when the time runs out. Frees the call. }
function AwaitCall(Channel: TMcpChannel; Call: PMcpCall; WaitMs: Int64): TMcpResult;
var
  Started: Int64;
  Status: Integer;
  Task: PMcpTask;
  Snapshot: PMcpSnapshot;
begin
  Result := nil;
  Started := McpTicks;
  Task := nil;
  Status := Channel.WaitCall(Call, WaitMs);
  if Status = MCP_S_TIMEOUT then
  begin
    mcp_call_cancel(Call);
    { the answer may have come in this moment, with a task }
    if (mcp_call_task(Call, Task) = MCP_OK) and (Task <> nil) then
    begin
      mcp_task_cancel(Task);
      mcp_task_free(Task);
    end;
    mcp_call_free(Call);
    McpRaise(MCP_E_TIMEOUT, 'the call took longer than the time that it was given');
  end;
  if Status <> MCP_S_TASK then
  begin
    Result := FinishCall(Call, Status);
    Exit;
  end;
  Status := mcp_call_task(Call, Task);
  mcp_call_free(Call);
  McpCheck(Status);
  try
    if WaitMs >= 0 then
    begin
      WaitMs := WaitMs - (McpTicks - Started);
      if WaitMs < 0 then
        WaitMs := 0;
    end;
    Status := Channel.WaitTask(Task, WaitMs, Snapshot);
    if Status = MCP_S_TIMEOUT then
    begin
      mcp_snapshot_free(Snapshot);
      mcp_task_cancel(Task);
      McpRaise(MCP_E_TIMEOUT, 'the task took longer than the time that it was given');
    end;
    if Status = MCP_E_INPUT_REQUIRED then
    begin
      mcp_snapshot_free(Snapshot);
      McpRaise(Status, 'the task asks something that the host answers by hand');
    end;
    if Status <> MCP_E_SCHEMA then { the task has ended, and its snapshot says what is wrong }
      McpCheck(Status);
    Result := FinishTask(Snapshot);
  finally
    mcp_task_free(Task);
  end;
end;

{ TMcpResponse }

destructor TMcpResponse.Destroy;
begin
  FResult.Free;
  FTask.Free;
  inherited Destroy;
end;

{ TMcpTaskOptions }

constructor TMcpTaskOptions.Create;
begin
  inherited Create;
  FEnabled := True;
  FAutoPoll := True;
  FPush := True;
end;

procedure TMcpTaskOptions.Assign(Source: TPersistent);
begin
  if Source is TMcpTaskOptions then
  begin
    FEnabled := TMcpTaskOptions(Source).FEnabled;
    FAutoPoll := TMcpTaskOptions(Source).FAutoPoll;
    FPush := TMcpTaskOptions(Source).FPush;
    FMinPollMs := TMcpTaskOptions(Source).FMinPollMs;
    FLedger := TMcpTaskOptions(Source).FLedger;
    FTtl := TMcpTaskOptions(Source).FTtl;
    FOnCancel := TMcpTaskOptions(Source).FOnCancel;
  end
  else
    inherited Assign(Source);
end;

{ TMcpTimeouts }

procedure TMcpTimeouts.Assign(Source: TPersistent);
begin
  if Source is TMcpTimeouts then
  begin
    FConnect := TMcpTimeouts(Source).FConnect;
    FProbe := TMcpTimeouts(Source).FProbe;
    FIdle := TMcpTimeouts(Source).FIdle;
    FTotal := TMcpTimeouts(Source).FTotal;
  end
  else
    inherited Assign(Source);
end;

{ TMcpTls }

procedure TMcpTls.Assign(Source: TPersistent);
begin
  if Source is TMcpTls then
  begin
    FCaFile := TMcpTls(Source).CaFile;
    FOnlyOwn := TMcpTls(Source).OnlyOwn;
    FClientCertFile := TMcpTls(Source).ClientCertFile;
    FClientKeyFile := TMcpTls(Source).ClientKeyFile;
  end
  else
    inherited Assign(Source);
end;

{ TMcpClient }

constructor TMcpClient.Create(AOwner: TComponent);
begin
  inherited Create(AOwner);
  FHeaders := TStringList.Create;
  FSettings := TStringList.Create;
  FTimeouts := TMcpTimeouts.Create;
  FTls := TMcpTls.Create;
  FTasks := TMcpTaskOptions.Create;
  FInputKinds := [ikElicitation];
  FEventThread := etMain;
end;

destructor TMcpClient.Destroy;
begin
  DropChannel;
  FTasks.Free;
  FTls.Free;
  FTimeouts.Free;
  FSettings.Free;
  FHeaders.Free;
  inherited Destroy;
end;

procedure TMcpClient.FreeSelf;
begin
  Free;
end;

procedure TMcpClient.Release;
begin
  if (FChannel = nil) or not FChannel.ReleaseLater then
    Free;
end;

procedure TMcpClient.DropChannel;
var
  Channel: TMcpChannel;
begin
  Channel := FChannel;
  FChannel := nil;
  if Channel = nil then
    Exit;
  Channel.Shutdown;
  Channel.Release;
end;

procedure TMcpClient.Loaded;
begin
  inherited Loaded;
  if FStreamedActive then
  begin
    FStreamedActive := False;
    SetActive(True);
  end;
end;

procedure TMcpClient.SetHeaders(Value: TStrings);
begin
  FHeaders.Assign(Value);
end;

procedure TMcpClient.SetSettings(Value: TStrings);
begin
  FSettings.Assign(Value);
end;

procedure TMcpClient.SetTimeouts(Value: TMcpTimeouts);
begin
  FTimeouts.Assign(Value);
end;

procedure TMcpClient.SetTls(Value: TMcpTls);
begin
  FTls.Assign(Value);
end;

procedure TMcpClient.SetTasks(Value: TMcpTaskOptions);
begin
  FTasks.Assign(Value);
end;

procedure TMcpClient.SetEventThread(Value: TMcpEventThread);
begin
  if Value = FEventThread then
    Exit;
  if GetActive then
    raise EMcpError.CreateInfo(McpMakeError(MCP_E_STATE, 'EventThread can be changed only while the client is closed'));
  FEventThread := Value;
end;

function TMcpClient.GetState: TMcpState;
var
  N: Integer;
begin
  Result := msNew;
  if FChannel = nil then
    Exit;
  N := mcp_client_state(FChannel.Client);
  if (N >= Ord(Low(TMcpState))) and (N <= Ord(High(TMcpState))) then
    Result := TMcpState(N)
  else
    Result := msClosed;
end;

function TMcpClient.GetActive: Boolean;
begin
  if csDesigning in ComponentState then
    Result := FStreamedActive
  else
    Result := GetState in [msOpening, msReady];
end;

procedure TMcpClient.SetActive(Value: Boolean);
begin
  if ComponentState * [csLoading, csDesigning] <> [] then
    FStreamedActive := Value
  else if Value then
    Open
  else
    Close;
end;

function TMcpClient.Live: TMcpChannel;
begin
  Result := FChannel;
  if Result = nil then
    raise EMcpError.CreateInfo(McpMakeError(MCP_E_STATE, 'the client is not open'));
end;

function TMcpClient.SettingsJson: string;
var
  All, Part, Inner: TMcpJsonObject;
  I, Colon, Equal: Integer;
  Line, Extra: string;

  procedure Limit(const Name: string; Value: Int64);
  begin
    if Value <> 0 then
      Part.Put(Name, Value);
  end;

  procedure FilePath(const Name, Value: string);
  begin
    if Value <> '' then
      Part.Put(Name, Value);
  end;

begin
  All.Clear;
  if FUrl <> '' then
    All.Put('url', FUrl);
  Part.Clear;
  for I := 0 to FHeaders.Count - 1 do
  begin
    Line := Trim(FHeaders[I]);
    if Line = '' then
      Continue;
    Colon := Pos(':', Line);
    Equal := Pos('=', Line);
    if (Colon = 0) or ((Equal > 0) and (Equal < Colon)) then
      Colon := Equal;
    if Colon = 0 then
      raise EMcpError.CreateInfo(McpMakeError(MCP_E_ARGUMENT,
        Format('line %d of Headers is neither Name=Value nor Name: Value', [I + 1])));
    Part.Put(Trim(Copy(Line, 1, Colon - 1)), Trim(Copy(Line, Colon + 1, MaxInt)));
  end;
  if Part.Count > 0 then
    All.PutRaw('headers', Part.Text);
  if FClientName <> '' then
  begin
    Part.Clear;
    Part.Put('name', FClientName);
    if FClientVersion <> '' then
      Part.Put('version', FClientVersion)
    else
      Part.Put('version', '0');
    All.PutRaw('client', Part.Text);
  end;
  Part.Clear;
  Limit('connect_ms', FTimeouts.ConnectMs);
  Limit('probe_ms', FTimeouts.ProbeMs);
  Limit('idle_ms', FTimeouts.IdleMs);
  Limit('total_ms', FTimeouts.TotalMs);
  if Part.Count > 0 then
    All.PutRaw('timeouts', Part.Text);
  if FProxy <> '' then
    All.Put('proxy', FProxy);
  if FNoProxy <> '' then
    All.PutRaw('no_proxy', '[' + McpJsonQuote(FNoProxy) + ']');
  Part.Clear;
  FilePath('ca_file', FTls.CaFile);
  if FTls.OnlyOwn then
    Part.Put('roots', 'only');
  FilePath('client_cert_file', FTls.ClientCertFile);
  FilePath('client_key_file', FTls.ClientKeyFile);
  if Part.Count > 0 then
    All.PutRaw('tls', Part.Text);
  Part.Clear;
  Part.PutBool('enabled', FTasks.Enabled);
  Part.PutBool('auto_poll', FTasks.AutoPoll);
  if not FTasks.Push then
    Part.PutBool('push', False);
  Limit('min_poll_ms', FTasks.MinPollMs);
  if FTasks.Ttl = tpStop then
    Part.Put('ttl', 'stop');
  if FTasks.AfterCancel = cpLetGo then
    Part.Put('cancel', 'let_go');
  if FTasks.Ledger <> '' then
  begin
    Inner.Clear;
    Inner.Put('file', FTasks.Ledger);
    Part.PutRaw('ledger', Inner.Text);
  end;
  All.PutRaw('tasks', Part.Text);
  Extra := Trim(FSettings.Text);
  if (Extra <> '') and not All.Merge(McpUtf8(Extra)) then
    raise EMcpError.CreateInfo(McpMakeError(MCP_E_ARGUMENT, 'Settings is not a JSON object'));
  Result := McpStr(All.Text);
end;

procedure TMcpClient.Open;
const
  Kinds: array[TMcpInputKind] of Integer = (MCP_EVENT_ELICITATION, MCP_EVENT_SAMPLING, MCP_EVENT_ROOTS);
var
  Document: UTF8String;
  Handle: PMcpClient;
  Inputs: array of Integer;
  Kind: TMcpInputKind;
begin
  if GetState in [msOpening, msReady] then
    Exit;
  McpLoad(FLibraryPath);
  DropChannel; { of the last time }
  Document := McpUtf8(SettingsJson);
  McpCheck(mcp_client_new(McpPtr(Document), Length(Document), Handle));
  Inputs := nil;
  if Assigned(FOnInputRequired) then
    for Kind := Low(Kind) to High(Kind) do
      if Kind in FInputKinds then
      begin
        SetLength(Inputs, Length(Inputs) + 1);
        Inputs[High(Inputs)] := Kinds[Kind];
      end;
  FChannel := TMcpChannel.Create(FEventThread, Deliver, Wants, CallbackFailed, FreeSelf);
  try
    FChannel.Attach(Handle, Inputs);
    FChannel.Open;
  except
    DropChannel;
    raise;
  end;
end;

function TMcpClient.WaitOpen(WaitMs: Int64): Boolean;
begin
  Open;
  Result := McpCheck(mcp_client_wait_open(FChannel.Client, WaitMs)) = MCP_OK;
end;

procedure TMcpClient.Close;
begin
  if FChannel <> nil then
    McpCheck(mcp_client_close(FChannel.Client));
end;

function TMcpClient.WaitClosed(WaitMs: Int64): Boolean;
begin
  Result := (FChannel = nil) or (FChannel.WaitEnd(WaitMs) = MCP_OK);
end;

function TMcpClient.CallTool(const Name, ArgumentsJson, OptionsJson: string): Int64;
var
  Call: PMcpCall;
begin
  Result := Live.StartTool(McpIdent(Name), McpUtf8(ArgumentsJson), McpUtf8(OptionsJson), False, Call);
end;

function TMcpClient.CallToolWait(const Name, ArgumentsJson: string; WaitMs: Int64; const OptionsJson: string): TMcpResult;
var
  Channel: TMcpChannel;
  Tool, Arguments, Options: UTF8String;
  Call: PMcpCall;
  Status: Integer;
begin
  Channel := Live;
  Tool := McpIdent(Name);
  Arguments := McpUtf8(ArgumentsJson);
  Options := McpUtf8(OptionsJson);
  Channel.AddRef;
  try
    if Channel.Delivers and not Channel.Quiet then
    begin
      Channel.StartTool(Tool, Arguments, Options, True, Call);
      Result := AwaitCall(Channel, Call, WaitMs);
    end
    else
    begin
      Status := mcp_tool_run(Channel.Client, PAnsiChar(Tool), McpPtr(Arguments), Length(Arguments), McpPtr(Options),
        Length(Options), WaitMs, Call);
      Result := FinishCall(Call, Status);
    end;
  finally
    Channel.Release;
  end;
end;

function TMcpClient.CancelCall(CallId: Int64): Boolean;
begin
  Result := Live.CancelCall(CallId);
end;

function TMcpClient.ListToolsJson(WaitMs: Int64): string;
var
  Text: PMcpText;
begin
  McpCheck(mcp_tool_list(Live.Client, WaitMs, Text));
  Result := McpStr(TakeText(Text));
end;

function TMcpClient.ListTools(WaitMs: Int64): TMcpTools;
var
  Text: PMcpText;
  All: UTF8String;
  Items: TMcpJsonTexts;
  I: Integer;
begin
  McpCheck(mcp_tool_list(Live.Client, WaitMs, Text));
  Items := nil;
  if McpJsonMember(TakeText(Text), 'tools', All) then
    Items := McpJsonItems(All);
  Result := nil;
  SetLength(Result, Length(Items));
  for I := 0 to High(Items) do
  begin
    Result[I].Name := McpJsonStr(Items[I], 'name');
    Result[I].Title := McpJsonStr(Items[I], 'title');
    Result[I].Description := McpJsonStr(Items[I], 'description');
    Result[I].InputSchema := McpJsonRaw(Items[I], 'inputSchema');
    Result[I].Json := McpStr(Items[I]);
  end;
end;

{ One member of the result of a request; '' where the server sent none. }
function TMcpClient.Part(const Method, ParamsJson, Member: string; WaitMs: Int64; const OptionsJson: string): string;
begin
  Result := McpJsonRaw(McpUtf8(Request(Method, ParamsJson, WaitMs, OptionsJson)), Member);
end;

function CacheOption(const Cache: string; AllPages: Boolean): string;
begin
  if Cache = '' then
    Result := McpArgs(['all_pages', AllPages])
  else
    Result := McpArgs(['all_pages', AllPages, 'cache', Cache]);
end;

{ A JSON object that is not empty, with one more member, whose value is JSON. }
function WithJson(const ObjectJson, Member, ValueJson: string): string;
begin
  Result := Copy(ObjectJson, 1, Length(ObjectJson) - 1) + ',"' + Member + '":' + ValueJson + '}';
end;

function TMcpClient.ListPrompts(WaitMs: Int64; const Cache: string): string;
begin
  Result := Part('prompts/list', '', 'prompts', WaitMs, CacheOption(Cache, True));
end;

function TMcpClient.ListResources(WaitMs: Int64; const Cache: string): string;
begin
  Result := Part('resources/list', '', 'resources', WaitMs, CacheOption(Cache, True));
end;

function TMcpClient.ListResourceTemplates(WaitMs: Int64; const Cache: string): string;
begin
  Result := Part('resources/templates/list', '', 'resourceTemplates', WaitMs, CacheOption(Cache, True));
end;

function TMcpClient.ReadResource(const Uri: string; WaitMs: Int64; const Cache: string): string;
begin
  Result := Part('resources/read', McpArgs(['uri', Uri]), 'contents', WaitMs, CacheOption(Cache, False));
end;

function TMcpClient.GetPrompt(const Name, ArgumentsJson: string; WaitMs: Int64): string;
var
  Params: string;
begin
  Params := McpArgs(['name', Name]);
  if ArgumentsJson <> '' then
    Params := WithJson(Params, 'arguments', ArgumentsJson);
  Result := Request('prompts/get', Params, WaitMs);
end;

function TMcpClient.Complete(const Reference, Argument, Value, ContextJson: string; WaitMs: Int64): string;
var
  Params: string;
begin
  Params := WithJson('{"ref":' + Reference + '}', 'argument', McpArgs(['name', Argument, 'value', Value]));
  if ContextJson <> '' then
    Params := WithJson(Params, 'context', '{"arguments":' + ContextJson + '}');
  Result := Part('completion/complete', Params, 'completion', WaitMs, '');
end;

function TMcpClient.CompletePrompt(const Prompt, Argument, Value, ContextJson: string; WaitMs: Int64): string;
begin
  Result := Complete(McpArgs(['type', 'ref/prompt', 'name', Prompt]), Argument, Value, ContextJson, WaitMs);
end;

function TMcpClient.CompleteTemplate(const UriTemplate, Argument, Value, ContextJson: string; WaitMs: Int64): string;
begin
  Result := Complete(McpArgs(['type', 'ref/resource', 'uri', UriTemplate]), Argument, Value, ContextJson, WaitMs);
end;

function TMcpClient.ExpandUriTemplate(const UriTemplate, VariablesJson: string): string;
var
  Template, Variables: UTF8String;
  Text: PMcpText;
begin
  Live; { so that the library is there }
  Template := McpIdent(UriTemplate);
  Variables := McpUtf8(VariablesJson);
  McpCheck(mcp_uri_template_expand(PAnsiChar(Template), PAnsiChar(Variables), Length(Variables), Text));
  Result := McpStr(TakeText(Text));
end;

function TMcpClient.Number(Field: Integer): Int64;
begin
  McpCheck(mcp_client_number(Live.Client, Field, Result));
end;

function TMcpClient.ToolsGeneration: Int64;
begin
  Result := Number(MCP_CLIENT_TOOLS_GENERATION);
end;

function TMcpClient.PromptsGeneration: Int64;
begin
  Result := Number(MCP_CLIENT_PROMPTS_GENERATION);
end;

function TMcpClient.ResourcesGeneration: Int64;
begin
  Result := Number(MCP_CLIENT_RESOURCES_GENERATION);
end;

function TMcpClient.Request(const Method, ParamsJson: string; WaitMs: Int64; const OptionsJson: string): string;
var
  Channel: TMcpChannel;
  Name, Params, Options: UTF8String;
  Call: PMcpCall;
  Status: Integer;
  Answer: TMcpResult;
begin
  Channel := Live;
  Name := McpIdent(Method);
  Params := McpUtf8(ParamsJson);
  Options := McpUtf8(OptionsJson);
  Channel.AddRef;
  try
    if Channel.Delivers and not Channel.Quiet then
    begin
      Channel.StartRequest(Name, Params, Options, True, Call);
      Answer := AwaitCall(Channel, Call, WaitMs);
    end
    else
    begin
      Status := mcp_call_run(Channel.Client, PAnsiChar(Name), McpPtr(Params), Length(Params), McpPtr(Options), Length(Options),
        WaitMs, Call);
      Answer := FinishCall(Call, Status);
    end;
  finally
    Channel.Release;
  end;
  try
    Result := Answer.Json;
  finally
    Answer.Free;
  end;
end;

function TMcpClient.StartRequest(const Method, ParamsJson, OptionsJson: string): Int64;
var
  Call: PMcpCall;
begin
  Result := Live.StartRequest(McpIdent(Method), McpUtf8(ParamsJson), McpUtf8(OptionsJson), False, Call);
end;

function TMcpClient.Subscribe(const FilterJson, OptionsJson: string): Int64;
begin
  Result := StartRequest('subscriptions/listen', '{"notifications":' + FilterJson + '}', OptionsJson);
end;

procedure TMcpClient.Notify(const Method, ParamsJson: string);
var
  Name, Params: UTF8String;
begin
  Name := McpIdent(Method);
  Params := McpUtf8(ParamsJson);
  McpCheck(mcp_client_notify(Live.Client, PAnsiChar(Name), McpPtr(Params), Length(Params)));
end;

function TMcpClient.TaskOpen(const TaskId: string): TMcpTask;
var
  Id: UTF8String;
  Task: PMcpTask;
begin
  Id := McpIdent(TaskId);
  McpCheck(mcp_task_open(Live.Client, PAnsiChar(Id), Task));
  Result := TMcpTask.Adopt(FChannel, Task, nil);
end;

function TMcpClient.TaskImport(const RecordJson: string): TMcpTask;
var
  Content: UTF8String;
  Task: PMcpTask;
begin
  Content := McpUtf8(RecordJson);
  McpCheck(mcp_task_import(Live.Client, McpPtr(Content), Length(Content), Task));
  Result := TMcpTask.Adopt(FChannel, Task, nil);
end;

function TMcpClient.Purge(AgeMs: Int64): Int64;
begin
  McpCheck(mcp_client_purge(Live.Client, AgeMs, Result));
end;

function TMcpClient.TasksGet(const TaskId: string; WaitMs: Int64): TMcpTask;
begin
  Result := TaskOpen(TaskId);
  try
    Result.Refresh(WaitMs);
  except
    Result.Free;
    raise;
  end;
end;

function TMcpClient.TasksUpdate(const TaskId, ResponsesJson: string; WaitMs: Int64): Boolean;
var
  Task: TMcpTask;
begin
  Task := TaskOpen(TaskId);
  try
    Result := Task.Update(ResponsesJson, WaitMs);
  finally
    Task.Free;
  end;
end;

function TMcpClient.TasksCancel(const TaskId: string): Boolean;
var
  Task: TMcpTask;
begin
  Task := TaskOpen(TaskId);
  try
    Result := Task.Cancel;
  finally
    Task.Free;
  end;
end;

function Filter(const ToolCallId, ContextJson: string): UTF8String;
var
  O: TMcpJsonObject;
begin
  Result := '';
  if (ToolCallId = '') and (ContextJson = '') then
    Exit;
  O.Clear;
  if ToolCallId <> '' then
    O.Put('tool_call_id', ToolCallId);
  if ContextJson <> '' then
    O.PutRaw('context', McpUtf8(ContextJson));
  Result := O.Text;
end;

function TMcpClient.TaskList(const ToolCallId, ContextJson: string): TMcpTaskInfos;
var
  Narrow: UTF8String;
  Text: PMcpText;
  Items: TMcpJsonTexts;
  I: Integer;
begin
  Narrow := Filter(ToolCallId, ContextJson);
  McpCheck(mcp_client_tasks(Live.Client, McpPtr(Narrow), Length(Narrow), Text));
  Items := McpJsonItems(TakeText(Text));
  Result := nil;
  SetLength(Result, Length(Items));
  for I := 0 to High(Items) do
  begin
    Result[I].TaskId := McpJsonStr(Items[I], 'task_id');
    Result[I].ToolName := McpJsonStr(Items[I], 'tool');
    Result[I].ToolCallId := McpJsonStr(Items[I], 'tool_call_id');
    Result[I].Context := McpJsonRaw(Items[I], 'context');
    Result[I].Status := McpJsonStr(Items[I], 'status');
    Result[I].StatusMessage := McpJsonStr(Items[I], 'status_message');
    Result[I].NextPollMs := McpJsonInt(Items[I], 'next_poll_ms');
    Result[I].Overdue := McpJsonBool(Items[I], 'overdue');
    Result[I].Json := McpStr(Items[I]);
  end;
end;

function TMcpClient.Check(WaitMs: Int64; const ToolCallId, ContextJson: string): string;
var
  Narrow: UTF8String;
  Text: PMcpText;
begin
  Narrow := Filter(ToolCallId, ContextJson);
  McpCheck(mcp_client_check(Live.Client, McpPtr(Narrow), Length(Narrow), WaitMs, Text));
  Result := McpStr(TakeText(Text));
end;

procedure TMcpClient.Poke;
begin
  McpCheck(mcp_client_poke(Live.Client));
end;

function TMcpClient.Stats: string;
var
  Text: PMcpText;
begin
  McpCheck(mcp_client_stats(Live.Client, Text));
  Result := McpStr(TakeText(Text));
end;

function TMcpClient.DispatchEvents(WaitMs: Int64): Integer;
var
  Channel: TMcpChannel;
begin
  Channel := Live;
  if Channel.Mode <> etManual then
    raise EMcpError.CreateInfo(McpMakeError(MCP_E_STATE, 'DispatchEvents is for EventThread = etManual'));
  Channel.AddRef;
  try
    Result := Channel.ServeOnce(WaitMs);
  finally
    Channel.Release;
  end;
end;

function TMcpClient.ServerText(Field: Integer): string;
var
  Server: PMcpServer;
  P: PAnsiChar;
  N: NativeUInt;
begin
  McpCheck(mcp_client_server(Live.Client, Server));
  try
    N := 0;
    P := mcp_server_text(Server, Field, @N);
    Result := McpStr(P, N);
  finally
    mcp_server_free(Server);
  end;
end;

function TMcpClient.Era: string;
begin
  Result := ServerText(MCP_SERVER_ERA);
end;

function TMcpClient.ProtocolVersion: string;
begin
  Result := ServerText(MCP_SERVER_VERSION);
end;

function TMcpClient.ServerInfo: string;
begin
  Result := ServerText(MCP_SERVER_INFO);
end;

function TMcpClient.ServerName: string;
begin
  Result := McpJsonStr(McpUtf8(ServerInfo), 'name');
end;

function TMcpClient.Instructions: string;
begin
  Result := ServerText(MCP_SERVER_INSTRUCTIONS);
end;

function TMcpClient.Capabilities: string;
begin
  Result := ServerText(MCP_SERVER_CAPABILITIES);
end;

{ Delivery. Wants runs on any thread, under the channel's lock. From Deliver on: once a handler of the program's was called,
  nothing of Self may be touched, since it may have been freed. }

function TMcpClient.Wants(Kind: Integer): Boolean;
begin
  case Kind of
    MCP_EVENT_STATE: Result := Assigned(FOnStateChange);
    MCP_EVENT_CALL_DONE: Result := Assigned(FOnToolResponse);
    MCP_EVENT_PROGRESS: Result := Assigned(FOnProgress);
    MCP_EVENT_LOG_MESSAGE: Result := Assigned(FOnLog);
    MCP_EVENT_NOTIFICATION: Result := Assigned(FOnNotification) or Assigned(FOnHeard);
    MCP_EVENT_SUBSCRIPTION: Result := Assigned(FOnSubscription);
    MCP_EVENT_TASK_CREATED: Result := Assigned(FOnTaskCreated);
    MCP_EVENT_TASK_RESUMED: Result := Assigned(FOnTaskResumed);
    MCP_EVENT_TASK_STATUS: Result := Assigned(FOnTaskStatus);
    MCP_EVENT_TASK_DONE: Result := Assigned(FOnTaskCompleted);
    MCP_EVENT_TASK_OVERDUE, MCP_EVENT_TASK_DEGRADED, MCP_EVENT_TASK_RECOVERED: Result := Assigned(FOnTaskHealth);
    MCP_EVENT_ELICITATION, MCP_EVENT_SAMPLING, MCP_EVENT_ROOTS: Result := Assigned(FOnInputRequired);
    MCP_EVENT_INPUT_WITHDRAWN: Result := Assigned(FOnInputWithdrawn);
    MCP_EVENT_ERROR_: Result := Assigned(FOnError);
  else
    Result := False;
  end;
end;

procedure TMcpClient.FireTask(const Handler: TMcpTaskEvent; Event: PMcpEvent);
var
  Task: TMcpTask;
begin
  Task := EventTask(FChannel, Event);
  try
    if (Task <> nil) and Assigned(Handler) then
      Handler(Self, Task);
  finally
    TMcpKept.Drop(Task);
  end;
end;

procedure TMcpClient.FireHealth(Health: TMcpTaskHealth; Event: PMcpEvent);
var
  Task: TMcpTask;
  Error: TMcpErrorInfo;
begin
  Task := EventTask(FChannel, Event);
  try
    Error := EventError(Event, MCP_OK);
    if (Task <> nil) and Assigned(FOnTaskHealth) then
      FOnTaskHealth(Self, Task, Health, Error);
  finally
    TMcpKept.Drop(Task);
  end;
end;

procedure TMcpClient.FireInput(const Handler: TMcpInputEvent; Event: PMcpEvent);
var
  Handle: PMcpInput;
  Input: TMcpInput;
begin
  if (mcp_event_input(Event, Handle) <> MCP_OK) or (Handle = nil) then
    Exit;
  Input := TMcpInput.Adopt(Handle);
  try
    if Assigned(Handler) then
      Handler(Self, Input);
  finally
    TMcpKept.Drop(Input);
  end;
end;

procedure TMcpClient.FireResponse(Event: PMcpEvent);
var
  Response: TMcpResponse;
  Call: PMcpCall;
  Answer: PMcpResult;
  Task: PMcpTask;
  Status: Integer;
begin
  Response := TMcpResponse.Create;
  try
    Response.FCallId := EventNumber(Event, MCP_EVENT_NUMBER_CALL_ID);
    Status := Integer(EventNumber(Event, MCP_EVENT_NUMBER_STATUS));
    Response.FError := McpNoError;
    if Status < 0 then
      Response.FError := EventError(Event, Status);
    if ((Status >= 0) or (Status = MCP_E_SCHEMA)) and (mcp_event_call(Event, Call) = MCP_OK) and (Call <> nil) then
      try
        if Status = MCP_S_TASK then
        begin
          if (mcp_call_task(Call, Task) = MCP_OK) and (Task <> nil) then
            Response.FTask := TMcpTask.Adopt(FChannel, Task, nil);
        end
        else if (mcp_call_result(Call, Answer) = Status) and (Answer <> nil) then
          Response.FResult := TMcpResult.Adopt(Answer);
      finally
        mcp_call_free(Call);
      end;
    if Assigned(FOnToolResponse) then
      FOnToolResponse(Self, Response);
  finally
    TMcpKept.Drop(Response);
  end;
end;

procedure TMcpClient.FireNotification(Event: PMcpEvent);
var
  Method, Params: string;
  CallId: Int64;
begin
  Method := McpStr(EventText(Event, MCP_EVENT_TEXT_METHOD));
  Params := McpStr(EventText(Event, MCP_EVENT_TEXT_JSON));
  CallId := EventNumber(Event, MCP_EVENT_NUMBER_CALL_ID);
  if (CallId > 0) and Assigned(FOnHeard) then
    FOnHeard(Self, CallId, Method, Params)
  else if Assigned(FOnNotification) then
    FOnNotification(Self, Method, Params);
end;

procedure TMcpClient.FireSubscription(Event: PMcpEvent);
var
  News: TMcpSubscription;
  N: Int64;
begin
  N := EventNumber(Event, MCP_EVENT_NUMBER_SUBSCRIPTION);
  if not Assigned(FOnSubscription) or (N < MCP_SUBSCRIPTION_ACTIVE) or (N > MCP_SUBSCRIPTION_ENDED) then
    Exit;
  News.CallId := EventNumber(Event, MCP_EVENT_NUMBER_CALL_ID);
  News.State := TMcpSubscriptionState(Integer(N) - MCP_SUBSCRIPTION_ACTIVE);
  News.Json := '';
  if News.State in [ssActive, ssCatchUp] then
    News.Json := McpStr(EventText(Event, MCP_EVENT_TEXT_JSON));
  News.Error := EventError(Event, MCP_OK);
  FOnSubscription(Self, News);
end;

procedure TMcpClient.Deliver(Event: PMcpEvent);
var
  Json, Value: UTF8String;
  Text: string;
  Progress: TMcpProgress;
  N: Int64;
begin
  case mcp_event_kind(Event) of
    MCP_EVENT_STATE:
      if Assigned(FOnStateChange) then
      begin
        N := EventNumber(Event, MCP_EVENT_NUMBER_STATE);
        if (N >= Ord(Low(TMcpState))) and (N <= Ord(High(TMcpState))) then
          FOnStateChange(Self, TMcpState(Integer(N)), EventError(Event, MCP_OK));
      end;
    MCP_EVENT_CALL_DONE: FireResponse(Event);
    MCP_EVENT_PROGRESS:
      if Assigned(FOnProgress) then
      begin
        Json := EventText(Event, MCP_EVENT_TEXT_JSON);
        Progress.CallId := EventNumber(Event, MCP_EVENT_NUMBER_CALL_ID);
        Progress.Progress := McpJsonFloat(Json, 'progress');
        Progress.Total := McpJsonFloat(Json, 'total');
        Progress.Message := McpJsonStr(Json, 'message');
        Progress.Json := McpStr(Json);
        FOnProgress(Self, Progress);
      end;
    MCP_EVENT_LOG_MESSAGE:
      if Assigned(FOnLog) then
      begin
        Json := EventText(Event, MCP_EVENT_TEXT_JSON);
        if not McpJsonMember(Json, 'data', Value) then
          Value := '';
        Text := McpJsonStr(Json, 'data', McpStr(Value)); { data may be any JSON }
        FOnLog(Self, McpJsonStr(Json, 'level'), Text, McpStr(Json));
      end;
    MCP_EVENT_NOTIFICATION: FireNotification(Event);
    MCP_EVENT_SUBSCRIPTION: FireSubscription(Event);
    MCP_EVENT_TASK_CREATED: FireTask(FOnTaskCreated, Event);
    MCP_EVENT_TASK_RESUMED: FireTask(FOnTaskResumed, Event);
    MCP_EVENT_TASK_STATUS: FireTask(FOnTaskStatus, Event);
    MCP_EVENT_TASK_DONE: FireTask(FOnTaskCompleted, Event);
    MCP_EVENT_TASK_OVERDUE: FireHealth(thOverdue, Event);
    MCP_EVENT_TASK_DEGRADED: FireHealth(thDegraded, Event);
    MCP_EVENT_TASK_RECOVERED: FireHealth(thRecovered, Event);
    MCP_EVENT_ELICITATION, MCP_EVENT_SAMPLING, MCP_EVENT_ROOTS: FireInput(FOnInputRequired, Event);
    MCP_EVENT_INPUT_WITHDRAWN: FireInput(FOnInputWithdrawn, Event);
    MCP_EVENT_ERROR_:
      if Assigned(FOnError) then
        FOnError(Self, EventError(Event, MCP_E_INTERNAL));
  end;
end;

procedure TMcpClient.CallbackFailed;
var
  Error: TObject;
begin
  Error := ExceptObject;
  if Assigned(FOnCallbackError) and (Error is Exception) and not (Error is EAbort) then
    FOnCallbackError(Self, Exception(Error))
  else
    McpReportException(Self);
end;

end.
