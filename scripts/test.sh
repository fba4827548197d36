#!/bin/sh
# Everything that `make test` runs, stage by stage. A stage whose tools are missing is skipped and named; with
# MCP_TEST_ALL=1 a skipped stage is a failure. Logs: target/test-logs. The last line counts the stages.
. "$(dirname "$0")/common.sh"
cd "$ROOT"
LOGS="$BUILD/test-logs"
# The servers of the tests are on this machine; a proxy that the environment names is for fetching tools.
no_proxy="localhost,127.0.0.1,::1,${no_proxy:-${NO_PROXY:-}}"
NO_PROXY="$no_proxy"
export no_proxy NO_PROXY
mkdir -p "$LOGS"
passed=0 failed=0 skipped=0

missing() { grep -qx "$1" "$TOOLS/missing" 2>/dev/null; }

stage() { # name, tool that it needs or -, command...
    name=$1 needs=$2
    shift 2
    if [ "$needs" != - ] && missing "$needs"; then
        echo "SKIPPED $name: $needs is missing"
        skipped=$((skipped + 1))
        return
    fi
    begun=$(date +%s)
    if "$@" >"$LOGS/$name.log" 2>&1; then
        echo "ok      $name ($(($(date +%s) - begun)) s)"
        sed -n 's/^SKIPPED /        without /p' "$LOGS/$name.log"
        passed=$((passed + 1))
    else
        echo "FAILED  $name ($(($(date +%s) - begun)) s), the end of its log:"
        tail -n 60 "$LOGS/$name.log"
        failed=$((failed + 1))
    fi
}

rust_tests() {
    if cargo nextest --version >/dev/null 2>&1; then
        cargo nextest run --workspace --no-fail-fast && cargo test --workspace --doc
    else
        cargo test --workspace --no-fail-fast
    fi
}

python_tests() {
    MCPNATIVE_LIBRARY="$BUILD/debug/libmcpnative.so" MCP_TEST_SERVER="$BUILD/debug/mcp-test-server" \
        python3 -m unittest discover -s bindings/python/tests -t bindings/python
}

pascal_tests() {
    # The folder last: an assignment is seen by those after it.
    MCPNATIVE_LIBRARY="$BUILD/debug/libmcpnative.so" MCP_TEST_SERVER="$BUILD/debug/mcp-test-server" BUILD="$BUILD/pascal" \
        bindings/delphi/build.sh test
}

sh scripts/setup.sh
stage build - cargo build --workspace
stage format - cargo fmt --all --check
stage lints - cargo clippy --workspace --all-targets -- -D warnings
stage rust - rust_tests
stage python - python_tests
stage pascal fpc pascal_tests
stage readme - sh scripts/readme.sh
stage demo - sh scripts/demo.sh
stage conformance-server node22 sh scripts/conformance-server.sh
stage conformance-client node22 sh scripts/conformance.sh
stage real-servers - sh tests/real/run.sh
stage windows windows sh scripts/windows.sh
echo "stages: $passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && { [ "$skipped" = 0 ] || [ -z "${MCP_TEST_ALL:-}" ]; }
