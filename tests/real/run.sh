#!/bin/sh
# The library against servers on what nobody of this project wrote: a tour of all of them (tour.py), the tasks of 2025-11-25 of
# server-everything (research.py), and with FastMCP's tasks extension the same long job, to the same result, from C, Python and
# Pascal, and from C the other tools of fastmcp/server.py.
# PROFILE says which build of the library (debug), WORDS which visits of the tour (all). What cannot be had is left out and
# named; with MCP_TEST_ALL=1 that is a failure.
. "$(dirname "$0")/../../scripts/common.sh"
cd "$ROOT"
sh scripts/real-servers.sh
REAL_TOOLS=${REAL_TOOLS:-$TOOLS/real}
PROFILE=${PROFILE:-debug}
library=$BUILD/$PROFILE/libmcpnative.so
out=$BUILD/real/out
rm -rf "$out"
mkdir -p "$out"
[ -f "$library" ] || { echo "there is no $library: build it first" >&2; exit 1; }

failed=0
skip() { # what, why
    echo "SKIPPED $1: $2 is missing"
    [ -z "${MCP_TEST_ALL:-}" ] || failed=1
}

export MCPNATIVE_LIBRARY="$library"
mkdir -p "$BUILD/test-logs"
PYTHONPATH=bindings/python timeout 900 python3 -B tests/real/tour.py "$TOOLS" "$REAL_TOOLS" "$BUILD" ${WORDS:-} || failed=1
if grep -qx node "$REAL_TOOLS/missing"; then
    skip "the tasks of 2025-11-25" node
elif [ -z "${WORDS:-}" ]; then
    PYTHONPATH=bindings/python timeout 300 python3 -B tests/real/research.py "$TOOLS/node22/node_modules/node/bin/node" \
        "$REAL_TOOLS/node/node_modules/@modelcontextprotocol/server-everything/dist/index.js" || failed=1
fi
if grep -qx fastmcp "$REAL_TOOLS/missing"; then
    skip "the long job from C, Python and Pascal" fastmcp
    exit "$failed"
fi

server=
stop() {
    trap - EXIT INT TERM
    [ -z "$server" ] || { kill "$server" 2>/dev/null || :; }
    [ -z "$server" ] || { wait "$server" 2>/dev/null || :; }
}
trap stop EXIT
trap 'stop; exit 130' INT TERM

MAX_SECONDS=300 "$REAL_TOOLS/fastmcp/bin/python" tests/real/fastmcp/server.py >"$out/server.log" 2>&1 &
server=$!
tries=0
until grep -q '^listening ' "$out/server.log"; do
    tries=$((tries + 1))
    if [ "$tries" -gt 600 ] || ! kill -0 "$server" 2>/dev/null; then
        echo "the server did not start:" >&2
        cat "$out/server.log" >&2
        exit 1
    fi
    sleep 0.1
done
url=$(sed -n 's/^listening //p' "$out/server.log")

# The name that programs ask the loader for.
ln -sf "$library" "$out/libmcpnative.so.1"
for program in long_job other_tools; do
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude "tests/real/$program.c" -o "$out/$program" \
        "$out/libmcpnative.so.1" "-Wl,-rpath,$out"
done

tool=long_job
arguments='{"steps":5,"step_ms":200}'
expected='done after 5 steps'

long_job() { # language, command...: runs the job and keeps what it printed
    language=$1
    shift
    if ! timeout 90 "$@" "$url" "$tool" "$arguments" >"$out/$language.txt" 2>&1; then
        echo "FAILED  $language:"
        cat "$out/$language.txt"
        failed=1
        return
    fi
    result=$(sed -n 's/^result: //p' "$out/$language.txt")
    steps=$(grep -c '^status: working, step [0-9] of 5$' "$out/$language.txt" || :)
    if [ "$result" != "$expected" ] || [ "$steps" -lt 2 ]; then
        echo "FAILED  $language: expected \"$expected\" and the steps on the way, but:"
        cat "$out/$language.txt"
        failed=1
    else
        echo "ok      $language: $result ($steps steps seen)"
    fi
}

long_job c "$out/long_job"
PYTHONPATH=bindings/python long_job python python3 tests/real/long_job.py
if have fpc; then
    if BUILD="$out/pascal" bindings/delphi/build.sh >"$out/pascal-build.log" 2>&1; then
        long_job pascal "$out/pascal/RealServer"
    else
        echo "FAILED  pascal does not compile:"
        tail -n 20 "$out/pascal-build.log"
        failed=1
    fi
else
    skip pascal fpc
fi

if timeout 120 "$out/other_tools" "$url" >"$out/other_tools.txt" 2>&1; then
    echo "ok      $(grep -c '^ok' "$out/other_tools.txt") other tools"
else
    echo "FAILED  other tools:"
    cat "$out/other_tools.txt"
    failed=1
fi
[ "$failed" = 0 ] || { echo "the server's own words:"; cat "$out/server.log"; }
exit "$failed"
