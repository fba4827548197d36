{$I McpNative.inc}
{ What a call gave: the content of a tool's answer, or any other result as JSON. Immutable. }
unit McpNative.Result;

interface

uses
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Text, McpNative.Abi, McpNative.Errors, McpNative.Channel;

type
  TMcpBlockKind = (bkOther, bkText, bkImage, bkAudio, bkResourceLink, bkResource);

  TMcpBlock = record
    Kind: TMcpBlockKind;
    Text: string;       { of a text block, or an embedded text resource }
    Json: string;       { the whole block as the server sent it }
    Bytes: TBytes;      { decoded: image, audio, embedded binary resource }
  end;

  TMcpResult = class(TMcpKept)
  private
    FHandle: PMcpResult;
    function Part(Field: Integer): string;
    function GetIsError: Boolean;
    function GetText: string;
    function GetJson: string;
    function GetStructured: string;
    function GetBlockCount: Integer;
    function GetBlock(Index: Integer): TMcpBlock;
  public
    { Takes the handle over. }
    constructor Adopt(Handle: PMcpResult);
    destructor Destroy; override;
    { The tool itself reported failure: a result, not an exception. }
    property IsError: Boolean read GetIsError;
    { The text blocks, joined by a line feed. }
    property Text: string read GetText;
    { The whole result as JSON. }
    property Json: string read GetJson;
    { structuredContent as JSON; '' when absent. }
    property Structured: string read GetStructured;
    property BlockCount: Integer read GetBlockCount;
    { Read anew at each access: keep it in a variable. Raises EMcpError when there is no such block. }
    property Blocks[Index: Integer]: TMcpBlock read GetBlock;
  end;

  { A tool's result does not match its output schema (setting "validate"). Answer is what came, and the exception's. }
  EMcpSchemaError = class(EMcpError)
  private
    FAnswer: TMcpResult;
  public
    constructor CreateAnswer(const AInfo: TMcpErrorInfo; AAnswer: TMcpResult);
    destructor Destroy; override;
    property Answer: TMcpResult read FAnswer;
  end;

implementation

constructor EMcpSchemaError.CreateAnswer(const AInfo: TMcpErrorInfo; AAnswer: TMcpResult);
begin
  inherited CreateInfo(AInfo);
  FAnswer := AAnswer;
end;

destructor EMcpSchemaError.Destroy;
begin
  FAnswer.Free;
  inherited Destroy;
end;

constructor TMcpResult.Adopt(Handle: PMcpResult);
begin
  inherited Create;
  FHandle := Handle;
end;

destructor TMcpResult.Destroy;
begin
  if FHandle <> nil then
    mcp_result_free(FHandle);
  inherited Destroy;
end;

function TMcpResult.Part(Field: Integer): string;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  N := 0;
  P := mcp_result_text(FHandle, Field, @N);
  Result := McpStr(P, N);
end;

function TMcpResult.GetIsError: Boolean;
begin
  Result := mcp_result_is_error(FHandle) > 0;
end;

function TMcpResult.GetText: string;
begin
  Result := Part(MCP_RESULT_TEXT_);
end;

function TMcpResult.GetJson: string;
begin
  Result := Part(MCP_RESULT_JSON);
end;

function TMcpResult.GetStructured: string;
begin
  Result := Part(MCP_RESULT_STRUCTURED);
end;

function TMcpResult.GetBlockCount: Integer;
begin
  Result := mcp_result_block_count(FHandle);
  if Result < 0 then
    Result := 0;
end;

function TMcpResult.GetBlock(Index: Integer): TMcpBlock;
var
  Kind: Integer;
  P: PAnsiChar;
  B: PByte;
  N: NativeUInt;
begin
  Kind := McpCheck(mcp_result_block_kind(FHandle, Index));
  if (Kind < Ord(Low(TMcpBlockKind))) or (Kind > Ord(High(TMcpBlockKind))) then
    Kind := Ord(bkOther);
  Result.Kind := TMcpBlockKind(Kind);
  N := 0;
  P := mcp_result_block_text(FHandle, Index, @N);
  Result.Text := McpStr(P, N);
  N := 0;
  P := mcp_result_block_json(FHandle, Index, @N);
  Result.Json := McpStr(P, N);
  Result.Bytes := nil;
  N := 0;
  B := mcp_result_block_bytes(FHandle, Index, @N);
  if (B <> nil) and (N > 0) then
  begin
    SetLength(Result.Bytes, N);
    Move(B^, Result.Bytes[0], N);
  end;
end;

end.
