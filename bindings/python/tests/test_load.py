"""Finding the library."""

from __future__ import annotations

import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from . import support  # noqa: F401  (puts the package on the path)

from mcpnative import _load


class Find(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        self.package = self.root / "bindings" / "python" / "mcpnative"
        self.package.mkdir(parents=True)
        patched = mock.patch.dict(os.environ)
        patched.start()
        self.addCleanup(patched.stop)
        os.environ.pop(_load.ENVIRONMENT, None)
        os.environ.pop("CARGO_TARGET_DIR", None)

    def make(self, *parts: str, age: int = 0) -> Path:
        path = self.root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
        os.utime(path, (1_000_000 - age, 1_000_000 - age))
        return path

    def test_nowhere(self) -> None:
        with self.assertRaisesRegex(ImportError, "was not found"):
            _load.find(self.package)

    def test_the_newer_build_of_a_checkout(self) -> None:
        self.make("Cargo.toml")
        debug = self.make("target", "debug", _load.library_name(), age=5)
        self.assertEqual(_load.find(self.package), debug)
        release = self.make("target", "release", _load.library_name(), age=9)
        self.assertEqual(_load.find(self.package), debug)
        os.utime(release, (1_000_001, 1_000_001))
        self.assertEqual(_load.find(self.package), release)

    def test_inside_the_package_comes_before_a_checkout(self) -> None:
        self.make("Cargo.toml")
        self.make("target", "debug", _load.library_name())
        inside = self.make("bindings", "python", "mcpnative", "_lib", _load.library_name())
        self.assertEqual(_load.find(self.package), inside)

    def test_the_environment_comes_first_and_alone(self) -> None:
        inside = self.make("bindings", "python", "mcpnative", "_lib", _load.library_name())
        other = self.make("elsewhere", "x.so")
        os.environ[_load.ENVIRONMENT] = str(other)
        self.assertEqual(_load.find(self.package), other)
        os.environ[_load.ENVIRONMENT] = str(self.root / "absent.so")
        with self.assertRaisesRegex(ImportError, "names no file"):
            _load.find(self.package)
        os.environ[_load.ENVIRONMENT] = ""
        self.assertEqual(_load.find(self.package), inside)

    def test_what_is_no_library(self) -> None:
        path = self.make("x.so")
        with self.assertRaisesRegex(ImportError, "could not be loaded"):
            _load.load(path)

    def test_names(self) -> None:
        self.assertEqual(_load.library_name("linux"), "libmcpnative.so")
        self.assertEqual(_load.library_name("darwin"), "libmcpnative.dylib")
        self.assertEqual(_load.library_name("win32"), "mcpnative.dll")


if __name__ == "__main__":
    unittest.main()
