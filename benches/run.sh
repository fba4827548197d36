#!/bin/sh
# Measures what tool calls cost through the release library, beside bare sockets and pipes that carry the same bytes.
#   run.sh            build, measure, print a table
#   run.sh write      and put the table into docs/benchmarks.md
# CALLS and ROUNDS say how much (5000, 9), THREADS how many call at once (64), CORE which core client and server share where
# one call follows another (the last one), QUICK=1 that tasks are watched for a few seconds only, CARGO_TARGET_DIR where the build goes, NO_BUILD=1 that it is there already.
set -eu
top=$(cd "$(dirname "$0")/.." && pwd)
target=${CARGO_TARGET_DIR:-$top/target}
mode=${1:-}
calls=${CALLS:-5000}
rounds=${ROUNDS:-9}
threads=${THREADS:-64}
core=${CORE:-$(($(nproc) - 1))}
short=20
long=60
[ -z "${QUICK:-}" ] || { short=5; long=11; }
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
for name in call_cost pipe_cost many_calls first_answer many_tasks; do
	# shellcheck disable=SC2086
	${CC:-cc} -std=gnu11 -O2 -Wall -Wextra "-I$top/include" "$top/benches/$name.c" -o "$target/benches/$name" \
		"$target/benches/libmcpnative.so.1" "-Wl,-rpath,$target/benches" -lpthread
done
cd "$target/benches"

serve() { # name, how it is pinned, arguments: starts a server, leaves its address in $address
	name=$1
	how=$2
	shift 2
	$how "$target/release/mcp-test-server" --max-seconds 900 "$@" >"$work/$name" &
	servers="$servers $!"
	tries=0
	until [ -s "$work/$name" ]; do
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || { echo "the server does not start" >&2; exit 1; }
		sleep 0.1
	done
	address=$(sed 's/.* //' "$work/$name")
}

