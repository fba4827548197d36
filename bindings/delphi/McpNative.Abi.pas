{$I McpNative.inc}
{ The C ABI of mcpnative, name for name, and nothing else. Functions are variables, filled by McpNative.Load at run time.
  Only pointers, Integer, Int64, NativeUInt and PAnsiChar cross; no record, Boolean, enumeration or string does. The meaning of
  each function is in mcpnative.h. Texts that come back are borrowed (see there); tests/TestAbi.dpr holds this unit equal to it. }
unit McpNative.Abi;

interface

type
  PMcpClient = type Pointer;
  PMcpQueue = type Pointer;
  PMcpCall = type Pointer;
  PMcpTask = type Pointer;
  PMcpSnapshot = type Pointer;
  PMcpEvent = type Pointer;
  PMcpInput = type Pointer;
  PMcpError = type Pointer;
  PMcpResult = type Pointer;
  PMcpServer = type Pointer;
  PMcpStream = type Pointer;
  PMcpText = type Pointer;
  PPMcpSnapshot = ^PMcpSnapshot;
  PPMcpTask = ^PMcpTask;
  PMcpSize = ^NativeUInt;

  TMcpEventFn = procedure(Event: PMcpEvent; User: Pointer); cdecl;
  TMcpDestroyFn = procedure(User: Pointer); cdecl;
  TMcpLogFn = procedure(Level: Integer; Msg: PAnsiChar; Length: NativeUInt; User: Pointer); cdecl;
  TMcpStreamWriteFn = procedure(Bytes: PAnsiChar; Length: NativeUInt; User: Pointer); cdecl;
  TMcpStreamCloseFn = procedure(User: Pointer); cdecl;

  { Gives the address of an export, or nil. }
  TMcpResolve = function(const Name: AnsiString): Pointer;

