#!/bin/sh
# install.sh PREFIX: the header, both libraries, and the packages for pkg-config and CMake.
#   DESTDIR   put before PREFIX, for packagers
#   LIBDIR    below PREFIX: lib (the default), lib64, lib/x86_64-linux-gnu, ...
#   FROM      a folder with a library that is built already; without it, the release library is built
set -eu
ROOT=$(cd "$(dirname "$0")/.." && pwd)
[ $# = 1 ] || { echo "usage: install.sh PREFIX" >&2; exit 2; }
TO="${DESTDIR:-}$1"
LIBDIR="${LIBDIR:-lib}"
if [ -z "${FROM:-}" ]; then
    (cd "$ROOT" && cargo build --release --lib)
    FROM="${CARGO_TARGET_DIR:-$ROOT/target}/release"
fi
VERSION=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml" | head -n 1)
ABI=$(sed -n 's/^#define MCP_ABI_VERSION \([0-9]*\)$/\1/p' "$ROOT/include/mcpnative.h")

mkdir -p "$TO/include" "$TO/$LIBDIR/pkgconfig" "$TO/$LIBDIR/cmake/mcpnative"
install -m 644 "$ROOT/include/mcpnative.h" "$TO/include/mcpnative.h"
install -m 644 "$FROM/libmcpnative.a" "$TO/$LIBDIR/libmcpnative.a"
case $(uname -s) in
Darwin)
    install -m 755 "$FROM/libmcpnative.dylib" "$TO/$LIBDIR/libmcpnative.$ABI.dylib"
    ln -sf "libmcpnative.$ABI.dylib" "$TO/$LIBDIR/libmcpnative.dylib"
    ;;
*)
    install -m 755 "$FROM/libmcpnative.so" "$TO/$LIBDIR/libmcpnative.so.$VERSION"
    ln -sf "libmcpnative.so.$VERSION" "$TO/$LIBDIR/libmcpnative.so.$ABI"
    ln -sf "libmcpnative.so.$ABI" "$TO/$LIBDIR/libmcpnative.so"
    ;;
esac

# The way up from the package's folder to PREFIX, so that the whole can be moved.
up() { echo "$1" | sed 's|[^/][^/]*|..|g'; }
fill() { # template, its folder below PREFIX
    name=$(basename "$1" .in)
    sed -e "s|@VERSION@|$VERSION|g" -e "s|@ABI@|$ABI|g" -e "s|@LIBDIR@|$LIBDIR|g" -e "s|@UP@|$(up "$2")|g" \
        "$1" >"$TO/$2/$name"
}
fill "$ROOT/bindings/c/mcpnative.pc.in" "$LIBDIR/pkgconfig"
fill "$ROOT/bindings/c/mcpnative-config.cmake.in" "$LIBDIR/cmake/mcpnative"
fill "$ROOT/bindings/c/mcpnative-config-version.cmake.in" "$LIBDIR/cmake/mcpnative"
echo "mcpnative $VERSION is in $TO"
