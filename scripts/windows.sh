#!/bin/sh
# `make windows`: the library as a DLL for 64-bit Windows, and programs that use it, under wine: a server over HTTP, as a
# child process, behind a named pipe; and the ledger.
#
# The compiler is Debian's (rustc-web with rust-web-src: the standard library is built along), since a rustup toolchain
# without a network has no other target. `win7` names the oldest Windows, whose calls wine has; the ABI is that of
# x86_64-pc-windows-gnu. The rest of the tests uses whatever Rust is on the PATH.
. "$(dirname "$0")/common.sh"
cd "$ROOT"
grep -qx windows "$TOOLS/missing" 2>/dev/null && { echo "rustc-web, rust-web-src, mingw or wine is missing" >&2; exit 1; }
TRIPLE=x86_64-win7-windows-gnu
export CARGO_TARGET_DIR="$BUILD/windows"
OUT="$CARGO_TARGET_DIR/$TRIPLE/debug"
RUN="$CARGO_TARGET_DIR/run"
# Without these, C is compiled for this machine: cc does not know the triple.
export CC_x86_64_win7_windows_gnu=x86_64-w64-mingw32-gcc AR_x86_64_win7_windows_gnu=x86_64-w64-mingw32-ar
export WINEPREFIX="$CARGO_TARGET_DIR/wine" WINEARCH=win64 WINEDEBUG=-all RUST_BACKTRACE=0

debian_cargo() {
    PATH="/usr/bin:$PATH" RUSTC_BOOTSTRAP=1 RUSTC=/usr/bin/rustc /usr/bin/cargo "$@" \
        -Zbuild-std=std,panic_unwind --target "$TRIPLE"
}

mkdir -p "$CARGO_TARGET_DIR"
LOG="$CARGO_TARGET_DIR/build.log"
debian_cargo build --workspace >"$LOG" 2>&1 || { cat "$LOG"; exit 1; }
# Our own warnings are errors; cargo tells of them also where nothing had to be built.
if grep -q 'generated [0-9]* warning' "$LOG"; then cat "$LOG"; exit 1; fi
x86_64-w64-mingw32-gcc -std=c11 -O1 -g -Wall -Wextra -Wpedantic -Werror -D__USE_MINGW_ANSI_STDIO=1 \
    -Iinclude tests/windows/*.c "$OUT/libmcpnative.dll.a" -o "$OUT/windows-test.exe"

# Nothing of this prefix stays behind.
trap 'wineserver -k >/dev/null 2>&1 || true' EXIT INT TERM
mkdir -p "$RUN"
[ -f "$WINEPREFIX/system.reg" ] || timeout 300 wine wineboot -i >/dev/null 2>&1

failed=0
under_wine() { # name, seconds, program, arguments...
    name=$1 limit=$2
    shift 2
    begun=$(date +%s)
    rc=0
    timeout -k 5 "$limit" wine "$@" >"$RUN/$name.log" 2>&1 || rc=$?
    if [ "$rc" = 0 ]; then
        echo "  ok $name ($(($(date +%s) - begun)) s)"
    else
        echo "  FAILED $name (code $rc), the end of its log:"
        tail -n 40 "$RUN/$name.log"
        failed=1
    fi
}
SERVER=$(winepath -w "$OUT/mcp-test-server.exe")
for program in http stdio pipes ledger; do
    rm -rf "$RUN/$program"
    mkdir "$RUN/$program"
    under_wine "$program" 180 "$OUT/windows-test.exe" "$program" "$SERVER" "$(winepath -w "$RUN/$program")"
done
exit "$failed"
