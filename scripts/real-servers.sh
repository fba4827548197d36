#!/bin/sh
# Installs the servers of tests/real, which nobody of this project wrote, with exact pins, into REAL_TOOLS (a folder in the
# build folder by default). Does nothing where they are there. Needs Python 3.10 or later with venv; PYTHON names another
# interpreter than python3.
. "$(dirname "$0")/common.sh"
REAL_TOOLS=${REAL_TOOLS:-$TOOLS/real}
PYTHON=${PYTHON:-python3}

pins=$ROOT/tests/real/fastmcp/requirements.txt
venv=$REAL_TOOLS/fastmcp
if ! cmp -s "$pins" "$venv/installed.txt"; then
    "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "fastmcp needs Python 3.10 or later" >&2; exit 1; }
    echo "installing: $(grep -i '^fastmcp\[' "$pins")"
    rm -rf "$venv"
    mkdir -p "$REAL_TOOLS"
    "$PYTHON" -m venv "$venv"
    if ! "$venv/bin/pip" install --disable-pip-version-check --no-input --retries 5 -r "$pins" >"$REAL_TOOLS/pip.log" 2>&1; then
        tail -n 20 "$REAL_TOOLS/pip.log" >&2
        exit 1
    fi
    cp "$pins" "$venv/installed.txt"
fi
