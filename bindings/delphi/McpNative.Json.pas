{$I McpNative.inc}
{ As much JSON as a thin wrapper needs: build an object, look up a member, walk an array. A JSON value is kept as
  its text (UTF-8), so numbers of any size and unknown members survive unread. No dependency on a JSON library. }
unit McpNative.Json;

interface

uses
  {$IFDEF FPC}SysUtils{$ELSE}System.SysUtils{$ENDIF},
  McpNative.Text;

type
  TMcpJsonTexts = array of UTF8String;

  { Builds one JSON object; a name put twice keeps its last value.
    var O: TMcpJsonObject; begin O.Clear; O.Put('steps', 3); S := O.Text; }
  TMcpJsonObject = record
  private
    FNames: TMcpJsonTexts;
    FValues: TMcpJsonTexts;
    function IndexOf(const Name: UTF8String): Integer;
  public
    procedure Clear;
    procedure PutRaw(const Name: string; const Json: UTF8String);
    procedure Put(const Name, Value: string); overload;
    procedure Put(const Name: string; Value: Int64); overload;
    procedure PutFloat(const Name: string; const Value: Double);
    procedure PutBool(const Name: string; Value: Boolean);
    { Takes over every member of another object; False when Json is no object. }
    function Merge(const Json: UTF8String): Boolean;
    function Count: Integer;
    function Text: UTF8String;
  end;

{ Tool arguments in one line: McpArgs(['steps', 3, 'ask', True, 'name', 'x']). Raises EConvertError on an odd count. }
function McpArgs(const Pairs: array of const): string;

{ A string as a JSON string, quotes included. }
function McpJsonQuote(const S: string): UTF8String;

{ True when the whole text is one JSON object, as far as its brackets and strings go. }
function McpJsonIsObject(const Json: UTF8String): Boolean;