{ Pascal does not tell MCP_EVENT_ERROR from mcp_event_error: a constant whose name a function has ends in an underscore. }
const
  MCP_ABI_VERSION_ = 1;

  MCP_OK = 0;
  MCP_S_TIMEOUT = 1;
  MCP_S_ALREADY_DONE = 2;
  MCP_S_PENDING = 3;
  MCP_S_TASK = 4;
  MCP_S_NONE = 5;
  MCP_E_ARGUMENT = -1;
  MCP_E_HANDLE = -2;
  MCP_E_UTF8 = -3;
  MCP_E_STATE = -4;
  MCP_E_REENTRANT = -5;
  MCP_E_FORKED = -6;
  MCP_E_UNSUPPORTED = -7;
  MCP_E_CONNECT = -20;
  MCP_E_TLS = -21;
  MCP_E_IO = -22;
  MCP_E_TIMEOUT = -23;
  MCP_E_CLOSED = -24;
  MCP_E_CHILD_EXIT = -25;
  MCP_E_HTTP = -26;
  MCP_E_OUTCOME_UNKNOWN = -27;
  MCP_E_PARSE = -40;
  MCP_E_MALFORMED = -41;
  MCP_E_VERSION = -42;
  MCP_E_RPC = -43;
  MCP_E_TOO_LARGE = -44;
  MCP_E_SCHEMA = -45;
  MCP_E_CANCELLED = -60;
  MCP_E_INPUT_REQUIRED = -61;
  MCP_E_INPUT_REFUSED = -62;
  MCP_E_AUTH_REQUIRED = -80;
  MCP_E_AUTH_DENIED = -81;
  MCP_E_AUTH_DISCOVERY = -82;
  MCP_E_TASK_FAILED = -100;
  MCP_E_TASK_CANCELLED = -101;
  MCP_E_TASK_EXPIRED = -102;
  MCP_E_TASK_UNKNOWN = -103;
  MCP_E_PANIC = -120;
  MCP_E_MEMORY = -121;
  MCP_E_INTERNAL = -122;

  MCP_LOG_ERROR = 1;
  MCP_LOG_WARN = 2;
  MCP_LOG_INFO = 3;
  MCP_LOG_DEBUG = 4;

  MCP_ERROR_MESSAGE = 1;
  MCP_ERROR_RPC_MESSAGE = 2;
  MCP_ERROR_RPC_DATA = 3;
  MCP_ERROR_STDERR = 4;
  MCP_ERROR_TOOL_RESULT = 8;
  MCP_ERROR_STATUS = 1;
  MCP_ERROR_RPC_CODE = 2;
  MCP_ERROR_HTTP_STATUS = 3;
  MCP_ERROR_RETRY_SAFE = 4;
  MCP_ERROR_RETRY_AFTER_MS = 5;
  MCP_ERROR_EXIT_CODE = 6;
  MCP_ERROR_EXIT_SIGNAL = 7;

  MCP_STATE_NEW = 0;
  MCP_STATE_OPENING = 1;
  MCP_STATE_READY = 2;
  MCP_STATE_CLOSING = 3;
  MCP_STATE_CLOSED = 4;
  MCP_STATE_FAILED = 5;

  MCP_EVENT_ANY = 0;
  MCP_EVENT_STATE = 1;
  MCP_EVENT_CALL_DONE = 2;
  MCP_EVENT_PROGRESS = 3;
  MCP_EVENT_LOG_MESSAGE = 4;
  MCP_EVENT_NOTIFICATION = 5;
  MCP_EVENT_TASK_CREATED = 6;
  MCP_EVENT_TASK_STATUS = 7;
  MCP_EVENT_TASK_DONE = 8;
  MCP_EVENT_TASK_OVERDUE = 9;
  MCP_EVENT_TASK_DEGRADED = 10;
  MCP_EVENT_TASK_RECOVERED = 11;
  MCP_EVENT_ELICITATION = 12;
  MCP_EVENT_SAMPLING = 13;
  MCP_EVENT_ROOTS = 14;
  MCP_EVENT_INPUT_WITHDRAWN = 15;
  MCP_EVENT_ERROR_ = 16;
  MCP_EVENT_TASK_RESUMED = 17;
  MCP_EVENT_SUBSCRIPTION = 18;

  MCP_SUBSCRIPTION_ACTIVE = 1;
  MCP_SUBSCRIPTION_LOST = 2;
  MCP_SUBSCRIPTION_CATCH_UP = 3;
  MCP_SUBSCRIPTION_ENDED = 4;

  MCP_CLIENT_TOOLS_GENERATION = 1;
  MCP_CLIENT_PROMPTS_GENERATION = 2;
  MCP_CLIENT_RESOURCES_GENERATION = 3;

  MCP_SERVER_ERA = 1;
  MCP_SERVER_VERSION = 2;
  MCP_SERVER_INFO = 3;
  MCP_SERVER_INSTRUCTIONS = 4;
  MCP_SERVER_CAPABILITIES = 5;

  MCP_RESULT_JSON = 1;
  MCP_RESULT_TEXT_ = 2;
  MCP_RESULT_STRUCTURED = 3;

  MCP_BLOCK_OTHER = 0;
  MCP_BLOCK_TEXT = 1;
  MCP_BLOCK_IMAGE = 2;
  MCP_BLOCK_AUDIO = 3;
  MCP_BLOCK_RESOURCE_LINK = 4;
  MCP_BLOCK_RESOURCE = 5;

  MCP_SNAPSHOT_TASK_ID = 1;
  MCP_SNAPSHOT_TOOL = 2;
  MCP_SNAPSHOT_MESSAGE = 3;
  MCP_SNAPSHOT_CREATED_AT = 4;
  MCP_SNAPSHOT_UPDATED_AT = 5;
  MCP_SNAPSHOT_TOOL_CALL_ID = 6;
  MCP_SNAPSHOT_CONTEXT = 7;
  MCP_SNAPSHOT_INPUTS = 8;
  MCP_SNAPSHOT_JSON = 9;
  MCP_SNAPSHOT_IMMEDIATE_RESPONSE = 10;
  MCP_SNAPSHOT_HISTORY = 12;
  MCP_SNAPSHOT_TOOL_RESULT = 13;
  MCP_SNAPSHOT_STATUS = 1;
  MCP_SNAPSHOT_REASON = 2;
  MCP_SNAPSHOT_TTL_MS = 3;
  MCP_SNAPSHOT_POLL_INTERVAL_MS = 4;
  MCP_SNAPSHOT_NEXT_POLL_MS = 5;
  MCP_SNAPSHOT_OVERDUE = 6;

  MCP_TASK_WORKING = 1;
  MCP_TASK_INPUT_REQUIRED = 2;
  MCP_TASK_COMPLETED = 3;
  MCP_TASK_FAILED = 4;
  MCP_TASK_CANCELLED = 5;

  MCP_REASON_NONE = 0;
  MCP_REASON_COMPLETED = 1;
  MCP_REASON_FAILED = 2;
  MCP_REASON_CANCELLED = 3;
  MCP_REASON_EXPIRED = 4;
  MCP_REASON_UNKNOWN = 5;
  MCP_REASON_CLOSED = 6;
  MCP_WAIT_ANY = 1;
  MCP_WAIT_ALL = 2;

  MCP_EVENT_TEXT_JSON = 1;
  MCP_EVENT_TEXT_METHOD = 2;
  MCP_EVENT_NUMBER_CALL_ID = 1;
  MCP_EVENT_NUMBER_STATE = 2;
  MCP_EVENT_NUMBER_STATUS = 3;
  MCP_EVENT_NUMBER_SUBSCRIPTION = 4;

  MCP_INPUT_ELICITATION = 1;
  MCP_INPUT_SAMPLING = 2;
  MCP_INPUT_ROOTS = 3;

  MCP_INPUT_KEY = 1;
  MCP_INPUT_METHOD = 2;
  MCP_INPUT_PARAMS = 3;
  MCP_INPUT_MESSAGE = 4;
  MCP_INPUT_TASK_ID = 5;
  MCP_INPUT_CALL_ID = 1;

