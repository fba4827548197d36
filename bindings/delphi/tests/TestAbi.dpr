program TestAbi;
{ Holds McpNative.Abi equal to the header: every function and how many parameters it has, every constant, on both sides. Needs no library.
  TestAbi mcpnative.h McpNative.Abi.pas }

{$IFDEF FPC}{$MODE DELPHI}{$ELSE}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}SysUtils, Classes,{$ELSE}System.SysUtils, System.Classes,{$ENDIF}
  McpCheck in 'McpCheck.pas';

function Load(const Path: string): string;
var
  Lines: TStringList;
begin
  Lines := TStringList.Create;
  try
    Lines.LoadFromFile(Path);
    Result := Lines.Text;
  finally
    Lines.Free;
  end;
end;

{ C comments out, so that names in prose do not count. }
function WithoutComments(const S: string): string;
var
  I: Integer;
begin
  Result := '';
  I := 1;
  while I <= Length(S) do
    if Copy(S, I, 2) = '/*' then
    begin
      while (I <= Length(S)) and (Copy(S, I, 2) <> '*/') do
        Inc(I);
      Inc(I, 2);
    end
    else if Copy(S, I, 2) = '//' then
      while (I <= Length(S)) and (S[I] <> #10) do
        Inc(I)
    else
    begin
      Result := Result + S[I];
      Inc(I);
    end;
end;

function Word(const S: string; var I: Integer): string;
var
  Start: Integer;
begin
  Start := I;
  while (I <= Length(S)) and (((S[I] >= 'a') and (S[I] <= 'z')) or ((S[I] >= 'A') and (S[I] <= 'Z')) or
    ((S[I] >= '0') and (S[I] <= '9')) or (S[I] = '_')) do
    Inc(I);
  Result := Copy(S, Start, I - Start);
end;

procedure Blanks(const S: string; var I: Integer);
begin
  while (I <= Length(S)) and (S[I] <= ' ') do
    Inc(I);
end;

{ How many parameters begin at S[At], where the list opens, if one does. }
function Parameters(const S: string; At: Integer; Separator: Char): Integer;
var
  Rest: string;
begin
  Result := 0;
  if (At > Length(S)) or (S[At] <> '(') then
    Exit;
  Rest := Copy(S, At + 1, Pos(')', Copy(S, At, MaxInt)) - 2);
  if (Trim(Rest) = '') or (Trim(Rest) = 'void') then
    Exit;
  Result := 1;
  for At := 1 to Length(Rest) do
    if Rest[At] = Separator then
      Inc(Result);
end;

procedure Scan(const S: string; Functions, Constants: TStrings; Pascal: Boolean);
var
  I, J: Integer;
  Name, Value: string;
  Define: Boolean;
begin
  I := 1;
  Define := False;
  while I <= Length(S) do
  begin
    Name := Word(S, I);
    if Name = '' then
    begin
      Inc(I);
      Continue;
    end;
    J := I;
    Blanks(S, J);
    if (Copy(Name, 1, 4) = 'mcp_') and Pascal and (Copy(S, J, 10) = ': function') then
      Functions.Add(Format('%s with %d parameters', [Name, Parameters(S, J + 10, ';')]))
    else if (Copy(Name, 1, 4) = 'mcp_') and not Pascal and (Copy(S, J, 1) = '(') then
      Functions.Add(Format('%s with %d parameters', [Name, Parameters(S, J, ',')]))
    else if Copy(Name, 1, 4) = 'MCP_' then
    begin
      if Copy(S, J, 1) = '=' then
        Inc(J)
      else if not Define then
        Continue;
      Blanks(S, J);
      Value := '';
      if Copy(S, J, 1) = '-' then
      begin
        Value := '-';
        Inc(J);
      end;
      if (J <= Length(S)) and (S[J] >= '0') and (S[J] <= '9') then
      begin
        Value := Value + Word(S, J);
        if Pascal and (Name[Length(Name)] = '_') then
          SetLength(Name, Length(Name) - 1);
        Constants.Add(Name + ' = ' + Value);
      end;
    end;
    Define := Name = 'define';
  end;
end;

procedure Compare(A, B: TStrings; const What: string);
var
  I: Integer;
begin
  for I := 0 to A.Count - 1 do
    if B.IndexOf(A[I]) < 0 then
      Check(False, A[I] + ' ' + What);
end;

function NewList: TStringList;
begin
  Result := TStringList.Create;
  Result.CaseSensitive := True;
  Result.Duplicates := dupIgnore;
  Result.Sorted := True;
end;

var
  HeaderFunctions, HeaderConstants, UnitFunctions, UnitConstants: TStringList;
begin
  HeaderFunctions := NewList;
  HeaderConstants := NewList;
  UnitFunctions := NewList;
  UnitConstants := NewList;
  Scan(WithoutComments(Load(ParamStr(1))), HeaderFunctions, HeaderConstants, False);
  Scan(Load(ParamStr(2)), UnitFunctions, UnitConstants, True);
  Check(HeaderFunctions.Count > 50, Format('%d functions in the header', [HeaderFunctions.Count]));
  Check(HeaderConstants.Count > 50, Format('%d constants in the header', [HeaderConstants.Count]));
  Compare(HeaderFunctions, UnitFunctions, 'is missing in the unit');
  Compare(UnitFunctions, HeaderFunctions, 'is not in the header');
  Compare(HeaderConstants, UnitConstants, 'is missing or differs in the unit');
  Compare(UnitConstants, HeaderConstants, 'is missing or differs in the header');
  HeaderFunctions.Free;
  HeaderConstants.Free;
  UnitFunctions.Free;
  UnitConstants.Free;
  Finish;
end.
