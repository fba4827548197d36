#!/bin/sh
# Compiles every unit, the example and the tests with Free Pascal.
#   BUILD=folder build.sh          compile only, output into BUILD (default: mcpnative-delphi in the temporary folder)
#   BUILD=folder build.sh test     compile, then run the tests; needs MCPNATIVE_LIBRARY and MCP_TEST_SERVER or MCP_TEST_URL
# FPC names the compiler, FPCFLAGS adds flags (for another target, say), HEADER the header to compare with.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
BUILD=${BUILD:-${TMPDIR:-/tmp}/mcpnative-delphi}
FPC=${FPC:-fpc}
HEADER=${HEADER:-$here/../../include/mcpnative.h}
mkdir -p "$BUILD/units" "$BUILD/leak"

compile() { # source, further flags
	source=$1
	shift
	# shellcheck disable=SC2086
	"$FPC" -Mdelphi -l- -v0ew -Sew -O2 -gl "-Fu$here" "-Fi$here" "-Fu$here/tests" "-FE$BUILD" "-FU$BUILD/units" \
		${FPCFLAGS:-} "$@" "$source"
}

for unit in Text Json Abi Load Errors Channel Result Input Task Client Reg; do
	compile "$here/McpNative.$unit.pas"
done
compile "$here/examples/LongJob.dpr"
# The example of the README, for TestReadme.
sed -n '/^```pascal$/,/^```$/p' "$here/README.md" | sed "1d;\$d;s|'http://127.0.0.1:8080/mcp'|ServerUrl|" >"$BUILD/readme.inc"
for program in TestMcp TestAbi TestExit TestReadme TestExamples RealServer; do
	compile "$here/tests/$program.dpr" "-Fi$BUILD"
done
# The same test with the heap traced: its own folder, or units without tracing would be mixed in.
compile "$here/tests/TestMcp.dpr" -gh "-FE$BUILD/leak" "-FU$BUILD/leak"

[ "${1:-}" = test ] || exit 0

# A program that hangs is a failure, not a standstill.
run() {
	if command -v timeout >/dev/null; then timeout "${LIMIT:-100}" "$@"; else "$@"; fi
}

run "$BUILD/TestAbi" "$HEADER" "$here/McpNative.Abi.pas"
run "$BUILD/TestMcp"
run "$BUILD/TestReadme"
run "$BUILD/TestExamples" "$BUILD"
for mode in nolib shutdown unload unloadopen threads open pumpless; do
	run "$BUILD/TestExit" "$mode"
done
HEAPTRC="log=$BUILD/heap.log" && export HEAPTRC
rm -f "$BUILD/heap.log"
run "$BUILD/leak/TestMcp" >"$BUILD/leak.out" || { cat "$BUILD/leak.out"; exit 1; }
if ! grep -q '^0 unfreed memory blocks : 0' "$BUILD/heap.log"; then
	cat "$BUILD/heap.log"
	exit 1
fi
echo "heap: $(grep 'unfreed memory' "$BUILD/heap.log")"
