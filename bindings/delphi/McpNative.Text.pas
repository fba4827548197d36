{$I McpNative.inc}
{ Text across the border: the library speaks UTF-8 with a length, Pascal speaks "string", which is
  UTF-16 in Delphi and bytes with a code page in Free Pascal. Nothing else converts. }
unit McpNative.Text;

interface

uses
  {$IFDEF FPC}SysUtils{$ELSE}System.SysUtils{$ENDIF};

{ A string as UTF-8. Free Pascal: bytes that are tagged as UTF-8, or (off Windows) are valid UTF-8, go through
  untouched; anything else is converted from its code page. }
function McpUtf8(const S: string): UTF8String;

{ UTF-8 bytes as a string. nil gives ''. Free Pascal: the same bytes, tagged as UTF-8. }
function McpStr(P: PAnsiChar; Length: NativeUInt): string; overload;
function McpStr(const S: UTF8String): string; overload;

{ A static text of the library, ended by NUL, as a string. }
function McpStatic(P: PAnsiChar): string;

{ The pointer to hand in for a payload: nil when it is empty. }
function McpPtr(const S: UTF8String): PAnsiChar;

{ An identifier (method, tool, task id) travels without a length: a NUL inside would cut it silently. Raises EConvertError. }
function McpIdent(const S: string): UTF8String;

{ Milliseconds of a clock that only goes forward. }
function McpTicks: Int64;

{ The calling thread, comparable with MainThreadID. }
function McpThreadId: TThreadID;

{ 2026-07-28T10:20:30.456Z or with an offset, as UTC; 0 when it is no such text. }
function McpParseTime(const S: string): TDateTime;

implementation

{$IFNDEF FPC}
uses
  {$IFDEF MSWINDOWS}Winapi.Windows,{$ELSE}Posix.Pthread,{$ENDIF}
  System.Diagnostics;
{$ENDIF}

{$IF DEFINED(FPC) AND NOT DEFINED(MSWINDOWS)}
function IsUtf8(const S: RawByteString): Boolean;
var
  I, More: Integer;
  B: Byte;
begin
  Result := False;
  More := 0;
  for I := 1 to Length(S) do
  begin
    B := Ord(S[I]);
    if More > 0 then
    begin
      if B and $C0 <> $80 then
        Exit;
      Dec(More);
    end
    else if B >= $F0 then
      More := 3
    else if B >= $E0 then
      More := 2
    else if B >= $C0 then
      More := 1
    else if B >= $80 then
      Exit;
  end;
  Result := More = 0;
end;
{$IFEND}

function McpUtf8(const S: string): UTF8String;
{$IFDEF FPC}
var
  Plain: Boolean;
begin
  Result := '';
  if S = '' then
    Exit;
  Plain := StringCodePage(S) = CP_UTF8;
  {$IFNDEF MSWINDOWS}
  Plain := Plain or IsUtf8(S);
  {$ENDIF}
  if Plain then
  begin
    SetLength(Result, Length(S));
    Move(Pointer(S)^, Pointer(Result)^, Length(S));
  end
  else
    Result := UTF8Encode(UnicodeString(S));
end;
{$ELSE}
begin
  Result := UTF8Encode(S);
end;
{$ENDIF}

function McpStr(P: PAnsiChar; Length: NativeUInt): string;
{$IFDEF FPC}
begin
  Result := '';
  if (P = nil) or (Length = 0) then
    Exit;
  SetString(Result, P, SizeInt(Length));
  SetCodePage(RawByteString(Result), CP_UTF8, False);
end;
{$ELSE}
var
  Bytes: UTF8String;
begin
  Result := '';
  if (P = nil) or (Length = 0) then
    Exit;
  SetString(Bytes, P, Integer(Length));
  Result := UTF8ToString(Bytes);
end;
{$ENDIF}

function McpStr(const S: UTF8String): string;
begin
  Result := McpStr(PAnsiChar(Pointer(S)), NativeUInt(Length(S)));
end;

function McpStatic(P: PAnsiChar): string;
var
  N: NativeUInt;
begin
  N := 0;
  if P <> nil then
    while P[N] <> #0 do
      Inc(N);
  Result := McpStr(P, N);
end;

function McpPtr(const S: UTF8String): PAnsiChar;
begin
  Result := PAnsiChar(Pointer(S));
end;

function McpIdent(const S: string): UTF8String;
begin
  Result := McpUtf8(S);
  if Pos(#0, S) > 0 then
    raise EConvertError.Create('an identifier contains a NUL character');
end;

function McpTicks: Int64;
begin
  {$IFDEF FPC}
  Result := Int64(GetTickCount64);
  {$ELSE}
  Result := TStopwatch.GetTimeStamp div (TStopwatch.Frequency div 1000);
  {$ENDIF}
end;

function McpThreadId: TThreadID;
begin
  {$IF DEFINED(FPC) OR DEFINED(MSWINDOWS)}
  Result := GetCurrentThreadId;
  {$ELSE}
  Result := TThreadID(pthread_self);
  {$IFEND}
end;

function McpParseTime(const S: string): TDateTime;
var
  At: Integer;

  function Number(Digits: Integer; out N: Integer): Boolean;
  var
    I: Integer;
  begin
    N := 0;
    Result := At + Digits - 1 <= Length(S);
    if Result then
      for I := At to At + Digits - 1 do
        if (S[I] >= '0') and (S[I] <= '9') then
          N := N * 10 + Ord(S[I]) - Ord('0')
        else
          Result := False;
    Inc(At, Digits);
  end;

  function Mark(A, B: Char): Boolean;
  begin
    Result := (At <= Length(S)) and ((S[At] = A) or (S[At] = B));
    Inc(At);
  end;

var
  Y, Mo, D, H, Mi, Se, Ms, Scale, OffH, OffM, Sign: Integer;
  Date, Time: TDateTime;
begin
  Result := 0;
  At := 1;
  if not (Number(4, Y) and Mark('-', '-') and Number(2, Mo) and Mark('-', '-') and Number(2, D) and Mark('T', 't')
    and Number(2, H) and Mark(':', ':') and Number(2, Mi) and Mark(':', ':') and Number(2, Se)) then
    Exit;
  Ms := 0;
  if (At <= Length(S)) and (S[At] = '.') then
  begin
    Inc(At);
    Scale := 100;
    while (At <= Length(S)) and (S[At] >= '0') and (S[At] <= '9') do
    begin
      Ms := Ms + (Ord(S[At]) - Ord('0')) * Scale;
      Scale := Scale div 10;
      Inc(At);
    end;
  end;
  OffH := 0;
  OffM := 0;
  Sign := 0;
  if (At <= Length(S)) and ((S[At] = '+') or (S[At] = '-')) then
  begin
    if S[At] = '+' then
      Sign := -1
    else
      Sign := 1;
    Inc(At);
    if not (Number(2, OffH) and Mark(':', ':') and Number(2, OffM)) then
      Exit;
  end;
  if Se > 59 then
    Se := 59;
  if not TryEncodeDate(Y, Mo, D, Date) or not TryEncodeTime(H, Mi, Se, Ms, Time) then
    Exit;
  Result := Date + Time + Sign * (OffH * 60 + OffM) / (24 * 60);
end;

end.
