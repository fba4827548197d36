"""Find the shared library, load it once, and refuse one of another ABI version.

The order: ``$MCPNATIVE_LIBRARY`` (then nothing else is looked at), the ``_lib`` folder of an installed
wheel, and, in a checkout, the newer one of cargo's release and debug builds.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import Any, List, Optional

from . import _abi

ENVIRONMENT = "MCPNATIVE_LIBRARY"

_library: Optional[Any] = None
_lock = threading.Lock()


def _reset_after_fork() -> None:
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)


def library_name(platform: str = sys.platform) -> str:
    """The file name of the library on a platform."""
    if platform == "win32" or platform == "cygwin":
        return "mcpnative.dll"
    if platform == "darwin":
        return "libmcpnative.dylib"
    return "libmcpnative.so"


def _checkout(package: Path) -> List[Path]:
    if len(package.parents) < 3:
        return []
    root = package.parents[2]
    if not (root / "Cargo.toml").is_file() or not (root / "bindings" / "python").is_dir():
        return []
    targets = [root / "target"]
    if os.environ.get("CARGO_TARGET_DIR"):
        targets.insert(0, root / os.environ["CARGO_TARGET_DIR"])
    for target in targets:
        built = [target / profile / library_name() for profile in ("release", "debug")]
        built = [path for path in built if path.is_file()]
        if built:
            return sorted(built, key=lambda path: path.stat().st_mtime, reverse=True)
    return []


def find(package: Optional[Path] = None) -> Path:
    """The path of the library to load; ImportError says where it was looked for."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        path = Path(chosen)
        if not path.is_file():
            raise ImportError(f"${ENVIRONMENT} names no file: {chosen}")
        return path.resolve()
    package = (package or Path(__file__).parent).resolve()
    inside = package / "_lib" / library_name()
    if inside.is_file():
        return inside
    for path in _checkout(package):
        return path
    raise ImportError(
        f"{library_name()} was not found: neither in {inside.parent} nor as a cargo build of a checkout; "
        f"build it with `cargo build --release` or set ${ENVIRONMENT}"
    )


def load(path: Path) -> Any:
    """Load one file as the library; ImportError when it is not one that this package can use."""
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"{path} could not be loaded: {error}") from error
    try:
        loaded.mcp_abi_version.restype = ctypes.c_int32
        loaded.mcp_abi_version.argtypes = ()
        version = loaded.mcp_abi_version()
        if version != _abi.ABI_VERSION:
            raise ImportError(f"{path} has ABI version {version}; this package needs {_abi.ABI_VERSION}")
        _abi.declare(loaded)
    except AttributeError as error:
        raise ImportError(f"{path} lacks a function that this package needs: {error}") from error
    return loaded


def library() -> Any:
    """The library of this process, loaded at the first use."""
    global _library
    if _library is None:
        with _lock:
            if _library is None:
                _library = load(find())
    return _library
