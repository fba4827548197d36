#!/bin/sh
# Builds all, starts the bundled server, runs the demo from C, ends the server.
. "$(dirname "$0")/common.sh"
cd "$ROOT"
for tool in cargo gcc; do
    have "$tool" || { echo "make demo needs $tool (Debian: apt-get install rustup gcc make)" >&2; exit 1; }
done
echo "Building (the first time takes a minute or two) ..."
cargo build --quiet --workspace
mkdir -p "$BUILD/demo"
gcc -Wall -Wextra -O1 -Iinclude bindings/c/examples/demo.c -o "$BUILD/demo/demo" "$BUILD/debug/libmcpnative.so" \
    -Wl,-rpath,"$BUILD/demo"
# The program asks for the library by its soname.
ln -sf ../debug/libmcpnative.so "$BUILD/demo/libmcpnative.so.1"
start_server
"$BUILD/demo/demo" "$URL"
