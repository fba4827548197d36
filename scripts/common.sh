# What the scripts share: the folders, a server that always ends, a question to the machine.
set -eu
ROOT=$(cd "$(dirname "$0")" && while ! [ -f scripts/common.sh ]; do cd ..; done && pwd)
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$ROOT/target}"
BUILD="$CARGO_TARGET_DIR"
TOOLS="$BUILD/tools"

have() { command -v "$1" >/dev/null 2>&1; }

# Starts the bundled server; sets URL. It ends with this shell: its standard input is a pipe that we hold.
start_server() { # further arguments of mcp-test-server
    SERVER_DIR=$(mktemp -d)
    mkfifo "$SERVER_DIR/guard"
    "$BUILD/debug/mcp-test-server" --stdin-guard "$@" <"$SERVER_DIR/guard" >"$SERVER_DIR/out" &
    SERVER_PID=$!
    exec 9>"$SERVER_DIR/guard"
    trap stop_server EXIT INT TERM
    tries=0
    while ! grep -q '^listening ' "$SERVER_DIR/out" 2>/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -le 100 ] && kill -0 "$SERVER_PID" 2>/dev/null || { echo "the test server did not start" >&2; exit 1; }
        sleep 0.1
    done
    URL=$(sed -n 's/^listening //p' "$SERVER_DIR/out")
}

stop_server() {
    trap - EXIT INT TERM
    exec 9>&-
    wait "$SERVER_PID" 2>/dev/null || true
    rm -rf "$SERVER_DIR"
}
