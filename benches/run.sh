#!/bin/sh
# Measures what a tool call costs through the release library, beside a bare socket that carries the same bytes.
#   run.sh            build, measure, print a table
#   run.sh write      and put the table into docs/benchmarks.md
# CALLS and ROUNDS say how much (5000, 9), CORE which core client and server share (the last one), CARGO_TARGET_DIR where
# the build goes, NO_BUILD=1 that it is there already.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}
mode=${1:-}
calls=${CALLS:-5000}
rounds=${ROUNDS:-9}
core=${CORE:-$(($(nproc) - 1))}
work=$(mktemp -d)
servers=
tidy() {
	for server in $servers; do
		kill "$server" 2>/dev/null || :
		wait "$server" 2>/dev/null || :
	done
	rm -rf "$work"
}
trap tidy EXIT
trap 'exit 130' INT TERM

pin=
command -v taskset >/dev/null && pin="taskset -c $core"
[ -n "$pin" ] || echo "no taskset: nothing is pinned, and the machine's wake-ups are measured too" >&2

[ -n "${NO_BUILD:-}" ] || (cd "$top" && cargo build --release --workspace)
mkdir -p "$target/benches"
ln -sf "$target/release/libmcpnative.so" "$target/benches/libmcpnative.so.1"
bench=$target/benches/call_cost
# shellcheck disable=SC2086
${CC:-cc} -std=gnu11 -O2 -Wall -Wextra "-I$top/include" "$top/benches/call_cost.c" -o "$bench" \
	"$target/benches/libmcpnative.so.1" "-Wl,-rpath,$target/benches" -lpthread

serve() { # name, arguments: starts a server, leaves its address in $address
	name=$1
	shift
	$pin "$target/release/mcp-test-server" --max-seconds 900 "$@" >"$work/$name" &
	servers="$servers $!"
	tries=0
	until [ -s "$work/$name" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo "the server does not start" >&2; exit 1; }
		sleep 0.1
	done
	address=$(sed 's/.* //' "$work/$name")
}

serve http --fast
url=$address
sizes=$($pin timeout 60 "$bench" sizes "$url")
question=${sizes% *}
answer=${sizes#* }
serve bare --raw-echo "$question,$answer"
$pin timeout 600 "$bench" run "$url" "$address" "$question" "$answer" "$calls" "$rounds" >"$work/figures"

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
{
	echo "| sequential \`tools/call\` of \`echo\` | median | p99 | CPU time of the client |"
	echo "| --- | ---: | ---: | ---: |"
	awk -F '\t' '
		$1 ~ /bare$/ { bare = $2; p99 = $3; cpu = $4; which = $1 ~ /^least/ ? "quietest round: " : ""
			if ($1 !~ /^round/) printf "| %sbare socket | %.1f us | %.1f us | %.1f us |\n", which, $2, $3, $4 }
		$1 ~ /call$/ && $1 !~ /^round/ {
			printf "| %sthrough the C ABI | %.1f us | %.1f us | %.1f us |\n", which, $2, $3, $4
			printf "| %sratio | %.2f | %.2f | %.2f |\n", which, $2 / bare, $3 / p99, $4 / cpu
		}' "$work/figures"
	echo
	echo "$rounds rounds of $calls calls each, in turn; medians of the rounds. Request $question bytes, answer $answer bytes."
	echo "Client and server on ${pin:+one core of }${cpu:-$(uname -m)}, $(nproc) cores; $(uname -s) $(uname -r); $(rustc --version | cut -d' ' -f1,2)."
} >"$work/table"
cat "$work/table"
[ -z "${SHOW_ROUNDS:-}" ] || grep '^round' "$work/figures"

if [ "$mode" = write ] || [ "${WRITE:-}" = 1 ]; then
	page=$top/docs/benchmarks.md
	awk -v table="$work/table" '
		/<!-- table -->/ { print; print ""; while ((getline line < table) > 0) print line; print ""; skip = 1; next }
		/<!-- end of table -->/ { skip = 0 }
		!skip' "$page" >"$work/page"
	cp "$work/page" "$page"
fi
