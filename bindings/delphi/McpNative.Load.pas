{$I McpNative.inc}
{ Finds and loads the shared library, once per process, and checks that its ABI is the one these units were written for.
  It is never unloaded: it pins itself, and threads of its own may be alive. }
unit McpNative.Load;

interface

uses
  {$IFDEF FPC}SysUtils, Classes, SyncObjs, dynlibs,{$ELSE}System.SysUtils, System.Classes, System.SyncObjs,
  {$IFDEF MSWINDOWS}Winapi.Windows,{$ENDIF}{$ENDIF}
  McpNative.Text, McpNative.Abi;

type
  { The library is missing, is none, or has another ABI. The message names every place that was tried. }
  EMcpLibrary = class(Exception);

const
  {$IF DEFINED(MSWINDOWS)}
  McpLibraryName = 'mcpnative.dll';
  McpLibraryVersionedName = '';
  {$ELSEIF DEFINED(DARWIN) OR DEFINED(MACOS)}
  McpLibraryName = 'libmcpnative.dylib';
  McpLibraryVersionedName = 'libmcpnative.1.dylib';
  {$ELSE}
  McpLibraryName = 'libmcpnative.so';
  McpLibraryVersionedName = 'libmcpnative.so.1';
  {$IFEND}

{ Loads the library if it is not loaded yet. Order: Path if given (nothing else then), the environment variable
  MCPNATIVE_LIBRARY if set (nothing else then), beside the executable, the plain name on the system's search path.
  Any thread. Raises EMcpLibrary. TMcpClient.Open calls it. }
procedure McpLoad(const Path: string = '');

function McpLoaded: Boolean;
{ Where it was loaded from; '' before. }
function McpLibraryPath: string;
{ Version of the library; '' before it is loaded. }
function McpVersion: string;

{ Closes all clients of the process and ends all threads of the library; True when done within WaitMs.
  The finalization of McpNative.Channel calls it. Call it yourself, earlier, in a DLL: no wait is made while one is unloaded. }
function McpShutdown(WaitMs: Int64 = 3000): Boolean;

implementation

var
  Guard: TCriticalSection;
  LoadedPath: string;
  Ready: Boolean;
  Missing: string;
  {$IFDEF FPC}
  Handle: TLibHandle = NilHandle;
  {$ELSE}
  Handle: HMODULE = 0;
  {$ENDIF}

function Resolve(const Name: AnsiString): Pointer;
begin
  {$IF DEFINED(FPC)}
  Result := GetProcedureAddress(Handle, Name);
  {$ELSEIF DEFINED(MSWINDOWS)}
  Result := GetProcAddress(Handle, PAnsiChar(Name));
  {$ELSE}
  Result := GetProcAddress(Handle, PChar(string(Name)));
  {$IFEND}
  if (Result = nil) and (Missing = '') then
    Missing := string(Name);
end;

function TryLoad(const Path: string; var Tried: string): Boolean;
var
  Why: string;
begin
  Result := False;
  if Path = '' then
    Exit;
  Handle := SafeLoadLibrary(Path);
  if Handle <> {$IFDEF FPC}NilHandle{$ELSE}0{$ENDIF} then
  begin
    LoadedPath := Path;
    Result := True;
    Exit;
  end;
  {$IFDEF FPC}
  Why := GetLoadErrorStr;
  {$ELSE}
  Why := SysErrorMessage(GetLastError);
  {$ENDIF}
  Tried := Tried + sLineBreak + '  ' + Path + ': ' + Why;
end;

procedure FindAndLoad(const Path: string);
var
  Tried, FromEnv, Beside: string;
begin
  Tried := '';
  if Path <> '' then
  begin
    if TryLoad(Path, Tried) then
      Exit;
  end
  else
  begin
    FromEnv := GetEnvironmentVariable('MCPNATIVE_LIBRARY');
    if FromEnv <> '' then
    begin
      if TryLoad(FromEnv, Tried) then
        Exit;
    end
    else
    begin
      Beside := ExtractFilePath(ParamStr(0));
      if FileExists(Beside + McpLibraryName) and TryLoad(Beside + McpLibraryName, Tried) then
        Exit;
      if TryLoad(McpLibraryName, Tried) or TryLoad(McpLibraryVersionedName, Tried) then
        Exit;
    end;
  end;
  raise EMcpLibrary.Create('mcpnative: the library could not be loaded; tried:' + Tried);
end;

procedure McpLoad(const Path: string);
var
  Found: Integer;
  Version: function: Integer; cdecl;
begin
  Guard.Enter;
  try
    if Ready then
      Exit;
    FindAndLoad(Path);
    { The version first: nothing else of a library with another ABI may be touched. }
    Missing := '';
    @Version := Resolve('mcp_abi_version');
    if not Assigned(Version) then
      raise EMcpLibrary.CreateFmt('mcpnative: %s is another library: it has no mcp_abi_version', [LoadedPath]);
    Found := Version();
    if Found <> MCP_ABI_VERSION_ then
      raise EMcpLibrary.CreateFmt('mcpnative: %s has ABI %d, these units need %d', [LoadedPath, Found, MCP_ABI_VERSION_]);
    McpAbiBind(Resolve);
    if Missing <> '' then
      raise EMcpLibrary.CreateFmt('mcpnative: %s is too old: it has no %s', [LoadedPath, Missing]);
    Ready := True;
  finally
    Guard.Leave;
  end;
end;

function McpLoaded: Boolean;
begin
  Result := Ready;
end;

function McpLibraryPath: string;
begin
  Guard.Enter;
  try
    if Ready then
      Result := LoadedPath
    else
      Result := '';
  finally
    Guard.Leave;
  end;
end;

function McpVersion: string;
begin
  if Ready then
    Result := McpStatic(mcp_version())
  else
    Result := '';
end;

function McpShutdown(WaitMs: Int64): Boolean;
begin
  Result := not Ready or (mcp_shutdown(WaitMs) = MCP_OK);
end;

initialization
  { Threads that Pascal did not start will run Pascal code: the memory manager and the reference counts must lock from now
    on, and CheckSynchronize must look at its queue even if no TThread was ever made. }
  IsMultiThread := True;
  Guard := TCriticalSection.Create;

finalization
  Guard.Free;

end.
