# The user's door. `make demo` shows it at work, `make test` tries everything, `make bench` measures.
.PHONY: all demo test bench install clean

all:
	cargo build --release --lib

demo:
	@sh scripts/demo.sh

test:
	@sh scripts/test.sh

bench:
	@sh benches/run.sh

# make install PREFIX=/usr/local
PREFIX ?= /usr/local
install:
	@sh scripts/install.sh "$(PREFIX)"

clean:
	cargo clean
