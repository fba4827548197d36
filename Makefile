# The user's door. `make demo` shows it at work, `make test` tries everything, `make conformance` has the
# official suite judge the client, `make bench` measures.
.PHONY: all demo test windows conformance crash bench install clean

all:
	cargo build --release --lib

demo:
	@sh scripts/demo.sh

test:
	@sh scripts/test.sh

# The library for Windows, and programs that use it, under wine.
windows:
	@sh scripts/setup.sh
	@sh scripts/windows.sh

# The official suite judges the client, at each revision: a table of scenarios.
conformance:
	@sh scripts/setup.sh
	cargo build --lib
	@sh scripts/conformance.sh

# Client processes are killed at random moments, ROUNDS times in each way; says what was lost, doubled or asked again.
# SEED=n repeats a run.
ROUNDS ?= 500
crash:
	ROUNDS=$(ROUNDS) cargo test --test crash -- --nocapture --test-threads 1 processes killed

bench:
	@sh benches/run.sh

# make install PREFIX=/usr/local
PREFIX ?= /usr/local
install:
	@sh scripts/install.sh "$(PREFIX)"

clean:
	cargo clean
