{$I McpNative.inc}
{ The road of events from the library to a component: one client handle, one manual queue, and whoever serves it.

  The library's callback only keeps the event and puts it into a line (Arrive); the handlers of the program run later, when
  the line is emptied (Drain), outside the library. So a handler may block, show a modal form, raise, or free the component.

    etMain     a thread of this unit serves the queue, the main thread empties the line (TThread.Queue)
    etLibrary  the same thread serves the queue and empties the line
    etManual   the host does both, in TMcpClient.DispatchEvents

  A channel is counted: its owner, its thread, each registration, each queued hand-over and each task object hold it. Its
  owner may die at any time; what arrives afterwards is dropped. }
unit McpNative.Channel;

interface

uses
  {$IFDEF FPC}SysUtils, Classes, SyncObjs, Math,{$ELSE}System.SysUtils, System.Classes, System.SyncObjs, System.Math,{$ENDIF}
  McpNative.Text, McpNative.Abi, McpNative.Load, McpNative.Errors;

type
  TMcpEventThread = (etMain, etLibrary, etManual);

  { What a handler gets lives as long as the handler runs, unless it calls Keep: then it is the program's, to be freed by it. }
  TMcpKept = class
  private
    FKept: Boolean;
  public
    procedure Keep;
    property Kept: Boolean read FKept;
    { Frees Item unless it was kept. }
    class procedure Drop(Item: TMcpKept);
  end;

  TMcpDeliver = procedure(Event: PMcpEvent) of object;
  TMcpWants = function(Kind: Integer): Boolean of object;
  TMcpFailed = procedure of object;   { called inside an "except" block }

  TMcpChannel = class
  private
    FRefs: Integer;
    FLock: TCriticalSection;
    FCallsLock: TCriticalSection;
    FMode: TMcpEventThread;
    FClient: PMcpClient;
    FQueue: PMcpQueue;
    FDeliver: TMcpDeliver;
    FWants: TMcpWants;
    FFailed: TMcpFailed;
    FOnRelease: TMcpFailed;
    FItems: array of PMcpEvent;      { a ring }
    FFirst: Integer;
    FCount: Integer;
    FPosted: Boolean;                { MainDrain is queued }
    FDiscard: Boolean;
    FStop: Boolean;
    FOrphan: Boolean;
    FFinished: Boolean;
    FReleaseWanted: Boolean;
    FDepth: Integer;
    FArrived: TEvent;                { something came, kept or not }
    FSpace: TEvent;                  { the line is short again }
    FDone: TEvent;                   { the thread has ended }
    FThread: TThread;
    FServer: TThreadID;              { the thread that serves the queue, where it is not the main thread that empties the line }
    FCallIds: array of Int64;        { ascending }
    FCalls: array of PMcpCall;       { nil: somebody waits for this one, OnToolResponse does not tell it }
    procedure Arrive(Event: PMcpEvent);
    procedure Append(Event: PMcpEvent);
    function Pop(out Event: PMcpEvent; out Deliver: TMcpDeliver): Boolean;
    procedure Post;
    procedure MainDrain;
    procedure Serve;
    procedure Failed;
    procedure StopThread(BoundMs: Integer);
    procedure WaitClosed(BoundMs: Integer);
    procedure DropAll;
    procedure Track(Id: Int64; Call: PMcpCall);
    function ForgetCall(Id: Int64): Boolean;
    function Delivering: Boolean;
    function Started(Call: PMcpCall; Waited: Boolean): Int64;
    function FindCall(Id: Int64; out At: Integer): Boolean;
    function NextSlice(Started, WaitMs: Int64; out Left: Int64; out Status: Integer): Boolean;
  public
    constructor Create(Mode: TMcpEventThread; Deliver: TMcpDeliver; Wants: TMcpWants; OnFailed, OnRelease: TMcpFailed);
    destructor Destroy; override;
    procedure AddRef;
    procedure Release;

    { Takes the client handle over, makes the queue, registers every kind but the questions, which only Inputs adds. }
    procedure Attach(Client: PMcpClient; const Inputs: array of Integer);
    { Starts the thread, then opens. }
    procedure Open;
    { Ends everything, within a bound; the owner hears nothing any more. Fine inside a handler. }
    procedure Shutdown;

    { mcp_client_wait_closed that delivers events while it waits, where this thread has to. }
    function WaitEnd(WaitMs: Int64): Integer;

    { Serves the queue and empties the line on this thread, for etManual. Number of events delivered. }
    function ServeOnce(WaitMs: Int64): Integer;
    { Delivers what is in the line; the calling thread must be the one that delivers. }
    function Drain(Max: Integer): Integer;
    { True where this thread is the one that delivers events, so that a wait has to deliver while it waits. }
    function Delivers: Boolean;
    { A wait of at most Ms on the delivering thread: returns early when anything arrived. }
    procedure Pump(Ms: Int64);
    { True when no handler is assigned: then a wait needs to deliver nothing. }
    function Quiet: Boolean;
    { mcp_call_wait and mcp_task_wait that deliver events while they wait, where this thread has to. }
    function WaitCall(Call: PMcpCall; WaitMs: Int64): Integer;
    function WaitTask(Task: PMcpTask; WaitMs: Int64; out Snapshot: PMcpSnapshot): Integer;

    { Start a call. Waited: the handle is the caller's, and OnToolResponse does not tell the end. Else the channel keeps
      it until the call is done, for CancelCall. }
    function StartTool(const Name, Arguments, Options: UTF8String; Waited: Boolean; out Call: PMcpCall): Int64;
    function StartRequest(const Method, Params, Options: UTF8String; Waited: Boolean; out Call: PMcpCall): Int64;
    function CancelCall(Id: Int64): Boolean;

    { The owner asked to be freed once the running handler has returned. False when none runs. }
    function ReleaseLater: Boolean;

    property Client: PMcpClient read FClient;
    property Mode: TMcpEventThread read FMode;
  end;

{ mcp_task_wait_many that delivers the events of these channels while it waits, where this thread has to. Channels[i] is
  that of Tasks[i]. }
function McpWaitTasks(const Channels: array of TMcpChannel; const Tasks: array of PMcpTask; UntilWhat: Integer;
  WaitMs: Int64; out Index: NativeUInt): Integer;

{ Delivers what waits for the main thread, waiting at most WaitMs for the first. For programs without a message loop; call it
  on the main thread. True when something was run. }
function McpPump(WaitMs: Integer = 50): Boolean;

implementation

const
  { Events in the line beyond which the service thread stops serving the queue, so that the library coalesces. }
  LineHigh = 1000;
  { Handlers run in one go before the main thread is given back to its message loop. }
  LineSlice = 200;
  { The end of a client takes at most twice two seconds of grace; then it is left behind. }
  CloseBoundMs = 6000;
  ThreadBoundMs = 4000;

type
  TMcpServiceThread = class(TThread)
  private
    FChannel: TMcpChannel;
  protected
    procedure Execute; override;
  public
    constructor Create(Channel: TMcpChannel);
    destructor Destroy; override;
  end;

var
  Living: TThreadList;       { channels that are open, for finalization }
  ThreadCount: Integer;

function Add(var Counter: Integer; By: Integer): Integer;
begin
  {$IFDEF FPC}
  Result := InterlockedExchangeAdd(Counter, By) + By;
  {$ELSE}
  Result := AtomicIncrement(Counter, By);
  {$ENDIF}
end;

function OnMain: Boolean;
begin
  Result := McpThreadId = MainThreadID;
end;

function McpPump(WaitMs: Integer): Boolean;
begin
  Result := CheckSynchronize(WaitMs);
end;

{ Trampolines: called by the library, so nothing may leave them. }

procedure EventTrampoline(Event: PMcpEvent; User: Pointer); cdecl;
begin
  try
    TMcpChannel(User).Arrive(Event);
  except
    { nothing of ours raises here but a lack of memory; the event is lost, the library is not }
  end;
end;

procedure DestroyTrampoline(User: Pointer); cdecl;
begin
  try
    TMcpChannel(User).Release;
  except
  end;
end;

{ TMcpKept }

procedure TMcpKept.Keep;
begin
  FKept := True;
end;

class procedure TMcpKept.Drop(Item: TMcpKept);
begin
  if (Item <> nil) and not Item.FKept then
    Item.Free;
end;

{ TMcpServiceThread }

constructor TMcpServiceThread.Create(Channel: TMcpChannel);
begin
  FChannel := Channel;
  Channel.AddRef;
  Add(ThreadCount, 1);
  inherited Create(False);
end;

destructor TMcpServiceThread.Destroy;
begin
  inherited Destroy;
  Add(ThreadCount, -1);
end;

procedure TMcpServiceThread.Execute;
begin
  try
    FChannel.Serve;
  finally
    FChannel.FLock.Enter;
    FChannel.FFinished := True;
    FreeOnTerminate := FChannel.FOrphan;
    FChannel.FLock.Leave;
    FChannel.FDone.SetEvent;
    FChannel.Release;
  end;
end;

{ TMcpChannel }

constructor TMcpChannel.Create(Mode: TMcpEventThread; Deliver: TMcpDeliver; Wants: TMcpWants; OnFailed, OnRelease: TMcpFailed);
begin
  inherited Create;
  FRefs := 1;
  FMode := Mode;
  FDeliver := Deliver;
  FWants := Wants;
  FFailed := OnFailed;
  FOnRelease := OnRelease;
  FLock := TCriticalSection.Create;
  FCallsLock := TCriticalSection.Create;
  FArrived := TEvent.Create(nil, False, False, '');
  FSpace := TEvent.Create(nil, False, False, '');
  FDone := TEvent.Create(nil, True, False, '');
  if Mode = etManual then
    FServer := McpThreadId;
end;

destructor TMcpChannel.Destroy;
begin
  { May run inside a destroy callback: no call into the library here. }
  FDone.Free;
  FSpace.Free;
  FArrived.Free;
  FCallsLock.Free;
  FLock.Free;
  inherited Destroy;
end;

procedure TMcpChannel.AddRef;
begin
  Add(FRefs, 1);
end;

procedure TMcpChannel.Release;
begin
  if Add(FRefs, -1) = 0 then
    Destroy;
end;

procedure TMcpChannel.Attach(Client: PMcpClient; const Inputs: array of Integer);
const
  Always: array[0..13] of Integer = (MCP_EVENT_STATE, MCP_EVENT_CALL_DONE, MCP_EVENT_PROGRESS, MCP_EVENT_LOG_MESSAGE,
    MCP_EVENT_NOTIFICATION, MCP_EVENT_TASK_CREATED, MCP_EVENT_TASK_STATUS, MCP_EVENT_TASK_DONE, MCP_EVENT_TASK_OVERDUE,
    MCP_EVENT_TASK_DEGRADED, MCP_EVENT_TASK_RECOVERED, MCP_EVENT_TASK_RESUMED, MCP_EVENT_ERROR_,
    MCP_EVENT_SUBSCRIPTION);

  procedure Enlist(Kind: Integer);
  begin
    AddRef; { given back by DestroyTrampoline, also when registering failed }
    McpCheck(mcp_client_on(Client, Kind, EventTrampoline, Self, DestroyTrampoline));
  end;

var
  I: Integer;
begin
  FClient := Client;
  McpCheck(mcp_queue_new(FQueue));
  McpCheck(mcp_client_set_queue(Client, FQueue));
  for I := Low(Always) to High(Always) do
    Enlist(Always[I]);
  for I := Low(Inputs) to High(Inputs) do
    Enlist(Inputs[I]);
  if Length(Inputs) > 0 then
    Enlist(MCP_EVENT_INPUT_WITHDRAWN);
end;

procedure TMcpChannel.Open;
begin
  Living.Add(Self);
  if FMode <> etManual then
    FThread := TMcpServiceThread.Create(Self);
  McpCheck(mcp_client_open(FClient));
end;

procedure TMcpChannel.Append(Event: PMcpEvent);
var
  Grown: array of PMcpEvent;
  I: Integer;
begin
  if FCount = Length(FItems) then
  begin
    SetLength(Grown, FCount * 2 + 16);
    for I := 0 to FCount - 1 do
      Grown[I] := FItems[(FFirst + I) mod Length(FItems)];
    FItems := nil;
    SetLength(FItems, Length(Grown));
    for I := 0 to FCount - 1 do
      FItems[I] := Grown[I];
    FFirst := 0;
  end;
  FItems[(FFirst + FCount) mod Length(FItems)] := Event;
  Inc(FCount);
end;

function TMcpChannel.Pop(out Event: PMcpEvent; out Deliver: TMcpDeliver): Boolean;
begin
  Event := nil;
  Deliver := nil;
  FLock.Enter;
  try
    Result := (FCount > 0) and not FDiscard;
    if not Result then
      Exit;
    Event := FItems[FFirst];
    FFirst := (FFirst + 1) mod Length(FItems);
    Dec(FCount);
    Deliver := FDeliver;
    if FCount = LineHigh - 1 then
      FSpace.SetEvent;
  finally
    FLock.Leave;
  end;
end;

procedure TMcpChannel.Arrive(Event: PMcpEvent);
var
  Kind: Integer;
  Id: Int64;
  Mine: PMcpEvent;
  Tell, ToMain: Boolean;
begin
  Kind := mcp_event_kind(Event);
  Tell := True;
  if (Kind = MCP_EVENT_CALL_DONE) and (mcp_event_number(Event, MCP_EVENT_NUMBER_CALL_ID, Id) = MCP_OK) then
    Tell := ForgetCall(Id);
  ToMain := False;
  FLock.Enter;
  try
    if Tell and not FDiscard and Assigned(FWants) and FWants(Kind) then
      if mcp_event_keep(Event, Mine) = MCP_OK then
      begin
        Append(Mine);
        ToMain := FMode = etMain;
      end;
  finally
    FLock.Leave;
  end;
  if ToMain then
    Post
  else if (FMode = etLibrary) and (McpThreadId <> FServer) then
    { Another thread delivered: one that waited before the service thread had begun to serve. }
    mcp_queue_wake(FQueue);
  FArrived.SetEvent;
end;

procedure TMcpChannel.Post;
begin
  FLock.Enter;
  try
    if FPosted or FDiscard or (FCount = 0) then
      Exit;
    FPosted := True;
  finally
    FLock.Leave;
  end;
  AddRef;
  TThread.Queue(nil, MainDrain);
end;

procedure TMcpChannel.MainDrain;
var
  More: Boolean;
begin
  FLock.Enter;
  FPosted := False;
  FLock.Leave;
  Drain(LineSlice);
  { The rest is posted by the service thread: queued from here it would run at once. }
  FLock.Enter;
  More := (FCount > 0) and not FDiscard and (FQueue <> nil);
  if More then
    mcp_queue_wake(FQueue);
  FLock.Leave;
  Release;
end;

procedure TMcpChannel.Failed;
var
  Handler: TMcpFailed;
begin
  FLock.Enter;
  Handler := FFailed;
  FLock.Leave;
  try
    if Assigned(Handler) then
      Handler
    else
      McpReportException(nil);
  except
    { what the handler of exceptions raised ends here }
  end;
end;

function TMcpChannel.Drain(Max: Integer): Integer;
var
  Event: PMcpEvent;
  Deliver: TMcpDeliver;
  FreeOwner: TMcpFailed;
begin
  Result := 0;
  AddRef; { a handler may free the owner }
  try
    Inc(FDepth);
    try
      while (Result < Max) and Pop(Event, Deliver) do
      begin
        Inc(Result);
        try
          try
            Deliver(Event);
          except
            Failed;
          end;
        finally
          mcp_event_free(Event);
        end;
        if FReleaseWanted and (FDepth = 1) then
          Break;
      end;
    finally
      Dec(FDepth);
    end;
    if FReleaseWanted and (FDepth = 0) then
    begin
      FReleaseWanted := False;
      FLock.Enter;
      FreeOwner := FOnRelease;
      FLock.Leave;
      if Assigned(FreeOwner) then
        FreeOwner;
    end;
  finally
    Release;
  end;
end;

function TMcpChannel.ReleaseLater: Boolean;
begin
  Result := FDepth > 0;
  if Result then
    FReleaseWanted := True;
end;

procedure TMcpChannel.Serve;
var
  Long: Boolean;
  Queue: PMcpQueue;
begin
  FServer := McpThreadId;
  Queue := FQueue;
  repeat
    if mcp_queue_dispatch(Queue, -1, nil) < 0 then
      Break;
    if FMode = etLibrary then
      Drain(MaxInt)
    else
    begin
      Post;
      repeat
        FLock.Enter;
        Long := (FCount >= LineHigh) and not FDiscard;
        FLock.Leave;
        if Long then
          FSpace.WaitFor(1000);
      until not Long;
    end;
  until FStop;
end;

function TMcpChannel.ServeOnce(WaitMs: Int64): Integer;
begin
  FServer := McpThreadId;
  Result := Drain(MaxInt);
  if Result > 0 then
    WaitMs := 0;
  if FQueue <> nil then
  begin
    McpCheck(mcp_queue_dispatch(FQueue, WaitMs, nil));
    Inc(Result, Drain(MaxInt));
  end;
end;

function TMcpChannel.Delivering: Boolean;
begin
  if FMode = etMain then
    Result := OnMain
  else
    Result := McpThreadId = FServer;
end;

function TMcpChannel.Delivers: Boolean;
begin
  Result := not FDiscard and Delivering;
end;

function TMcpChannel.Quiet: Boolean;
var
  Kind: Integer;
begin
  FLock.Enter;
  try
    Result := True;
    if Assigned(FWants) then
      for Kind := MCP_EVENT_STATE to MCP_EVENT_SUBSCRIPTION do
        if FWants(Kind) then
        begin
          Result := False;
          Exit;
        end;
  finally
    FLock.Leave;
  end;
end;

procedure TMcpChannel.Pump(Ms: Int64);
var
  Idle: Boolean;
begin
  if Ms > 1000 then
    Ms := 1000;
  if FMode = etMain then
  begin
    FLock.Enter;
    Idle := FCount = 0;
    FLock.Leave;
    if Idle then
      FArrived.WaitFor(Cardinal(Ms));
    Drain(LineSlice);
  end
  else
  begin
    if Drain(LineSlice) = 0 then
      mcp_queue_dispatch(FQueue, Ms, nil);
    Drain(LineSlice);
  end;
end;

function TMcpChannel.WaitCall(Call: PMcpCall; WaitMs: Int64): Integer;
var
  Started, Left: Int64;
begin
  if not Delivers then
  begin
    Result := mcp_call_wait(Call, WaitMs);
    Exit;
  end;
  Started := McpTicks;
  while True do
  begin
    Result := mcp_call_wait(Call, 0);
    if Result <> MCP_S_TIMEOUT then
    begin
      { what came with the end of the call (its task was created, say) is told before the wait returns }
      Drain(MaxInt);
      Exit;
    end;
    if not NextSlice(Started, WaitMs, Left, Result) then
      Exit;
    Pump(Left);
  end;
end;

function TMcpChannel.WaitTask(Task: PMcpTask; WaitMs: Int64; out Snapshot: PMcpSnapshot): Integer;
var
  Started, Left: Int64;
begin
  Snapshot := nil;
  if not Delivers then
  begin
    Result := mcp_task_wait(Task, WaitMs, @Snapshot);
    Exit;
  end;
  Started := McpTicks;
  while True do
  begin
    Result := mcp_task_wait(Task, 0, @Snapshot);
    if Result <> MCP_S_TIMEOUT then
    begin
      Drain(MaxInt);
      Exit;
    end;
    if not NextSlice(Started, WaitMs, Left, Result) then
      Exit;
    mcp_snapshot_free(Snapshot);
    Snapshot := nil;
    Pump(Left);
  end;
end;

function McpWaitTasks(const Channels: array of TMcpChannel; const Tasks: array of PMcpTask; UntilWhat: Integer;
  WaitMs: Int64; out Index: NativeUInt): Integer;
var
  Ours: array of TMcpChannel; { those that this thread delivers for, each once }
  I, J, N: Integer;
  Started, Left: Int64;
begin
  Index := 0;
  N := 0;
  Ours := nil;
  SetLength(Ours, Length(Channels));
  for I := 0 to High(Channels) do
  begin
    J := 0;
    while (J < N) and (Ours[J] <> Channels[I]) do
      Inc(J);
    if (J = N) and Channels[I].Delivers then
    begin
      Ours[N] := Channels[I];
      Inc(N);
    end;
  end;
  if N = 0 then
  begin
    Result := mcp_task_wait_many(@Tasks[0], Length(Tasks), UntilWhat, WaitMs, @Index);
    Exit;
  end;
  for I := 0 to N - 1 do
    Ours[I].AddRef; { a handler may free a client }
  try
    Started := McpTicks;
    while True do
    begin
      Result := mcp_task_wait_many(@Tasks[0], Length(Tasks), UntilWhat, 0, @Index);
      Left := 100;
      if WaitMs >= 0 then
        Left := Min(Left, Started + WaitMs - McpTicks);
      if (Result <> MCP_S_TIMEOUT) or (Left <= 0) then
        Break;
      for I := 0 to N - 1 do
        if Ours[I].Delivers then
          Ours[I].Pump(Max(1, Left div N));
    end;
    for I := 0 to N - 1 do
      if Ours[I].Delivers then
        Ours[I].Drain(MaxInt);
  finally
    for I := 0 to N - 1 do
      Ours[I].Release;
  end;
end;

{ How long a wait may pump before it looks again; False, with the status to give up with, when it is over. A question to be
  answered by hand makes no event of a call, so that a look now and then is needed. }
function TMcpChannel.NextSlice(Started, WaitMs: Int64; out Left: Int64; out Status: Integer): Boolean;
begin
  Result := False;
  Status := MCP_S_TIMEOUT;
  Left := 100;
  if WaitMs >= 0 then
    Left := Min(Left, Started + WaitMs - McpTicks);
  if not Delivers then { a handler freed the component }
    Status := MCP_E_CLOSED
  else
    Result := Left > 0;
end;

function TMcpChannel.WaitEnd(WaitMs: Int64): Integer;
var
  Started, Slice: Int64;
begin
  AddRef;
  try
    if not Delivers then
    begin
      Result := McpCheck(mcp_client_wait_closed(FClient, WaitMs));
      Exit;
    end;
    Started := McpTicks;
    repeat
      Drain(LineSlice);
      Slice := 20;
      if (WaitMs >= 0) and (WaitMs < Slice) then
        Slice := WaitMs;
      if FDiscard then
        Result := MCP_OK { a handler freed the component }
      else
        Result := McpCheck(mcp_client_wait_closed(FClient, Slice));
    until (Result <> MCP_S_TIMEOUT) or ((WaitMs >= 0) and (McpTicks - Started >= WaitMs));
    Drain(MaxInt);
  finally
    Release;
  end;
end;

function TMcpChannel.FindCall(Id: Int64; out At: Integer): Boolean;
var
  Low, High: Integer;
begin
  Low := 0;
  High := Length(FCallIds) - 1;
  while Low <= High do
  begin
    At := (Low + High) div 2;
    if FCallIds[At] = Id then
    begin
      Result := True;
      Exit;
    end;
    if FCallIds[At] < Id then
      Low := At + 1
    else
      High := At - 1;
  end;
  At := Low;
  Result := False;
end;

{ The call is over. False when the one who started it waits for it, so that nobody else is told. }
function TMcpChannel.ForgetCall(Id: Int64): Boolean;
var
  At, I: Integer;
begin
  Result := True;
  FCallsLock.Enter;
  try
    if not FindCall(Id, At) then
      Exit;
    Result := FCalls[At] <> nil;
    mcp_call_free(FCalls[At]);
    for I := At to Length(FCalls) - 2 do
    begin
      FCalls[I] := FCalls[I + 1];
      FCallIds[I] := FCallIds[I + 1];
    end;
    SetLength(FCalls, Length(FCalls) - 1);
    SetLength(FCallIds, Length(FCallIds) - 1);
  finally
    FCallsLock.Leave;
  end;
end;

procedure TMcpChannel.Track(Id: Int64; Call: PMcpCall);
var
  At, I: Integer;
begin
  FindCall(Id, At);
  SetLength(FCallIds, Length(FCallIds) + 1);
  SetLength(FCalls, Length(FCalls) + 1);
  for I := Length(FCalls) - 1 downto At + 1 do
  begin
    FCallIds[I] := FCallIds[I - 1];
    FCalls[I] := FCalls[I - 1];
  end;
  FCallIds[At] := Id;
  FCalls[At] := Call;
end;

{ In both: the lock is held over the start, so that the end of the call, which takes it too, finds the call in the list. }

function TMcpChannel.StartTool(const Name, Arguments, Options: UTF8String; Waited: Boolean; out Call: PMcpCall): Int64;
begin
  FCallsLock.Enter;
  try
    McpCheck(mcp_tool_call(FClient, PAnsiChar(Name), McpPtr(Arguments), Length(Arguments), McpPtr(Options), Length(Options), Call));
    Result := Started(Call, Waited);
  finally
    FCallsLock.Leave;
  end;
end;

function TMcpChannel.StartRequest(const Method, Params, Options: UTF8String; Waited: Boolean; out Call: PMcpCall): Int64;
begin
  FCallsLock.Enter;
  try
    McpCheck(mcp_call_start(FClient, PAnsiChar(Method), McpPtr(Params), Length(Params), McpPtr(Options), Length(Options), Call));
    Result := Started(Call, Waited);
  finally
    FCallsLock.Leave;
  end;
end;

function TMcpChannel.Started(Call: PMcpCall; Waited: Boolean): Int64;
begin
  Result := mcp_call_id(Call);
  if Waited then
    Track(Result, nil)
  else
    Track(Result, Call);
end;

function TMcpChannel.CancelCall(Id: Int64): Boolean;
var
  At: Integer;
begin
  Result := False;
  FCallsLock.Enter;
  try
    if FindCall(Id, At) and (FCalls[At] <> nil) then
      Result := McpCheck(mcp_call_cancel(FCalls[At])) = MCP_OK;
  finally
    FCallsLock.Leave;
  end;
end;

procedure TMcpChannel.WaitClosed(BoundMs: Integer);
var
  Until_: Int64;
begin
  if (FMode = etMain) or ((FMode = etLibrary) and not Delivering and not OnMain) then
  begin
    { the service thread runs nothing of the program's }
    mcp_client_wait_closed(FClient, BoundMs);
    Exit;
  end;
  Until_ := McpTicks + BoundMs;
  while (mcp_client_wait_closed(FClient, 10) = MCP_S_TIMEOUT) and (McpTicks < Until_) do
    if (FMode = etManual) or Delivering then
      mcp_queue_dispatch(FQueue, 10, nil)
    else
      CheckSynchronize(0); { a handler on the service thread may be waiting for this one }
end;

procedure TMcpChannel.StopThread(BoundMs: Integer);
var
  Until_: Int64;
begin
  if FThread = nil then
    Exit;
  FStop := True;
  FSpace.SetEvent;
  mcp_queue_wake(FQueue);
  if McpThreadId <> FServer then
  begin
    Until_ := McpTicks + BoundMs;
    while (FDone.WaitFor(20) <> wrSignaled) and (McpTicks < Until_) do
    begin
      mcp_queue_wake(FQueue);
      if (FMode = etLibrary) and OnMain then
        CheckSynchronize(0);
    end;
  end;
  FLock.Enter;
  FOrphan := not FFinished;
  FLock.Leave;
  if not FOrphan then
  begin
    { WaitFor on the main thread would sleep in CheckSynchronize when the thread is still on its last lines. }
    while not FThread.Finished do
      TThread.Yield;
    FThread.WaitFor;
    FThread.Free;
  end;
  FThread := nil;
end;

procedure TMcpChannel.DropAll;
var
  I: Integer;
begin
  FLock.Enter;
  try
    while FCount > 0 do
    begin
      mcp_event_free(FItems[FFirst]);
      FFirst := (FFirst + 1) mod Length(FItems);
      Dec(FCount);
    end;
  finally
    FLock.Leave;
  end;
  FCallsLock.Enter;
  try
    for I := 0 to Length(FCalls) - 1 do
      mcp_call_free(FCalls[I]);
    FCalls := nil;
    FCallIds := nil;
  finally
    FCallsLock.Leave;
  end;
end;

procedure TMcpChannel.Shutdown;
var
  Queue: PMcpQueue;
  Posted: Boolean;
begin
  AddRef;
  try
    FLock.Enter;
    FDeliver := nil;
    FWants := nil;
    FFailed := nil;
    FOnRelease := nil;
    FDiscard := True;
    FLock.Leave;
    Living.Remove(Self);
    if FClient <> nil then
    begin
      mcp_client_close(FClient);
      FSpace.SetEvent;
      WaitClosed(CloseBoundMs);
      mcp_client_free(FClient);
    end;
    StopThread(ThreadBoundMs);
    FLock.Enter;
    Queue := FQueue;
    FQueue := nil;
    FLock.Leave;
    mcp_queue_free(Queue);
    DropAll;
    if OnMain then
    begin
      FLock.Enter;
      Posted := FPosted;
      FPosted := False;
      FLock.Leave;
      if Posted then
      begin
        TThread.RemoveQueuedEvents(nil, MainDrain);
        Release;
      end;
    end;
  finally
    Release;
  end;
end;

procedure EndAll;
var
  Channel: TMcpChannel;
  Until_: Int64;
begin
  if IsLibrary or not McpLoaded then
    Exit; { while a DLL is unloaded nothing may be waited for }
  repeat
    Channel := nil;
    with Living.LockList do
      try
        if Count > 0 then
          Channel := TMcpChannel(Items[Count - 1]);
      finally
        Living.UnlockList;
      end;
    if Channel <> nil then
      Channel.Shutdown;
  until Channel = nil;
  Until_ := McpTicks + ThreadBoundMs;
  while (ThreadCount > 0) and (McpTicks < Until_) do
    CheckSynchronize(10);
  McpShutdown;
end;

initialization
  Living := TThreadList.Create;

finalization
  EndAll;
  Living.Free;

end.
