{$I McpNative.inc}
{ Puts TMcpClient on the component palette. }
unit McpNative.Reg;

interface

procedure Register;

implementation

uses
  {$IFDEF FPC}Classes,{$ELSE}System.Classes,{$ENDIF}
  McpNative.Client;

procedure Register;
begin
  RegisterComponents('MCP', [TMcpClient]);
end;

end.
