#!/bin/sh
# Installs the servers of tests/real, which nobody of this project wrote, with exact pins, into REAL_TOOLS (a folder in the
# build folder by default), and builds those in Rust into the folder real of the build folder. Does nothing where they are
# there. What cannot be had is named and listed in REAL_TOOLS/missing, one word a line. PYTHON names another interpreter than
# python3; it has to be 3.10 or later, with venv.
. "$(dirname "$0")/common.sh"
REAL_TOOLS=${REAL_TOOLS:-$TOOLS/real}
PYTHON=${PYTHON:-python3}
mkdir -p "$REAL_TOOLS"
: >"$REAL_TOOLS/missing"

miss() { # word, log
    echo "$1" >>"$REAL_TOOLS/missing"
    echo "MISSING $1, the end of its log:" >&2
    tail -n 20 "$2" >&2
}

install_venv() { # folder, pins
    "$PYTHON" -c 'import sys; sys.exit("Python 3.10 or later is needed" if sys.version_info < (3, 10) else 0)' &&
        "$PYTHON" -m venv "$1" &&
        "$1/bin/pip" install --disable-pip-version-check --no-input --retries 5 -r "$2" &&
        cp "$2" "$1/installed.txt"
}

venv() { # word, pins
    cmp -s "$2" "$REAL_TOOLS/$1/installed.txt" && return
    echo "installing: $1"
    rm -rf "$REAL_TOOLS/$1"
    install_venv "$REAL_TOOLS/$1" "$2" >"$REAL_TOOLS/$1.log" 2>&1 || miss "$1" "$REAL_TOOLS/$1.log"
}
venv fastmcp "$ROOT/tests/real/fastmcp/requirements.txt"
venv mcp1 "$ROOT/tests/real/small/requirements-mcp1.txt"

install_node() {
    "$TOOLS/node22/node_modules/node/bin/node" --version &&
        cp "$ROOT/tests/real/node/package.json" "$ROOT/tests/real/node/package-lock.json" "$REAL_TOOLS/node" &&
        (cd "$REAL_TOOLS/node" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error) &&
        cp "$ROOT/tests/real/node/package-lock.json" "$REAL_TOOLS/node/installed.json"
}
if ! cmp -s "$ROOT/tests/real/node/package-lock.json" "$REAL_TOOLS/node/installed.json"; then
    echo "installing: the servers on Node"
    rm -rf "$REAL_TOOLS/node"
    mkdir -p "$REAL_TOOLS/node"
    install_node >"$REAL_TOOLS/node.log" 2>&1 || miss node "$REAL_TOOLS/node.log"
fi

# That the crates cannot be had is one thing, that ours do not compile with them is another: a failure.
manifest=$ROOT/tests/real/rust/Cargo.toml
if cargo fetch --locked --manifest-path "$manifest" >"$REAL_TOOLS/rust.log" 2>&1; then
    cargo build --locked --manifest-path "$manifest" --target-dir "$BUILD/real" >"$REAL_TOOLS/rust.log" 2>&1 ||
        { tail -n 40 "$REAL_TOOLS/rust.log" >&2; exit 1; }
else
    miss rust "$REAL_TOOLS/rust.log"
fi
