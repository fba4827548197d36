"""Puts the native library inside the wheel and gives the wheel the name of its platform.

``$MCPNATIVE_LIBRARY`` names a library that is built already; otherwise cargo builds the release library of the
checkout (and does nothing when it is up to date). ``$MCPNATIVE_WHEEL_PLATFORM`` overrides the platform tag, for
a library that was built to run on more systems than this one, for example ``manylinux_2_17_x86_64``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Dict

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Runs when a wheel is made."""

    def initialize(self, version: str, build_data: Dict[str, Any]) -> None:
        if version == "editable":
            return  # it runs from the checkout, where the package finds cargo's builds
        library = find_or_build(Path(self.root))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag()}"
        build_data["force_include"][str(library)] = f"mcpnative/_lib/{library_name()}"


def library_name() -> str:
    if sys.platform in ("win32", "cygwin"):
        return "mcpnative.dll"
    return "libmcpnative.dylib" if sys.platform == "darwin" else "libmcpnative.so"


def platform_tag() -> str:
    chosen = os.environ.get("MCPNATIVE_WHEEL_PLATFORM")
    return chosen or sysconfig.get_platform().replace("-", "_").replace(".", "_")


def find_or_build(package: Path) -> Path:
    chosen = os.environ.get("MCPNATIVE_LIBRARY")
    if chosen:
        library = Path(chosen).resolve()
    else:
        root = package.resolve().parents[1]
        if not (root / "Cargo.toml").is_file():
            raise RuntimeError("not inside a checkout: set MCPNATIVE_LIBRARY to a built library")
        cargo = os.environ.get("CARGO", "cargo")
        subprocess.run(
            [cargo, "build", "--release", "--package", "mcpnative", "--lib"],
            cwd=root,
            check=True,
            stdout=sys.stderr,
        )
        described = subprocess.run(
            [cargo, "metadata", "--format-version", "1", "--no-deps"],
            cwd=root,
            check=True,
            stdout=subprocess.PIPE,
        )
        target = Path(json.loads(described.stdout)["target_directory"])
        if os.environ.get("CARGO_BUILD_TARGET"):
            target = target / os.environ["CARGO_BUILD_TARGET"]
        library = target / "release" / library_name()
    if not library.is_file():
        raise RuntimeError(f"there is no library at {library}")
    return library