{ The member's value as JSON text. False when absent, or when Json is no object. }
function McpJsonMember(const Json: UTF8String; const Name: string; out Value: UTF8String): Boolean;
{ The elements of an array as JSON texts; empty when it is none. }
function McpJsonItems(const Json: UTF8String): TMcpJsonTexts;
{ The names of an object's members, decoded, in order. }
function McpJsonNames(const Json: UTF8String): TMcpJsonTexts;

{ A member read as a Pascal value; absent, null or another type gives the default. }
function McpJsonStr(const Json: UTF8String; const Name: string; const Default: string = ''): string;
function McpJsonInt(const Json: UTF8String; const Name: string; Default: Int64 = 0): Int64;
function McpJsonFloat(const Json: UTF8String; const Name: string; const Default: Double = 0): Double;
function McpJsonBool(const Json: UTF8String; const Name: string; Default: Boolean = False): Boolean;
function McpJsonRaw(const Json: UTF8String; const Name: string; const Default: string = ''): string;

{ A JSON string (with its quotes) decoded to UTF-8; anything else gives ''. }
function McpJsonUnquote(const Json: UTF8String): UTF8String;

implementation

const
  McpBlanks = [#9, #10, #13, ' '];

procedure SkipBlanks(const S: UTF8String; var At: Integer);
begin
  while (At <= Length(S)) and (S[At] in McpBlanks) do
    Inc(At);
end;

{ Moves behind the value that starts at At. False when there is none. }
function SkipValue(const S: UTF8String; var At: Integer): Boolean;
var
  Depth, Start: Integer;
begin
  Result := False;
  SkipBlanks(S, At);
  Start := At;
  Depth := 0;
  while At <= Length(S) do
    case S[At] of
      '"':
        begin
          Inc(At);
          while (At <= Length(S)) and (S[At] <> '"') do
          begin
            if S[At] = '\' then
              Inc(At);
            Inc(At);
          end;
          if At > Length(S) then
            Exit;
          Inc(At);
          if Depth = 0 then
          begin
            Result := True;
            Exit;
          end;
        end;
      '{', '[':
        begin
          Inc(Depth);
          Inc(At);
        end;
      '}', ']':
        begin
          if Depth = 0 then
          begin
            Result := At > Start;
            Exit;
          end;
          Dec(Depth);
          Inc(At);
          if Depth = 0 then
          begin
            Result := True;
            Exit;
          end;
        end;
      ',', #9, #10, #13, ' ':
        begin
          if Depth = 0 then
          begin
            Result := At > Start;
            Exit;
          end;
          Inc(At);
        end;
    else
      Inc(At);
    end;
  Result := (Depth = 0) and (At > Start);
end;

{ Reads "name": value at At inside an object and moves behind it and its comma. }
function NextMember(const S: UTF8String; var At: Integer; out Name, Value: UTF8String): Boolean;
var
  Start: Integer;
begin
  Result := False;
  Name := '';
  Value := '';
  SkipBlanks(S, At);
  if (At > Length(S)) or (S[At] <> '"') then
    Exit;
  Start := At;
  if not SkipValue(S, At) then
    Exit;
  Name := McpJsonUnquote(Copy(S, Start, At - Start));
  SkipBlanks(S, At);
  if (At > Length(S)) or (S[At] <> ':') then
    Exit;
  Inc(At);
  SkipBlanks(S, At);
  Start := At;
  if not SkipValue(S, At) then
    Exit;
  Value := Copy(S, Start, At - Start);
  SkipBlanks(S, At);
  if (At <= Length(S)) and (S[At] = ',') then
    Inc(At);
  Result := True;
end;

function EnterObject(const S: UTF8String; out At: Integer): Boolean;
begin
  At := 1;
  SkipBlanks(S, At);
  Result := (At <= Length(S)) and (S[At] = '{');
  Inc(At);
end;

function McpJsonIsObject(const Json: UTF8String): Boolean;
var
  At: Integer;
begin
  At := 1;
  SkipBlanks(Json, At);
  Result := (At <= Length(Json)) and (Json[At] = '{') and SkipValue(Json, At);
  if Result then
  begin
    SkipBlanks(Json, At);
    Result := At > Length(Json);
  end;
end;

function McpJsonMember(const Json: UTF8String; const Name: string; out Value: UTF8String): Boolean;
var
  At: Integer;
  Wanted, Found: UTF8String;
begin
  Result := False;
  Wanted := McpUtf8(Name);
  if EnterObject(Json, At) then
    while NextMember(Json, At, Found, Value) do
      if Found = Wanted then
      begin
        Result := True;
        Exit;
      end;
  Value := '';
end;

function McpJsonNames(const Json: UTF8String): TMcpJsonTexts;
var
  At: Integer;
  Name, Value: UTF8String;
begin
  Result := nil;
  if EnterObject(Json, At) then
    while NextMember(Json, At, Name, Value) do
    begin
      SetLength(Result, Length(Result) + 1);
      Result[High(Result)] := Name;
    end;
end;

function McpJsonItems(const Json: UTF8String): TMcpJsonTexts;
var
  At, Start, N: Integer;
begin
  Result := nil;
  N := 0;
  At := 1;
  SkipBlanks(Json, At);
  if (At > Length(Json)) or (Json[At] <> '[') then
    Exit;
  Inc(At);
  while True do
  begin
    SkipBlanks(Json, At);
    if (At > Length(Json)) or (Json[At] = ']') then
      Break;
    Start := At;
    if not SkipValue(Json, At) then
      Break;
    if N = Length(Result) then
      SetLength(Result, N * 2 + 8);
    Result[N] := Copy(Json, Start, At - Start);
    Inc(N);
    SkipBlanks(Json, At);
    if (At <= Length(Json)) and (Json[At] = ',') then
      Inc(At)
    else
      Break;
  end;
  SetLength(Result, N);
end;

function McpJsonUnquote(const Json: UTF8String): UTF8String;
var
  At, N: Integer;

  procedure Push(B: Cardinal);
  begin
    Inc(N);
    Result[N] := AnsiChar(Byte(B));
  end;

  function Hex4(out Code: Cardinal): Boolean;
  var
    I: Integer;
    C: AnsiChar;
  begin
    Code := 0;
    Result := At + 3 <= Length(Json);
    if Result then
      for I := At to At + 3 do
      begin
        C := Json[I];
        case C of
          '0'..'9': Code := Code * 16 + Cardinal(Ord(C) - Ord('0'));
          'a'..'f': Code := Code * 16 + Cardinal(Ord(C) - Ord('a') + 10);
          'A'..'F': Code := Code * 16 + Cardinal(Ord(C) - Ord('A') + 10);
        else
          Result := False;
        end;
      end;
    if Result then
      Inc(At, 4);
  end;

  procedure PushCode(Code: Cardinal);
  begin
    if Code < $80 then
      Push(Code)
    else if Code < $800 then
    begin
      Push($C0 or (Code shr 6));
      Push($80 or (Code and $3F));
    end
    else if Code < $10000 then
    begin
      Push($E0 or (Code shr 12));
      Push($80 or ((Code shr 6) and $3F));
      Push($80 or (Code and $3F));
    end
    else
    begin
      Push($F0 or (Code shr 18));
      Push($80 or ((Code shr 12) and $3F));
      Push($80 or ((Code shr 6) and $3F));
      Push($80 or (Code and $3F));
    end;
  end;

var
  Code, Low: Cardinal;
  C: AnsiChar;
begin
  Result := '';
  if (Length(Json) < 2) or (Json[1] <> '"') then
    Exit;
  SetLength(Result, Length(Json)); { an escape never grows: \uXXXX is six bytes, its UTF-8 at most four }
  N := 0;
  At := 2;
  while (At <= Length(Json)) and (Json[At] <> '"') do
  begin
    C := Json[At];
    Inc(At);
    if (C <> '\') or (At > Length(Json)) then
    begin
      Push(Ord(C));
      Continue;
    end;
    C := Json[At];
    Inc(At);
    case C of
      'b': Push(8);
      't': Push(9);
      'n': Push(10);
      'f': Push(12);
      'r': Push(13);
      'u':
        if Hex4(Code) then
        begin
          if (Code >= $D800) and (Code < $DC00) and (At + 5 <= Length(Json)) and (Json[At] = '\') and (Json[At + 1] = 'u') then
          begin
            Inc(At, 2);
            if Hex4(Low) and (Low >= $DC00) and (Low < $E000) then
              Code := $10000 + ((Code - $D800) shl 10) + (Low - $DC00)
            else
              Code := $FFFD;
          end
          else if (Code >= $D800) and (Code < $E000) then
            Code := $FFFD;
          PushCode(Code);
        end;
    else
      Push(Ord(C));
    end;
  end;
  SetLength(Result, N);
end;

function McpJsonQuote(const S: string): UTF8String;
const
  Digits: array[0..15] of AnsiChar = '0123456789abcdef';
var
  U: UTF8String;
  I, N: Integer;

  procedure Push(C: AnsiChar);
  begin
    Inc(N);
    Result[N] := C;
  end;

begin
  U := McpUtf8(S);
  SetLength(Result, Length(U) * 6 + 2);
  N := 0;
  Push('"');
  for I := 1 to Length(U) do
    case U[I] of
      '"', '\':
        begin
          Push('\');
          Push(U[I]);
        end;
      #0..#31:
        begin
          Push('\');
          Push('u');
          Push('0');
          Push('0');
          Push(Digits[Ord(U[I]) shr 4]);
          Push(Digits[Ord(U[I]) and 15]);
        end;
    else
      Push(U[I]);
    end;
  Push('"');
  SetLength(Result, N);
end;

function McpJsonStr(const Json: UTF8String; const Name: string; const Default: string): string;
var
  V: UTF8String;
begin
  Result := Default;
  if McpJsonMember(Json, Name, V) and (V <> '') and (V[1] = '"') then
    Result := McpStr(McpJsonUnquote(V));
end;

function McpJsonInt(const Json: UTF8String; const Name: string; Default: Int64): Int64;
var
  V: UTF8String;
begin
  Result := Default;
  if McpJsonMember(Json, Name, V) then
    Result := StrToInt64Def(string(V), Default);
end;

function ParseFloat(const V: UTF8String; const Default: Double): Double;
const
  Largest = 1.7E308;
var
  Settings: TFormatSettings;
  Wide: Extended;
begin
  {$IFDEF FPC}
  Settings := DefaultFormatSettings;
  {$ELSE}
  Settings := TFormatSettings.Create;
  {$ENDIF}
  Settings.DecimalSeparator := '.';
  Result := Default;
  { A number that only Extended can hold would trap when it becomes a Double, and with the x87 one instruction late. }
  try
    if TryStrToFloat(string(V), Wide, Settings) and (Wide < Largest) and (Wide > -Largest) then
      Result := Wide;
  except
    Result := Default;
  end;
end;

function McpJsonFloat(const Json: UTF8String; const Name: string; const Default: Double): Double;
var
  V: UTF8String;
begin
  Result := Default;
  if McpJsonMember(Json, Name, V) then
    Result := ParseFloat(V, Default);
end;

function McpJsonBool(const Json: UTF8String; const Name: string; Default: Boolean): Boolean;
var
  V: UTF8String;
begin
  Result := Default;
  if McpJsonMember(Json, Name, V) then
    if V = 'true' then
      Result := True
    else if V = 'false' then
      Result := False;
end;

function McpJsonRaw(const Json: UTF8String; const Name: string; const Default: string): string;
var
  V: UTF8String;
begin
  Result := Default;
  if McpJsonMember(Json, Name, V) then
    Result := McpStr(V);
end;

function FloatText(const Value: Double): UTF8String;
var
  Settings: TFormatSettings;
begin
  {$IFDEF FPC}
  Settings := DefaultFormatSettings;
  {$ELSE}
  Settings := TFormatSettings.Create;
  {$ENDIF}
  Settings.DecimalSeparator := '.';
  Settings.ThousandSeparator := ',';
  Result := UTF8String(FloatToStr(Value, Settings));
end;

{ TMcpJsonObject }

procedure TMcpJsonObject.Clear;
begin
  FNames := nil;
  FValues := nil;
end;

function TMcpJsonObject.IndexOf(const Name: UTF8String): Integer;
begin
  for Result := 0 to High(FNames) do
    if FNames[Result] = Name then
      Exit;
  Result := -1;
end;

procedure TMcpJsonObject.PutRaw(const Name: string; const Json: UTF8String);
var
  I: Integer;
  U: UTF8String;
begin
  U := McpUtf8(Name);
  I := IndexOf(U);
  if I < 0 then
  begin
    I := Length(FNames);
    SetLength(FNames, I + 1);
    SetLength(FValues, I + 1);
    FNames[I] := U;
  end;
  FValues[I] := Json;
end;

procedure TMcpJsonObject.Put(const Name, Value: string);
begin
  PutRaw(Name, McpJsonQuote(Value));
end;

procedure TMcpJsonObject.Put(const Name: string; Value: Int64);
begin
  PutRaw(Name, UTF8String(IntToStr(Value)));
end;

procedure TMcpJsonObject.PutFloat(const Name: string; const Value: Double);
begin
  PutRaw(Name, FloatText(Value));
end;

procedure TMcpJsonObject.PutBool(const Name: string; Value: Boolean);
begin
  if Value then
    PutRaw(Name, 'true')
  else
    PutRaw(Name, 'false');
end;

function TMcpJsonObject.Merge(const Json: UTF8String): Boolean;
var
  At: Integer;
  Name, Value: UTF8String;
begin
  Result := McpJsonIsObject(Json) and EnterObject(Json, At);
  if not Result then
    Exit;
  while NextMember(Json, At, Name, Value) do
    PutRaw(McpStr(Name), Value);
  SkipBlanks(Json, At);
  Result := (At <= Length(Json)) and (Json[At] = '}');
end;

function TMcpJsonObject.Count: Integer;
begin
  Result := Length(FNames);
end;

function TMcpJsonObject.Text: UTF8String;
var
  I: Integer;
begin
  Result := '{';
  for I := 0 to High(FNames) do
  begin
    if I > 0 then
      Result := Result + ',';
    Result := Result + McpJsonQuote(McpStr(FNames[I])) + ':' + FValues[I];
  end;
  Result := Result + '}';
end;

function VarText(const V: TVarRec): string;
begin
  case V.VType of
    vtChar: Result := string(AnsiString(V.VChar));
    vtWideChar: Result := string(UnicodeString(V.VWideChar));
    vtString: Result := string(V.VString^);
    vtPChar: Result := string(AnsiString(V.VPChar));
    vtPWideChar: Result := string(UnicodeString(V.VPWideChar));
    vtWideString: Result := string(WideString(V.VWideString));
    vtAnsiString: Result := string(AnsiString(V.VAnsiString));
    vtUnicodeString:
      {$IFDEF FPC}
      Result := McpStr(UTF8Encode(UnicodeString(V.VUnicodeString)));
      {$ELSE}
      Result := UnicodeString(V.VUnicodeString);
      {$ENDIF}
  else
    raise EConvertError.Create('a name or value of a kind that JSON does not have');
  end;
end;

function McpArgs(const Pairs: array of const): string;
var
  I: Integer;
  O: TMcpJsonObject;
  Name: string;
begin
  if Odd(Length(Pairs)) then
    raise EConvertError.Create('arguments come in pairs: name, value');
  O.Clear;
  I := 0;
  while I < High(Pairs) do
  begin
    Name := VarText(Pairs[I]);
    case Pairs[I + 1].VType of
      vtInteger: O.Put(Name, Int64(Pairs[I + 1].VInteger));
      vtInt64: O.Put(Name, Pairs[I + 1].VInt64^);
      {$IFDEF FPC}
      vtQWord: O.PutRaw(Name, UTF8String(IntToStr(Pairs[I + 1].VQWord^)));
      {$ENDIF}
      vtBoolean: O.PutBool(Name, Pairs[I + 1].VBoolean);
      vtExtended: O.PutFloat(Name, Pairs[I + 1].VExtended^);
      vtCurrency: O.PutFloat(Name, Pairs[I + 1].VCurrency^);
      vtPointer:
        if Pairs[I + 1].VPointer = nil then
          O.PutRaw(Name, 'null')
        else
          raise EConvertError.Create('a pointer is no JSON value');
    else
      O.Put(Name, VarText(Pairs[I + 1]));
    end;
    Inc(I, 2);
  end;
  Result := McpStr(O.Text);
end;

end.
