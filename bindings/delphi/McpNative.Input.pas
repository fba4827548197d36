{$I McpNative.inc}
{ A question of the server's: elicitation (ask the user), sampling (ask a model), roots (which folders). Answer it in the
  handler, or Keep it and answer hours later from any thread. }
unit McpNative.Input;

interface

uses
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Text, McpNative.Abi, McpNative.Errors, McpNative.Channel;

type
  TMcpInputKind = (ikElicitation, ikSampling, ikRoots);
  TMcpInputKinds = set of TMcpInputKind;

  TMcpInput = class(TMcpKept)
  private
    FHandle: PMcpInput;
    FKind: TMcpInputKind;
    function Part(Field: Integer): string;
    function GetKey: string;
    function GetMethod: string;
    function GetMessage: string;
    function GetParams: string;
    function GetTaskId: string;
    function GetCallId: Int64;
    function GetRepeated: Boolean;
  public
    { Takes the handle over. }
    constructor Adopt(Handle: PMcpInput);
    destructor Destroy; override;
    { Each says False when the question was answered or withdrawn already, and raises EMcpError on a failure. }

    { Elicitation: the form's values as a JSON object ('' where none are asked). Sampling, roots: the whole result object. }
    function Answer(const ContentJson: string = ''): Boolean;
    function Decline: Boolean;   { elicitation only }
    function Cancel: Boolean;    { elicitation only }
    { It cannot be answered. Sampling, roots: the call ends as "input refused", a task is cancelled or left waiting, by the
      settings. Elicitation: the same as Cancel. }
    function Fail(const Why: string = ''): Boolean;

    property Kind: TMcpInputKind read FKind;
    property Key: string read GetKey;
    property Method: string read GetMethod;
    { The text to show. }
    property Message: string read GetMessage;
    { JSON; for a form, "requestedSchema" is in it. }
    property Params: string read GetParams;
    { The task that asks; '' when a plain call does. }
    property TaskId: string read GetTaskId;
    { The call that asks; 0 when a task does. }
    property CallId: Int64 read GetCallId;
    { An earlier process may have asked it already. }
    property Repeated: Boolean read GetRepeated;
  end;

implementation

constructor TMcpInput.Adopt(Handle: PMcpInput);
begin
  inherited Create;
  FHandle := Handle;
  case mcp_input_kind(Handle) of
    MCP_INPUT_SAMPLING: FKind := ikSampling;
    MCP_INPUT_ROOTS: FKind := ikRoots;
  else
    FKind := ikElicitation;
  end;
end;

destructor TMcpInput.Destroy;
begin
  if FHandle <> nil then
    mcp_input_free(FHandle);
  inherited Destroy;
end;

function TMcpInput.Part(Field: Integer): string;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  N := 0;
  P := mcp_input_text(FHandle, Field, @N);
  Result := McpStr(P, N);
end;

function TMcpInput.GetKey: string;
begin
  Result := Part(MCP_INPUT_KEY);
end;

function TMcpInput.GetMethod: string;
begin
  Result := Part(MCP_INPUT_METHOD);
end;

function TMcpInput.GetMessage: string;
begin
  Result := Part(MCP_INPUT_MESSAGE);
end;

function TMcpInput.GetParams: string;
begin
  Result := Part(MCP_INPUT_PARAMS);
end;

function TMcpInput.GetTaskId: string;
begin
  Result := Part(MCP_INPUT_TASK_ID);
end;

function TMcpInput.GetCallId: Int64;
begin
  if mcp_input_number(FHandle, MCP_INPUT_CALL_ID, Result) <> MCP_OK then
    Result := 0;
end;

function TMcpInput.GetRepeated: Boolean;
var
  N: Int64;
begin
  Result := (mcp_input_number(FHandle, MCP_INPUT_REPEATED, N) = MCP_OK) and (N <> 0);
end;

function TMcpInput.Answer(const ContentJson: string): Boolean;
var
  Content: UTF8String;
begin
  Content := McpUtf8(ContentJson);
  Result := McpCheck(mcp_input_answer(FHandle, McpPtr(Content), Length(Content))) = MCP_OK;
end;

function TMcpInput.Decline: Boolean;
begin
  Result := McpCheck(mcp_input_decline(FHandle)) = MCP_OK;
end;

function TMcpInput.Cancel: Boolean;
begin
  Result := McpCheck(mcp_input_cancel(FHandle)) = MCP_OK;
end;

function TMcpInput.Fail(const Why: string): Boolean;
var
  Text: UTF8String;
begin
  Text := McpIdent(Why);
  Result := McpCheck(mcp_input_fail(FHandle, McpPtr(Text))) = MCP_OK;
end;

end.
