program TestReadme;
{ Runs the example of README.md as it stands there: build.sh cuts it out into readme.inc, with the address of the test server. }

{$IFDEF FPC}{$MODE DELPHI}{$CODEPAGE UTF8}{$ELSE}{$APPTYPE CONSOLE}{$ENDIF}

uses
  {$IFDEF FPC}{$IFDEF UNIX}cthreads,{$ENDIF}{$ENDIF}
  {$IFDEF FPC}SysUtils,{$ELSE}System.SysUtils,{$ENDIF}
  McpNative.Client in '../McpNative.Client.pas',
  McpCheck in 'McpCheck.pas';

type
  TWatcher = class
    Done: Boolean;
    Changes: Integer;
    Text: string;
    procedure Changed(Sender: TObject; Task: TMcpTask);
    procedure Completed(Sender: TObject; Task: TMcpTask);
    procedure Asked(Sender: TObject; Input: TMcpInput);
  end;

procedure TWatcher.Changed(Sender: TObject; Task: TMcpTask);
begin
  Inc(Changes);
end;

procedure TWatcher.Completed(Sender: TObject; Task: TMcpTask);
begin
  Text := Task.Text;
  Done := True;
end;

procedure TWatcher.Asked(Sender: TObject; Input: TMcpInput);
begin
  Input.Answer(McpArgs(['value', 'yes']));
end;

procedure Example;
var
  Client: TMcpClient;
  Watcher: TWatcher;
begin
  Watcher := TWatcher.Create;
  {$I readme.inc}
  CheckEqual(Watcher.Text, 'done', 'the example of README.md');
  Watcher.Free;
end;

begin
  Run('readme', Example);
  StopServer;
  Finish;
end.
