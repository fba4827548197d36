{$I McpNative.inc}
{ A long-running tool call. The object is a name for the task and a picture of it (the last snapshot); freeing it stops
  nothing: the client follows its tasks to their end on its own. }
unit McpNative.Task;

interface

uses
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Text, McpNative.Json, McpNative.Abi, McpNative.Errors, McpNative.Channel, McpNative.Result;

type
  TMcpTaskStatus = (tsUnknown, tsWorking, tsInputRequired, tsCompleted, tsFailed, tsCancelled);
  { Why it ended. trExpired and trUnknown have the status tsFailed where the server said no status of its own. }
  TMcpTaskReason = (trNone, trCompleted, trFailed, trCancelled, trExpired, trUnknown, trClosed);

  TMcpInputRequest = record
    Key: string;
    Method: string;
    Message: string;
    Params: string;     { JSON }
  end;
  TMcpInputRequests = array of TMcpInputRequest;

  TMcpTask = class(TMcpKept)
  private
    FChannel: TMcpChannel;
    FHandle: PMcpTask;
    FSnapshot: PMcpSnapshot;
    FResult: TMcpResult;
    FError: TMcpErrorInfo;
    FErrorRead: Boolean;
    procedure Take(Snapshot: PMcpSnapshot);
    function Part(Field: Integer): string;
    function Number(Field: Integer; Default: Int64): Int64;
    function GetTaskId: string;
    function GetToolName: string;
    function GetToolCallId: string;
    function GetContext: string;
    function GetStatus: TMcpTaskStatus;
    function GetStatusMessage: string;
    function GetImmediateResponse: string;
    function GetCreatedAt: TDateTime;
    function GetLastUpdatedAt: TDateTime;
    function GetTTLMs: Int64;
    function GetPollIntervalMs: Int64;
    function GetNextPollMs: Int64;
    function GetOverdue: Boolean;
    function GetReason: TMcpTaskReason;
    function GetIsTerminal: Boolean;
    function GetRepeated: Boolean;
    function GetResult: TMcpResult;
    function GetError: TMcpErrorInfo;
    function GetInputRequests: TMcpInputRequests;
    function GetText: string;
    function GetJson: string;
  public
    { Takes both handles over; without a snapshot it asks the library for what is known. }
    constructor Adopt(Channel: TMcpChannel; Handle: PMcpTask; Snapshot: PMcpSnapshot);
    destructor Destroy; override;

    { tasks/get, now: one round trip. Blocks. }
    procedure Refresh(WaitMs: Int64 = 60000);
    { Takes over what the client knows by now. Never blocks. }
    procedure Reload;
    { tasks/update with the server's own shape, an object by key: key -> response. Blocks. False: answered already. }
    function Update(const ResponsesJson: string; WaitMs: Int64 = 60000): Boolean;
    { The same for one elicitation, accepted with these values (a JSON object). }
    function Accept(const Key, ContentJson: string; WaitMs: Int64 = 60000): Boolean;
    { Asks the server to stop; the task may still complete. Never blocks. False: it has ended already. }
    function Cancel: Boolean;
    { Waits for the end and delivers events meanwhile. True when it has ended, whatever the reason; False when WaitMs ran
      out or, with "manual" input, the server asks something (see Status). Cancels nothing. -1 = no limit. }
    function Wait(WaitMs: Int64 = -1): Boolean;
    { Stops following it; the server goes on. }
    procedure LetGo;
    { The end is taken care of: mcp_client_check hands it out no more. False: that was said before. }
    function Acknowledge: Boolean;
    { All that the ledger would keep of it, as JSON, for a store of your own; see TMcpClient.TaskImport. }
    function ExportRecord: string;

    property TaskId: string read GetTaskId;
    property ToolName: string read GetToolName;
    { The id that the caller gave in the options of the call. }
    property ToolCallId: string read GetToolCallId;
    { The JSON that the caller gave in the options of the call. }
    property Context: string read GetContext;
    property Status: TMcpTaskStatus read GetStatus;
    property StatusMessage: string read GetStatusMessage;
    { What the server offers as a tool result for the model until the task has ended. }
    property ImmediateResponse: string read GetImmediateResponse;
    { UTC; 0 when the server told none. }
    property CreatedAt: TDateTime read GetCreatedAt;
    property LastUpdatedAt: TDateTime read GetLastUpdatedAt;
    { -1 = unlimited, also where the server told none. }
    property TTLMs: Int64 read GetTTLMs;
    property PollIntervalMs: Int64 read GetPollIntervalMs;
    { From now; 0 = due. }
    property NextPollMs: Int64 read GetNextPollMs;
    property Overdue: Boolean read GetOverdue;
    { The end comes from the ledger: an earlier process may have told it already. }
    property Repeated: Boolean read GetRepeated;
    property IsTerminal: Boolean read GetIsTerminal;
    property Reason: TMcpTaskReason read GetReason;
    { nil while there is none. Belongs to the task. }
    property Result: TMcpResult read GetResult;
    { Error.Status = MCP_OK while there is none. }
    property Error: TMcpErrorInfo read GetError;
    { The open questions. }
    property InputRequests: TMcpInputRequests read GetInputRequests;
    { The result's text; '' while there is none. }
    property Text: string read GetText;
    { The server's last answer as it was sent. }
    property Json: string read GetJson;
  end;

function McpTaskStatusName(Status: TMcpTaskStatus): string;
function McpTaskReasonName(Reason: TMcpTaskReason): string;

{ Waits for one of the tasks and delivers events meanwhile: the first of the list that has ended or, with "manual" input,
  asks something (see IsTerminal); nil when WaitMs ran out. They may belong to several clients. -1 = no limit. }
function McpWaitAny(const Tasks: array of TMcpTask; WaitMs: Int64 = -1): TMcpTask;
{ The same until all have ended. False when WaitMs ran out or one asks. }
function McpWaitAll(const Tasks: array of TMcpTask; WaitMs: Int64 = -1): Boolean;

implementation

function McpTaskStatusName(Status: TMcpTaskStatus): string;
const
  Names: array[TMcpTaskStatus] of string = ('unknown', 'working', 'input_required', 'completed', 'failed', 'cancelled');
begin
  Result := Names[Status];
end;

function McpTaskReasonName(Reason: TMcpTaskReason): string;
const
  Names: array[TMcpTaskReason] of string = ('none', 'completed', 'failed', 'cancelled', 'expired', 'unknown', 'closed');
begin
  Result := Names[Reason];
end;

{ The status, and the place in the list that it is about. }
function WaitMany(const Tasks: array of TMcpTask; UntilWhat: Integer; WaitMs: Int64; out Place: Integer): Integer;
var
  Channels: array of TMcpChannel;
  Handles: array of PMcpTask;
  I: Integer;
  Index: NativeUInt;
begin
  Channels := nil;
  Handles := nil;
  SetLength(Channels, Length(Tasks));
  SetLength(Handles, Length(Tasks));
  for I := 0 to High(Tasks) do
  begin
    Channels[I] := Tasks[I].FChannel;
    Handles[I] := Tasks[I].FHandle;
  end;
  Result := McpWaitTasks(Channels, Handles, UntilWhat, WaitMs, Index);
  Place := Integer(Index);
  if Result <> MCP_E_INPUT_REQUIRED then
    McpCheck(Result);
end;

function McpWaitAny(const Tasks: array of TMcpTask; WaitMs: Int64): TMcpTask;
var
  Place: Integer;
begin
  Result := nil;
  if (Length(Tasks) = 0) or (WaitMany(Tasks, MCP_WAIT_ANY, WaitMs, Place) = MCP_S_TIMEOUT) then
    Exit;
  Result := Tasks[Place];
  Result.Reload;
end;

function McpWaitAll(const Tasks: array of TMcpTask; WaitMs: Int64): Boolean;
var
  I, Place: Integer;
begin
  Result := (Length(Tasks) = 0) or (WaitMany(Tasks, MCP_WAIT_ALL, WaitMs, Place) = MCP_OK);
  for I := 0 to High(Tasks) do
    Tasks[I].Reload;
end;

constructor TMcpTask.Adopt(Channel: TMcpChannel; Handle: PMcpTask; Snapshot: PMcpSnapshot);
begin
  inherited Create;
  FChannel := Channel;
  FChannel.AddRef;
  FHandle := Handle;
  FSnapshot := Snapshot;
  if FSnapshot = nil then
    Reload;
end;

destructor TMcpTask.Destroy;
begin
  FResult.Free;
  if FSnapshot <> nil then
    mcp_snapshot_free(FSnapshot);
  if FHandle <> nil then
    mcp_task_free(FHandle);
  if FChannel <> nil then
    FChannel.Release;
  inherited Destroy;
end;

procedure TMcpTask.Take(Snapshot: PMcpSnapshot);
begin
  if Snapshot = nil then
    Exit;
  if FSnapshot <> nil then
    mcp_snapshot_free(FSnapshot);
  FSnapshot := Snapshot;
  FreeAndNil(FResult);
  FErrorRead := False;
end;

procedure TMcpTask.Reload;
var
  Snapshot: PMcpSnapshot;
begin
  McpCheck(mcp_task_snapshot(FHandle, Snapshot));
  Take(Snapshot);
end;

procedure TMcpTask.Refresh(WaitMs: Int64);
var
  Snapshot: PMcpSnapshot;
begin
  McpCheck(mcp_task_get(FHandle, WaitMs, Snapshot));
  Take(Snapshot);
end;

function TMcpTask.Update(const ResponsesJson: string; WaitMs: Int64): Boolean;
var
  Responses: UTF8String;
begin
  Responses := McpUtf8(ResponsesJson);
  Result := McpCheck(mcp_task_update(FHandle, McpPtr(Responses), Length(Responses), WaitMs)) = MCP_OK;
end;

function TMcpTask.Accept(const Key, ContentJson: string; WaitMs: Int64): Boolean;
var
  Response, All: TMcpJsonObject;
begin
  Response.Clear;
  Response.Put('action', 'accept');
  if ContentJson <> '' then
    Response.PutRaw('content', McpUtf8(ContentJson));
  All.Clear;
  All.PutRaw(Key, Response.Text);
  Result := Update(McpStr(All.Text), WaitMs);
end;

function TMcpTask.Cancel: Boolean;
begin
  Result := McpCheck(mcp_task_cancel(FHandle)) = MCP_OK;
end;

function TMcpTask.Wait(WaitMs: Int64): Boolean;
var
  Status: Integer;
  Snapshot: PMcpSnapshot;
begin
  Status := FChannel.WaitTask(FHandle, WaitMs, Snapshot);
  if (Status <> MCP_E_INPUT_REQUIRED) and (Status <> MCP_E_SCHEMA) then
    McpCheck(Status);
  Take(Snapshot);
  { with MCP_E_SCHEMA it has ended: Error says what is wrong with the result }
  Result := (Status = MCP_OK) or (Status = MCP_E_SCHEMA);
end;

procedure TMcpTask.LetGo;
begin
  McpCheck(mcp_task_let_go(FHandle));
end;

function TMcpTask.Acknowledge: Boolean;
begin
  Result := McpCheck(mcp_task_acknowledge(FHandle)) <> MCP_S_ALREADY_DONE;
end;

function TMcpTask.ExportRecord: string;
var
  Text: PMcpText;
  P: PAnsiChar;
  N: NativeUInt;
begin
  McpCheck(mcp_task_export(FHandle, Text));
  N := 0;
  P := mcp_text_get(Text, @N);
  Result := McpStr(P, N);
  mcp_text_free(Text);
end;

function TMcpTask.Part(Field: Integer): string;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  N := 0;
  P := mcp_snapshot_text(FSnapshot, Field, @N);
  Result := McpStr(P, N);
end;

function TMcpTask.Number(Field: Integer; Default: Int64): Int64;
begin
  if mcp_snapshot_number(FSnapshot, Field, Result) <> MCP_OK then
    Result := Default;
end;

function TMcpTask.GetTaskId: string;
begin
  Result := Part(MCP_SNAPSHOT_TASK_ID);
end;

function TMcpTask.GetToolName: string;
begin
  Result := Part(MCP_SNAPSHOT_TOOL);
end;

function TMcpTask.GetToolCallId: string;
begin
  Result := Part(MCP_SNAPSHOT_TOOL_CALL_ID);
end;

function TMcpTask.GetContext: string;
begin
  Result := Part(MCP_SNAPSHOT_CONTEXT);
end;

function TMcpTask.GetStatus: TMcpTaskStatus;
var
  N: Int64;
begin
  N := Number(MCP_SNAPSHOT_STATUS, 0);
  if (N < 0) or (N > Ord(High(TMcpTaskStatus))) then
    N := 0;
  Result := TMcpTaskStatus(Integer(N));
end;

function TMcpTask.GetStatusMessage: string;
begin
  Result := Part(MCP_SNAPSHOT_MESSAGE);
end;

function TMcpTask.GetImmediateResponse: string;
begin
  Result := Part(MCP_SNAPSHOT_IMMEDIATE_RESPONSE);
end;

function TMcpTask.GetCreatedAt: TDateTime;
begin
  Result := McpParseTime(Part(MCP_SNAPSHOT_CREATED_AT));
end;

function TMcpTask.GetLastUpdatedAt: TDateTime;
begin
  Result := McpParseTime(Part(MCP_SNAPSHOT_UPDATED_AT));
end;

function TMcpTask.GetTTLMs: Int64;
begin
  Result := Number(MCP_SNAPSHOT_TTL_MS, -1);
end;

function TMcpTask.GetPollIntervalMs: Int64;
begin
  Result := Number(MCP_SNAPSHOT_POLL_INTERVAL_MS, 0);
end;

function TMcpTask.GetNextPollMs: Int64;
begin
  Result := Number(MCP_SNAPSHOT_NEXT_POLL_MS, 0);
end;

function TMcpTask.GetOverdue: Boolean;
begin
  Result := Number(MCP_SNAPSHOT_OVERDUE, 0) <> 0;
end;

function TMcpTask.GetRepeated: Boolean;
begin
  Result := Number(MCP_SNAPSHOT_REPEATED, 0) <> 0;
end;

function TMcpTask.GetReason: TMcpTaskReason;
var
  N: Int64;
begin
  N := Number(MCP_SNAPSHOT_REASON, 0);
  if (N < 0) or (N > Ord(High(TMcpTaskReason))) then
    N := Ord(trFailed); { a later library's reason: ended all the same }
  Result := TMcpTaskReason(Integer(N));
end;

function TMcpTask.GetIsTerminal: Boolean;
begin
  Result := GetReason <> trNone;
end;

function TMcpTask.GetResult: TMcpResult;
var
  Handle: PMcpResult;
begin
  if (FResult = nil) and (mcp_snapshot_result(FSnapshot, Handle) = MCP_OK) and (Handle <> nil) then
    FResult := TMcpResult.Adopt(Handle);
  Result := FResult;
end;

function TMcpTask.GetError: TMcpErrorInfo;
var
  Handle: PMcpError;
begin
  if not FErrorRead then
  begin
    FError := McpNoError;
    if (mcp_snapshot_error(FSnapshot, Handle) = MCP_OK) and (Handle <> nil) then
      FError := McpTakeError(Handle, MCP_E_TASK_FAILED);
    FErrorRead := True;
  end;
  Result := FError;
end;

function TMcpTask.GetInputRequests: TMcpInputRequests;
var
  P: PAnsiChar;
  N: NativeUInt;
  All, Params: UTF8String;
  Items: TMcpJsonTexts;
  I: Integer;
begin
  Result := nil;
  N := 0;
  P := mcp_snapshot_text(FSnapshot, MCP_SNAPSHOT_INPUTS, @N);
  if P = nil then
    Exit;
  SetString(All, P, Integer(N));
  Items := McpJsonItems(All);
  SetLength(Result, Length(Items));
  for I := 0 to High(Items) do
  begin
    Result[I].Key := McpJsonStr(Items[I], 'key');
    Result[I].Method := McpJsonStr(Items[I], 'method');
    if not McpJsonMember(Items[I], 'params', Params) then
      Params := '';
    Result[I].Params := McpStr(Params);
    Result[I].Message := McpJsonStr(Params, 'message');
  end;
end;

function TMcpTask.GetText: string;
begin
  Result := '';
  if GetResult <> nil then
    Result := FResult.Text;
end;

function TMcpTask.GetJson: string;
begin
  Result := Part(MCP_SNAPSHOT_JSON);
end;

end.
