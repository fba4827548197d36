# The user's door. `make demo` shows it at work, `make test` tries everything, `make conformance` has the
# official suite judge the client, `make bench` measures.
.PHONY: all demo test conformance bench install clean

all:
	cargo build --release --lib

demo:
	@sh scripts/demo.sh

test:
	@sh scripts/test.sh

# The official suite judges the client, at each revision: a table of scenarios.
conformance:
	@sh scripts/setup.sh
	cargo build --lib
	@sh scripts/conformance.sh

bench:
	@sh benches/run.sh

# make install PREFIX=/usr/local
PREFIX ?= /usr/local
install:
	@sh scripts/install.sh "$(PREFIX)"

clean:
	cargo clean
