{$I McpNative.inc}
{ What went wrong, as a record that can be copied, and as an exception. }
unit McpNative.Errors;

interface

uses
  {$IFDEF FPC}SysUtils, Classes,{$ELSE}System.SysUtils, System.Classes,{$ENDIF}
  McpNative.Text, McpNative.Abi;

type
  { Everything the library tells about a failure. Status is MCP_OK when there was none. }
  TMcpErrorInfo = record
    Status: Integer;         { MCP_E_* }
    Message: string;
    RpcCode: Int64;          { the peer's JSON-RPC error, where Status is MCP_E_RPC or a task failed with one }
    RpcMessage: string;
    RpcData: string;         { JSON }
    HttpStatus: Integer;     { 0 = none }
    RetrySafe: Boolean;      { the same request may be sent again without doing something twice }
    RetryAfterMs: Int64;     { what the server asked for; 0 = nothing }
    function Failed: Boolean;
    function StatusName: string;   { "MCP_E_CONNECT" }
    function Describe: string;     { one line for people }
  end;

  EMcpError = class(Exception)
  private
    FInfo: TMcpErrorInfo;
  public
    constructor CreateInfo(const AInfo: TMcpErrorInfo);
    property Info: TMcpErrorInfo read FInfo;
    property Status: Integer read FInfo.Status;
    property RpcCode: Int64 read FInfo.RpcCode;
    property RpcMessage: string read FInfo.RpcMessage;
    property RpcData: string read FInfo.RpcData;
    property HttpStatus: Integer read FInfo.HttpStatus;
    property RetrySafe: Boolean read FInfo.RetrySafe;
    property RetryAfterMs: Int64 read FInfo.RetryAfterMs;
  end;

  TMcpUnhandledException = procedure(Sender, Error: TObject);

var
  { Gets what a handler of an event raised, where neither TMcpClient.OnCallbackError nor the application's own
    handler took it. nil: it goes to the standard error output of a console program, else nowhere. }
  McpUnhandledException: TMcpUnhandledException = nil;

function McpStatusName(Status: Integer): string;

function McpNoError: TMcpErrorInfo;
function McpMakeError(Status: Integer; const Message: string): TMcpErrorInfo;
{ Reads an error object and frees it; Fallback is used where it is nil. }
function McpTakeError(Error: PMcpError; Fallback: Integer): TMcpErrorInfo;

{ Gives Status back when it is no failure, else raises EMcpError with what the library noted on this thread. }
function McpCheck(Status: Integer): Integer;
procedure McpRaise(Status: Integer; const Message: string);

{ For use inside an "except" block: hands the current exception to the application, or the hook above. }
procedure McpReportException(Sender: TObject);

implementation

function McpStatusName(Status: Integer): string;
begin
  if Assigned(mcp_status_name) then
    Result := McpStatic(mcp_status_name(Status))
  else
    Result := IntToStr(Status);
end;

function ErrorText(Error: PMcpError; Field: Integer): string;
var
  P: PAnsiChar;
  N: NativeUInt;
begin
  N := 0;
  P := mcp_error_text(Error, Field, @N);
  Result := McpStr(P, N);
end;

function ErrorNumber(Error: PMcpError; Field: Integer): Int64;
begin
  if mcp_error_number(Error, Field, Result) <> MCP_OK then
    Result := 0;
end;

function McpNoError: TMcpErrorInfo;
begin
  Result := McpMakeError(MCP_OK, '');
end;

function McpMakeError(Status: Integer; const Message: string): TMcpErrorInfo;
begin
  Result.Status := Status;
  Result.Message := Message;
  Result.RpcCode := 0;
  Result.RpcMessage := '';
  Result.RpcData := '';
  Result.HttpStatus := 0;
  Result.RetrySafe := False;
  Result.RetryAfterMs := 0;
end;

function McpTakeError(Error: PMcpError; Fallback: Integer): TMcpErrorInfo;
begin
  Result := McpMakeError(Fallback, '');
  if Error = nil then
    Exit;
  try
    Result.Status := Integer(ErrorNumber(Error, MCP_ERROR_STATUS));
    if Result.Status = MCP_OK then
      Result.Status := Fallback;
    Result.Message := ErrorText(Error, MCP_ERROR_MESSAGE);
    Result.RpcCode := ErrorNumber(Error, MCP_ERROR_RPC_CODE);
    Result.RpcMessage := ErrorText(Error, MCP_ERROR_RPC_MESSAGE);
    Result.RpcData := ErrorText(Error, MCP_ERROR_RPC_DATA);
    Result.HttpStatus := Integer(ErrorNumber(Error, MCP_ERROR_HTTP_STATUS));
    Result.RetrySafe := ErrorNumber(Error, MCP_ERROR_RETRY_SAFE) <> 0;
    Result.RetryAfterMs := ErrorNumber(Error, MCP_ERROR_RETRY_AFTER_MS);
  finally
    mcp_error_free(Error);
  end;
end;

function McpCheck(Status: Integer): Integer;
var
  Error: PMcpError;
  Info: TMcpErrorInfo;
begin
  Result := Status;
  if Status >= 0 then
    Exit;
  Error := nil;
  if mcp_last_error(Error) <> MCP_OK then
    Error := nil;
  Info := McpTakeError(Error, Status);
  Info.Status := Status;
  raise EMcpError.CreateInfo(Info);
end;

procedure McpRaise(Status: Integer; const Message: string);
begin
  raise EMcpError.CreateInfo(McpMakeError(Status, Message));
end;

procedure McpReportException(Sender: TObject);
var
  Error: TObject;
begin
  Error := ExceptObject;
  if Error is EAbort then
    Exit;
  if (McpThreadId = MainThreadID) and Assigned(ApplicationHandleException) then
    ApplicationHandleException(Sender)
  else if Assigned(McpUnhandledException) then
    McpUnhandledException(Sender, Error)
  else if IsConsole then
    if Error is Exception then
      WriteLn(ErrOutput, 'mcpnative: a handler raised ', Error.ClassName, ': ', Exception(Error).Message)
    else
      WriteLn(ErrOutput, 'mcpnative: a handler raised an object that is no Exception');
end;

{ TMcpErrorInfo }

function TMcpErrorInfo.Failed: Boolean;
begin
  Result := Status < 0;
end;

function TMcpErrorInfo.StatusName: string;
begin
  Result := McpStatusName(Status);
end;

function TMcpErrorInfo.Describe: string;
begin
  Result := StatusName;
  if Message <> '' then
    Result := Result + ': ' + Message;
end;

{ EMcpError }

constructor EMcpError.CreateInfo(const AInfo: TMcpErrorInfo);
begin
  inherited Create(AInfo.Describe);
  FInfo := AInfo;
end;

end.
