#!/bin/sh
# The official suite judges the client: each scenario of its client leg outside auth/, at each revision, played by the
# driver (tests/conformance/driver.c) on the C ABI alone.
#
#   conformance.sh                      both revisions, scenario by scenario
#   conformance.sh REVISION...          these revisions
#   conformance.sh --requirements REV   the suite's own frozen set of that revision, auth/ included, all at once
#
# A warning is a failure, and so is a scenario without one SUCCESS: a client that only exits 0 proves nothing.
# tests/conformance/expected-failures.txt names what is known to fail; an entry there that passes fails the run.
# MCP_CONFORMANCE_ERA=auto: have the library find out the era by itself.
# LIBRARY: the folder of the shared library. JOBS: how many scenarios at once.
. "$(dirname "$0")/common.sh"
SUITE="$TOOLS/node22/node_modules/@modelcontextprotocol/conformance/dist/index.js"
NODE="$TOOLS/node22/node_modules/node/bin/node"
LIBRARY="${LIBRARY:-$BUILD/debug}"
JOBS="${JOBS:-4}"
EXPECTED="$ROOT/tests/conformance/expected-failures.txt"
ALONE=sse-retry # it counts milliseconds

# One scenario: a line "revision scenario verdict passed failed warnings" into its own file.
play() { # revision scenario
    out="$OUT/$1/$2"
    mkdir -p "$out"
    rc=0
    timeout 120 "$NODE" "$SUITE" client --command "$OUT/driver" --scenario "$2" --spec-version "$1" --force \
        --timeout 60000 -o "$out" >"$out/log" 2>&1 || rc=$?
    set -- "$1" "$2" $(sed -nE 's/^Passed: ([0-9]+)\/[0-9]+, ([0-9]+) failed, ([0-9]+) warnings.*/\1 \2 \3/p' "$out/log" | tail -n 1)
    verdict=ok
    [ "$rc" = 0 ] && [ "${3:-0}" -gt 0 ] || verdict=FAILED
    echo "$1 $2 $verdict ${3:-0} ${4:-0} ${5:-0}" >"$out/verdict"
}

if [ "${1:-}" = play ]; then
    [ $# = 3 ] || exit 0 # nothing to play: some xargs run once all the same
    play "$2" "$3"
    exit
fi

OUT=$(mktemp -d)
export OUT
trap 'rm -rf "$OUT"' EXIT
name=$(cd "$LIBRARY" && pwd)
ln -s "$name/libmcpnative.so" "$OUT/libmcpnative.so.1"
${CC:-cc} -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -I"$ROOT/include" -o "$OUT/driver" \
    "$ROOT/tests/conformance/driver.c" "$name/libmcpnative.so" -Wl,-rpath,"$OUT"

if [ "${1:-}" = --requirements ]; then
    "$NODE" "$SUITE" client --command "$OUT/driver" --requirements "$2" --timeout 60000 -o "$OUT/set"
    exit
fi

[ $# -gt 0 ] || set -- 2026-07-28 2025-11-25
"$NODE" "$SUITE" list --client 2>/dev/null | sed -nE 's/^ *- ([^ ]+) \[(.*)\]$/\1 \2/p' | grep -v '^auth/' >"$OUT/list"
for revision; do
    while read -r scenario where; do
        case ",$where, $revision" in
            *",$revision,"* | ",extension, 2026-07-28") echo "$revision $scenario" ;;
        esac
    done <"$OUT/list"
done >"$OUT/plan"
grep -v " $ALONE\$" "$OUT/plan" | xargs -P "$JOBS" -n 2 sh "$0" play
grep " $ALONE\$" "$OUT/plan" | xargs -n 2 sh "$0" play

bad=0
printf '%-10s  %-36s %-8s %6s %6s %8s\n' revision scenario '' passed failed warnings
while read -r revision scenario; do
    read -r _ _ verdict passed failed warnings <"$OUT/$revision/$scenario/verdict"
    known=no
    grep -qsx "$revision $scenario" "$EXPECTED" && known=yes
    case "$verdict $known" in
        "FAILED no") bad=1 ;;
        "FAILED yes") verdict=expected ;;
        "ok yes") verdict=STALE bad=1 ;;
    esac
    printf '%-10s  %-36s %-8s %6s %6s %8s\n' "$revision" "$scenario" "$verdict" "$passed" "$failed" "$warnings"
    [ "$verdict" != FAILED ] || sed 's/^/    | /' "$OUT/$revision/$scenario/log" >>"$OUT/why"
done <"$OUT/plan"
[ ! -s "$OUT/why" ] || { echo; echo "What the suite says of those that failed:"; cat "$OUT/why"; }
[ -s "$OUT/plan" ] || { echo "no scenario at these revisions" >&2; bad=1; }
exit $bad