serve http "$pin" --fast
url=$address
sizes=$($pin timeout 60 ./call_cost sizes "$url")
question=${sizes% *}
answer=${sizes#* }
serve bare "$pin" --raw-echo "$question,$answer"
bare=$address
# On all cores: here the servers' share of the work counts, too.
serve wide "" --fast
wide=$address
serve plain "" --raw-echo "$question,$answer"
plain=$address

$pin timeout 600 ./call_cost run "$url" "$bare" "$question" "$answer" "$calls" "$rounds" >"$work/figures"
$pin timeout 600 ./pipe_cost run "$calls" "$rounds" >"$work/pipes"
timeout 600 ./many_calls "$wide" "$plain" "$question" "$answer" "$threads" $((calls * 10)) "$rounds" >"$work/many"
timeout 600 ./first_answer run "$wide" "$plain" "$question" "$answer" 51 >"$work/first"

watch() { # tasks, pollIntervalMs, ms after which they end (0: never), seconds to watch, poll or push: a line of the figures
	serve "tasks-$1-$3-$5" "" --fast
	timeout 300 ./many_tasks "$address" "$1" "$2" "$3" "$4" "$5" >"$work/watched"
	printf '%s\t%s\t%s\t%s\t%s' "$1" "$2" "$3" "$4" "$5"
	for of in cpu_s memory_kib threads; do
		printf '\t%s' "$(sed -n "s/^$of	//p" "$work/watched")"
	done
	for of in '"polls":' '"early":' '"late_ms":{[^}]*"p99":'; do
		printf '\t%s' "$(sed -n "s/^server	.*$of\([0-9.]*\).*/\1/p" "$work/watched")"
	done
	sed -n 's/^known_after_ms//p' "$work/watched" | tr -d '\n'
	echo
}
{
	watch 1000 1000 0 "$short" poll
	watch 10000 5000 0 "$long" poll
	watch 10000 5000 0 "$long" push
	watch 1000 1000 5000 12 poll
	watch 1000 1000 5000 12 push
} >"$work/tasks"
if [ -z "${NO_BUILD:-}" ]; then
	(cd "$top" && cargo test -q --release --lib cost_of_a_poll -- --ignored --nocapture) | grep '^simulation' >"$work/simulation"
fi

round_trips() { # file, what is bare: rows of a table
	awk -F '\t' -v name="$2" '
		$1 ~ /bare$/ { bare = $2; p99 = $3; cpu = $4; which = $1 ~ /^least/ ? "quietest round: " : ""
			if ($1 !~ /^round/) printf "| %s%s | %.1f us | %.1f us | %.1f us |\n", which, name, $2, $3, $4 }
		$1 ~ /call$/ && $1 !~ /^round/ {
			printf "| %sthrough the C ABI | %.1f us | %.1f us | %.1f us |\n", which, $2, $3, $4
			printf "| %sratio | %.2f | %.2f | %.2f |\n", which, $2 / bare, $3 / p99, $4 / cpu
		}' "$1"
}

cpu=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo 2>/dev/null | head -n 1)
{
	echo "| sequential \`tools/call\` of \`echo\`, HTTP | median | p99 | CPU time of the client |"
	echo "| --- | ---: | ---: | ---: |"
	round_trips "$work/figures" "bare socket"
	echo
	echo "| the same, a child process (stdio) | median | p99 | CPU time of the client |"
	echo "| --- | ---: | ---: | ---: |"
	round_trips "$work/pipes" "bare pipes"
	echo
	echo "| $threads threads at once, HTTP | calls a second | CPU time of the client, a call |"
	echo "| --- | ---: | ---: |"
	awk -F '\t' '$1 == "bare" { printf "| bare sockets | %d | %.1f us |\n", $2, $3; bare = $2; cpu = $3 }
		$1 == "call" { printf "| through the C ABI | %d | %.1f us |\n| ratio | %.2f | %.2f |\n", $2, $3, $2 / bare, $3 / cpu }' "$work/many"
	echo
	echo "| process start to the first answer, HTTP | median |"
	echo "| --- | ---: |"
	awk -F '\t' '{ printf "| %s | %.2f ms |\n", $1 == "bare" ? "bare socket" : "through the C ABI (load, open, discover, call)", $2 / 1000 }' "$work/first"
	echo
	echo "| outstanding tasks, HTTP | watched | polls | early | p99 late | CPU time | memory | threads |"
	echo "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
	# A task that is pushed is polled later than its interval on purpose.
	awk -F '\t' '$3 == 0 { printf "| %d tasks, pollIntervalMs %d%s | %d s | %d | %d | %s | %.2f s | %.1f MB | %d |\n",
		$1, $2, $5 == "push" ? ", pushed" : "", $4, $9, $10, $5 == "push" ? "" : sprintf("%.1f ms", $11), $6, $7 / 1024, $8
		if ($5 == "poll") polls = $9; else printf "| polls with push, of those without | | %.1f %% | | | | | |\n", 100 * $9 / polls }' "$work/tasks"
	echo
	echo "| from the end of a task to its event | median | p99 |"
	echo "| --- | ---: | ---: |"
	awk -F '\t' '$3 > 0 { printf "| %d tasks, pollIntervalMs %d%s | %.1f ms | %.1f ms |\n", $1, $2, $5 == "push" ? ", pushed" : "", $12, $13 }' "$work/tasks"
	if [ -s "$work/simulation" ]; then
		echo
		echo "| simulation with a virtual clock | polls | real time for one poll | memory for one task |"
		echo "| --- | ---: | ---: | ---: |"
		awk -F '\t' '{ printf "| %d tasks | %d | %.2f us | %.1f KB |\n", $2, $3, $4, $5 }' "$work/simulation"
	fi
	echo
	echo "$rounds rounds of $calls calls each ($((calls * 10)) for the threads), in turn; medians of the rounds. HTTP: request $question bytes, answer $answer bytes;"
	echo "stdio: $(awk -F '\t' '$1 == "sizes" { print "line in " $2 " bytes, line out " $3 " bytes" }' "$work/pipes"). Sequential: client and server on ${pin:+one core of }${cpu:-$(uname -m)};"
	echo "the others on all $(nproc) cores, the servers' share included. $(uname -s) $(uname -r); $(rustc --version | cut -d' ' -f1,2)."
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