var
  mcp_abi_version: function: Integer; cdecl;
  mcp_version: function: PAnsiChar; cdecl;
  mcp_status_name: function(Status: Integer): PAnsiChar; cdecl;
  mcp_last_error: function(out Value: PMcpError): Integer; cdecl;
  mcp_shutdown: function(WaitMs: Int64): Integer; cdecl;
  mcp_log_on: function(Queue: PMcpQueue; Level: Integer; Fn: TMcpLogFn; User: Pointer; Destroy: TMcpDestroyFn): Integer; cdecl;
  mcp_text_get: function(Text: PMcpText; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_text_free: function(Text: PMcpText): Integer; cdecl;
  mcp_uri_template_expand: function(UriTemplate: PAnsiChar; Variables: PAnsiChar; Length: NativeUInt; out Value: PMcpText): Integer; cdecl;
  mcp_error_text: function(Error: PMcpError; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_error_number: function(Error: PMcpError; Field: Integer; out Value: Int64): Integer; cdecl;
  mcp_error_free: function(Error: PMcpError): Integer; cdecl;
  mcp_queue_new: function(out Value: PMcpQueue): Integer; cdecl;
  mcp_queue_dispatch: function(Queue: PMcpQueue; WaitMs: Int64; OutCount: PInteger): Integer; cdecl;
  mcp_queue_descriptor: function(Queue: PMcpQueue; out Value: Int64): Integer; cdecl;
  mcp_queue_wake: function(Queue: PMcpQueue): Integer; cdecl;
  mcp_queue_free: function(Queue: PMcpQueue): Integer; cdecl;
  mcp_client_new: function(Settings: PAnsiChar; Length: NativeUInt; out Value: PMcpClient): Integer; cdecl;
  mcp_client_set_queue: function(Client: PMcpClient; Queue: PMcpQueue): Integer; cdecl;
  mcp_client_on: function(Client: PMcpClient; Kind: Integer; Fn: TMcpEventFn; User: Pointer; Destroy: TMcpDestroyFn): Integer; cdecl;
  mcp_client_open: function(Client: PMcpClient): Integer; cdecl;
  mcp_client_wait_open: function(Client: PMcpClient; WaitMs: Int64): Integer; cdecl;
  mcp_client_close: function(Client: PMcpClient): Integer; cdecl;
  mcp_client_wait_closed: function(Client: PMcpClient; WaitMs: Int64): Integer; cdecl;
  mcp_client_free: function(Client: PMcpClient): Integer; cdecl;
  mcp_client_state: function(Client: PMcpClient): Integer; cdecl;
  mcp_client_server: function(Client: PMcpClient; out Value: PMcpServer): Integer; cdecl;
  mcp_client_notify: function(Client: PMcpClient; Method: PAnsiChar; Params: PAnsiChar; ParamsLength: NativeUInt): Integer; cdecl;
  mcp_client_poke: function(Client: PMcpClient): Integer; cdecl;
  mcp_client_stats: function(Client: PMcpClient; out Value: PMcpText): Integer; cdecl;
  mcp_client_number: function(Client: PMcpClient; Field: Integer; out Value: Int64): Integer; cdecl;
  mcp_client_tasks: function(Client: PMcpClient; Filter: PAnsiChar; FilterLength: NativeUInt; out Value: PMcpText): Integer; cdecl;
  mcp_client_check: function(Client: PMcpClient; Filter: PAnsiChar; FilterLength: NativeUInt; WaitMs: Int64; out Value: PMcpText): Integer; cdecl;
  mcp_server_text: function(Server: PMcpServer; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_server_free: function(Server: PMcpServer): Integer; cdecl;
  mcp_stream_new: function(Write: TMcpStreamWriteFn; Close: TMcpStreamCloseFn; User: Pointer; Destroy: TMcpDestroyFn; out Value: PMcpStream): Integer; cdecl;
  mcp_client_set_stream: function(Client: PMcpClient; Stream: PMcpStream): Integer; cdecl;
  mcp_stream_feed: function(Stream: PMcpStream; Bytes: PAnsiChar; Length: NativeUInt): Integer; cdecl;
  mcp_stream_end: function(Stream: PMcpStream; Message: PAnsiChar; MessageLength: NativeUInt): Integer; cdecl;
  mcp_stream_free: function(Stream: PMcpStream): Integer; cdecl;
  mcp_tool_call: function(Client: PMcpClient; Name: PAnsiChar; Arguments: PAnsiChar; ArgumentsLength: NativeUInt; Options: PAnsiChar; OptionsLength: NativeUInt; out Value: PMcpCall): Integer; cdecl;
  mcp_tool_run: function(Client: PMcpClient; Name: PAnsiChar; Arguments: PAnsiChar; ArgumentsLength: NativeUInt; Options: PAnsiChar; OptionsLength: NativeUInt; WaitMs: Int64; out Value: PMcpCall): Integer; cdecl;
  mcp_tool_list: function(Client: PMcpClient; WaitMs: Int64; out Value: PMcpText): Integer; cdecl;
  mcp_call_start: function(Client: PMcpClient; Method: PAnsiChar; Params: PAnsiChar; ParamsLength: NativeUInt; Options: PAnsiChar; OptionsLength: NativeUInt; out Value: PMcpCall): Integer; cdecl;
  mcp_call_run: function(Client: PMcpClient; Method: PAnsiChar; Params: PAnsiChar; ParamsLength: NativeUInt; Options: PAnsiChar; OptionsLength: NativeUInt; WaitMs: Int64; out Value: PMcpCall): Integer; cdecl;
  mcp_call_wait: function(Call: PMcpCall; WaitMs: Int64): Integer; cdecl;
  mcp_call_cancel: function(Call: PMcpCall): Integer; cdecl;
  mcp_call_id: function(Call: PMcpCall): Int64; cdecl;
  mcp_call_status: function(Call: PMcpCall): Integer; cdecl;
  mcp_call_result: function(Call: PMcpCall; out Value: PMcpResult): Integer; cdecl;
  mcp_call_error: function(Call: PMcpCall; out Value: PMcpError): Integer; cdecl;
  mcp_call_task: function(Call: PMcpCall; out Value: PMcpTask): Integer; cdecl;
  mcp_call_inputs: function(Call: PMcpCall; out Value: PMcpText): Integer; cdecl;
  mcp_call_answer: function(Call: PMcpCall; Responses: PAnsiChar; Length: NativeUInt): Integer; cdecl;
  mcp_call_free: function(Call: PMcpCall): Integer; cdecl;
  mcp_result_text: function(Res: PMcpResult; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_result_is_error: function(Res: PMcpResult): Integer; cdecl;
  mcp_result_block_count: function(Res: PMcpResult): Integer; cdecl;
  mcp_result_block_kind: function(Res: PMcpResult; Index: Integer): Integer; cdecl;
  mcp_result_block_json: function(Res: PMcpResult; Index: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_result_block_text: function(Res: PMcpResult; Index: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_result_block_bytes: function(Res: PMcpResult; Index: Integer; Length: PMcpSize): PByte; cdecl;
  mcp_result_free: function(Res: PMcpResult): Integer; cdecl;
  mcp_task_open: function(Client: PMcpClient; TaskId: PAnsiChar; out Value: PMcpTask): Integer; cdecl;
  mcp_task_get: function(Task: PMcpTask; WaitMs: Int64; out Value: PMcpSnapshot): Integer; cdecl;
  mcp_task_update: function(Task: PMcpTask; Responses: PAnsiChar; Length: NativeUInt; WaitMs: Int64): Integer; cdecl;
  mcp_task_cancel: function(Task: PMcpTask): Integer; cdecl;
  mcp_task_wait: function(Task: PMcpTask; WaitMs: Int64; Value: PPMcpSnapshot): Integer; cdecl;
  mcp_task_wait_many: function(Tasks: PPMcpTask; Count: NativeUInt; UntilWhat: Integer; WaitMs: Int64; Index: PMcpSize): Integer; cdecl;
  mcp_task_snapshot: function(Task: PMcpTask; out Value: PMcpSnapshot): Integer; cdecl;
  mcp_task_let_go: function(Task: PMcpTask): Integer; cdecl;
  mcp_task_acknowledge: function(Task: PMcpTask): Integer; cdecl;
  mcp_task_free: function(Task: PMcpTask): Integer; cdecl;
  mcp_snapshot_text: function(Snapshot: PMcpSnapshot; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_snapshot_number: function(Snapshot: PMcpSnapshot; Field: Integer; out Value: Int64): Integer; cdecl;
  mcp_snapshot_result: function(Snapshot: PMcpSnapshot; out Value: PMcpResult): Integer; cdecl;
  mcp_snapshot_error: function(Snapshot: PMcpSnapshot; out Value: PMcpError): Integer; cdecl;
  mcp_snapshot_free: function(Snapshot: PMcpSnapshot): Integer; cdecl;
  mcp_event_kind: function(Event: PMcpEvent): Integer; cdecl;
  mcp_event_text: function(Event: PMcpEvent; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_event_number: function(Event: PMcpEvent; Field: Integer; out Value: Int64): Integer; cdecl;
  mcp_event_call: function(Event: PMcpEvent; out Value: PMcpCall): Integer; cdecl;
  mcp_event_task: function(Event: PMcpEvent; out Value: PMcpTask): Integer; cdecl;
  mcp_event_snapshot: function(Event: PMcpEvent; out Value: PMcpSnapshot): Integer; cdecl;
  mcp_event_input: function(Event: PMcpEvent; out Value: PMcpInput): Integer; cdecl;
  mcp_event_error: function(Event: PMcpEvent; out Value: PMcpError): Integer; cdecl;
  mcp_event_keep: function(Event: PMcpEvent; out Value: PMcpEvent): Integer; cdecl;
  mcp_event_free: function(Event: PMcpEvent): Integer; cdecl;
  mcp_input_kind: function(Input: PMcpInput): Integer; cdecl;
  mcp_input_text: function(Input: PMcpInput; Field: Integer; Length: PMcpSize): PAnsiChar; cdecl;
  mcp_input_number: function(Input: PMcpInput; Field: Integer; out Value: Int64): Integer; cdecl;
  mcp_input_answer: function(Input: PMcpInput; Content: PAnsiChar; Length: NativeUInt): Integer; cdecl;
  mcp_input_decline: function(Input: PMcpInput): Integer; cdecl;
  mcp_input_cancel: function(Input: PMcpInput): Integer; cdecl;
  mcp_input_fail: function(Input: PMcpInput; Msg: PAnsiChar): Integer; cdecl;
  mcp_input_free: function(Input: PMcpInput): Integer; cdecl;

{ Fills every variable above. The caller's function may note names that it does not find. }
procedure McpAbiBind(Resolve: TMcpResolve);

implementation

procedure McpAbiBind(Resolve: TMcpResolve);
begin
  @mcp_abi_version := Resolve('mcp_abi_version');
  @mcp_version := Resolve('mcp_version');
  @mcp_status_name := Resolve('mcp_status_name');
  @mcp_last_error := Resolve('mcp_last_error');
  @mcp_shutdown := Resolve('mcp_shutdown');
  @mcp_log_on := Resolve('mcp_log_on');
  @mcp_text_get := Resolve('mcp_text_get');
  @mcp_text_free := Resolve('mcp_text_free');
  @mcp_uri_template_expand := Resolve('mcp_uri_template_expand');
  @mcp_error_text := Resolve('mcp_error_text');
  @mcp_error_number := Resolve('mcp_error_number');
  @mcp_error_free := Resolve('mcp_error_free');
  @mcp_queue_new := Resolve('mcp_queue_new');
  @mcp_queue_dispatch := Resolve('mcp_queue_dispatch');
  @mcp_queue_descriptor := Resolve('mcp_queue_descriptor');
  @mcp_queue_wake := Resolve('mcp_queue_wake');
  @mcp_queue_free := Resolve('mcp_queue_free');
  @mcp_client_new := Resolve('mcp_client_new');
  @mcp_client_set_queue := Resolve('mcp_client_set_queue');
  @mcp_client_on := Resolve('mcp_client_on');
  @mcp_client_open := Resolve('mcp_client_open');
  @mcp_client_wait_open := Resolve('mcp_client_wait_open');
  @mcp_client_close := Resolve('mcp_client_close');
  @mcp_client_wait_closed := Resolve('mcp_client_wait_closed');
  @mcp_client_free := Resolve('mcp_client_free');
  @mcp_client_state := Resolve('mcp_client_state');
  @mcp_client_server := Resolve('mcp_client_server');
  @mcp_client_notify := Resolve('mcp_client_notify');
  @mcp_client_poke := Resolve('mcp_client_poke');
  @mcp_client_stats := Resolve('mcp_client_stats');
  @mcp_client_number := Resolve('mcp_client_number');
  @mcp_client_tasks := Resolve('mcp_client_tasks');
  @mcp_client_check := Resolve('mcp_client_check');
  @mcp_server_text := Resolve('mcp_server_text');
  @mcp_server_free := Resolve('mcp_server_free');
  @mcp_stream_new := Resolve('mcp_stream_new');
  @mcp_client_set_stream := Resolve('mcp_client_set_stream');
  @mcp_stream_feed := Resolve('mcp_stream_feed');
  @mcp_stream_end := Resolve('mcp_stream_end');
  @mcp_stream_free := Resolve('mcp_stream_free');
  @mcp_tool_call := Resolve('mcp_tool_call');
  @mcp_tool_run := Resolve('mcp_tool_run');
  @mcp_tool_list := Resolve('mcp_tool_list');
  @mcp_call_start := Resolve('mcp_call_start');
  @mcp_call_run := Resolve('mcp_call_run');
  @mcp_call_wait := Resolve('mcp_call_wait');
  @mcp_call_cancel := Resolve('mcp_call_cancel');
  @mcp_call_id := Resolve('mcp_call_id');
  @mcp_call_status := Resolve('mcp_call_status');
  @mcp_call_result := Resolve('mcp_call_result');
  @mcp_call_error := Resolve('mcp_call_error');
  @mcp_call_task := Resolve('mcp_call_task');
  @mcp_call_inputs := Resolve('mcp_call_inputs');
  @mcp_call_answer := Resolve('mcp_call_answer');
  @mcp_call_free := Resolve('mcp_call_free');
  @mcp_result_text := Resolve('mcp_result_text');
  @mcp_result_is_error := Resolve('mcp_result_is_error');
  @mcp_result_block_count := Resolve('mcp_result_block_count');
  @mcp_result_block_kind := Resolve('mcp_result_block_kind');
  @mcp_result_block_json := Resolve('mcp_result_block_json');
  @mcp_result_block_text := Resolve('mcp_result_block_text');
  @mcp_result_block_bytes := Resolve('mcp_result_block_bytes');
  @mcp_result_free := Resolve('mcp_result_free');
  @mcp_task_open := Resolve('mcp_task_open');
  @mcp_task_get := Resolve('mcp_task_get');
  @mcp_task_update := Resolve('mcp_task_update');
  @mcp_task_cancel := Resolve('mcp_task_cancel');
  @mcp_task_wait := Resolve('mcp_task_wait');
  @mcp_task_wait_many := Resolve('mcp_task_wait_many');
  @mcp_task_snapshot := Resolve('mcp_task_snapshot');
  @mcp_task_let_go := Resolve('mcp_task_let_go');
  @mcp_task_acknowledge := Resolve('mcp_task_acknowledge');
  @mcp_task_free := Resolve('mcp_task_free');
  @mcp_snapshot_text := Resolve('mcp_snapshot_text');
  @mcp_snapshot_number := Resolve('mcp_snapshot_number');
  @mcp_snapshot_result := Resolve('mcp_snapshot_result');
  @mcp_snapshot_error := Resolve('mcp_snapshot_error');
  @mcp_snapshot_free := Resolve('mcp_snapshot_free');
  @mcp_event_kind := Resolve('mcp_event_kind');
  @mcp_event_text := Resolve('mcp_event_text');
  @mcp_event_number := Resolve('mcp_event_number');
  @mcp_event_call := Resolve('mcp_event_call');
  @mcp_event_task := Resolve('mcp_event_task');
  @mcp_event_snapshot := Resolve('mcp_event_snapshot');
  @mcp_event_input := Resolve('mcp_event_input');
  @mcp_event_error := Resolve('mcp_event_error');
  @mcp_event_keep := Resolve('mcp_event_keep');
  @mcp_event_free := Resolve('mcp_event_free');
  @mcp_input_kind := Resolve('mcp_input_kind');
  @mcp_input_text := Resolve('mcp_input_text');
  @mcp_input_number := Resolve('mcp_input_number');
  @mcp_input_answer := Resolve('mcp_input_answer');
  @mcp_input_decline := Resolve('mcp_input_decline');
  @mcp_input_cancel := Resolve('mcp_input_cancel');
  @mcp_input_fail := Resolve('mcp_input_fail');
  @mcp_input_free := Resolve('mcp_input_free');
end;

end.
