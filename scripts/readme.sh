#!/bin/sh
# Runs the examples of README.md as they stand there: each against the bundled server, each must print the same.
. "$(dirname "$0")/common.sh"
cd "$ROOT"
DIR="$BUILD/readme"
rm -rf "$DIR"
mkdir -p "$DIR"
ln -sf ../debug/libmcpnative.so "$DIR/libmcpnative.so.1"
# The examples name a fixed address.
start_server --http 127.0.0.1:0
failed=0

example() { # language, file
    python3 scripts/readme.py "$1" | sed "s|http://127.0.0.1:8080/mcp|$URL|" >"$DIR/$2"
}

expect() { # language, command...
    language=$1
    shift
    out=$(timeout 60 "$@" 2>&1) || { echo "$language: exit $?: $out"; failed=1; return; }
    case "$out" in
        *"done"*) echo "$language: $out" ;;
        *) echo "$language: expected the job's result but found: $out"; failed=1 ;;
    esac
}

example c example.c
gcc -Wall -Wextra -Werror -Iinclude "$DIR/example.c" -o "$DIR/example" "$BUILD/debug/libmcpnative.so" -Wl,-rpath,"$DIR"
expect c "$DIR/example"

example python example.py
PYTHONPATH=bindings/python MCPNATIVE_LIBRARY="$BUILD/debug/libmcpnative.so" expect python python3 "$DIR/example.py"

example pascal example.pas
if command -v fpc >/dev/null 2>&1; then
    fpc -Mdelphi -v0 -Fubindings/delphi -Fibindings/delphi -FU"$DIR" -FE"$DIR" "$DIR/example.pas" >"$DIR/fpc.log" 2>&1 ||
        { cat "$DIR/fpc.log"; exit 1; }
    MCPNATIVE_LIBRARY="$BUILD/debug/libmcpnative.so" expect pascal "$DIR/example"
elif [ -n "${MCP_TEST_ALL:-}" ]; then
    echo "pascal: fpc is missing"; failed=1
fi
exit $failed
