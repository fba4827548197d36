#!/bin/sh
# Installs what the tests need and the machine lacks: through apt (as root, or with sudo that asks nothing), npm and pip.
# What cannot be had is named, with the tests that will be skipped. Writes the list of what is missing to
# target/tools/missing, one word a line, for scripts/test.sh.
. "$(dirname "$0")/common.sh"
mkdir -p "$TOOLS"
: >"$TOOLS/missing"

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif have sudo && sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

# Words of packages; nothing where all is there.
wanted=""
want() { # package, test of its presence
    eval "$2" >/dev/null 2>&1 || wanted="$wanted $1"
}
want g++ "have g++"
want cmake "have cmake"
want pkg-config "have pkg-config"
want valgrind "have valgrind"
want binutils "have nm"
want fpc "have fpc"
want fp-units-fcl "have fpc && ls /usr/lib/*/fpc/*/units/*/fcl-base"
want python3-venv "python3 -c 'import ensurepip, venv'"
have npm || wanted="$wanted npm"
install_wanted() {
    [ -n "$wanted" ] || return 0
    echo "installing:$wanted"
    if ! (as_root apt-get install -y --no-install-recommends $wanted ||
        { as_root apt-get update && as_root apt-get install -y --no-install-recommends $wanted; }) >>"$TOOLS/apt.log" 2>&1; then
        echo "apt could not install all of:$wanted (see the log in target/tools/apt.log)" >&2
    fi
    wanted=""
}
: >"$TOOLS/apt.log"
install_wanted
# By themselves: where one of them is not on offer, apt installs none of the list. A compiler for Windows: Debian's Rust
# with the sources of the standard library, which must be of the same version.
windows_rust() {
    [ -d /usr/lib/rustlib/src/rust/library/std ] && [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ]
}
want "rustc-web cargo-web rust-web-src" windows_rust
want gcc-mingw-w64-x86-64-posix "have x86_64-w64-mingw32-gcc"
want "wine wine64" "have wine && have wineserver"
install_wanted

miss() { # word, what it means
    echo "$1" >>"$TOOLS/missing"
    echo "MISSING $1: $2" >&2
}
have g++ || miss g++ "the header is not tried as C++"
{ have cmake && have pkg-config; } || miss cmake "the CMake and pkg-config packages are not tried"
have valgrind || miss valgrind "the programs of tests/c do not run under valgrind"
have fpc || miss fpc "the Delphi / Free Pascal units are not tried"
{ windows_rust && have x86_64-w64-mingw32-gcc && have wine && have wineserver; } ||
    miss windows "the library is not built for Windows and not tried under wine"
python3 -c 'import ensurepip, venv' 2>/dev/null || miss python3-venv "the wheel and the real servers are not tried"

# Node 22 and the official conformance suite: from the npm registry, both.
SUITE="@modelcontextprotocol/conformance@0.2.0-alpha.12"
NODE="$TOOLS/node22/node_modules/node/bin/node"
if ! [ -x "$NODE" ] || ! [ -f "$TOOLS/node22/node_modules/@modelcontextprotocol/conformance/dist/index.js" ]; then
    echo "installing: node@22 $SUITE"
    mkdir -p "$TOOLS/node22"
    (cd "$TOOLS/node22" && npm install --no-audit --no-fund --loglevel=error "node@22" "$SUITE") >"$TOOLS/npm.log" 2>&1 || true
fi
"$NODE" --version >/dev/null 2>&1 || miss node22 "the official conformance suite does not judge the test server"
