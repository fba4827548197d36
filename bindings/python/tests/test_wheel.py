"""The wheel, as a user gets it: built from the checkout, installed without a network, run far from the checkout."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

from .support import PACKAGE_ROOT, PATIENCE, ServerTest

from mcpnative import _load

BUILD_PATIENCE = 1800.0

PROGRAM = """
import pathlib, sys, mcpnative
from mcpnative import _load
found = _load.find()
assert found.parent == pathlib.Path(mcpnative.__file__).resolve().parent / "_lib", found
with mcpnative.Client(url=sys.argv[1]) as client:
    print(client.call_tool("slow_job", {"steps": 3, "step_ms": 20}).text)
"""


@unittest.skipUnless(importlib.util.find_spec("pip"), "this Python has no pip")
class Wheel(ServerTest):
    def test_build_install_run(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        place = Path(folder.name)
        self.run_to_end(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", str(place / "wheels"), str(PACKAGE_ROOT)],
            dict(os.environ),
            BUILD_PATIENCE,
        )
        wheels = list((place / "wheels").iterdir())
        self.assertEqual(len(wheels), 1)
        self.assertRegex(wheels[0].name, re.compile(r"^mcpnative-[\d.]+-py3-none-(?!any)\w+\.whl$"))
        with zipfile.ZipFile(wheels[0]) as archive:
            names = archive.namelist()
        self.assertIn(f"mcpnative/_lib/{_load.library_name()}", names)
        self.assertIn("mcpnative/py.typed", names)
        self.assertFalse([name for name in names if name.startswith("tests") or "hatch_build" in name])

        venv.EnvBuilder().create(place / "venv")
        python = place / "venv" / ("Scripts" if os.name == "nt" else "bin") / ("python.exe" if os.name == "nt" else "python")
        bare = {
            name: value
            for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "PYTHONHOME", "MCPNATIVE_LIBRARY", "VIRTUAL_ENV")
        }
        self.run_to_end(
            [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index", str(wheels[0])],
            bare,
            PATIENCE * 4,
            place,
        )
        output = self.run_to_end([str(python), "-c", PROGRAM, self.url], bare, PATIENCE, place)
        self.assertEqual(output.strip(), "done")

    def run_to_end(self, command: list, env: dict, patience: float, place: "Path | None" = None) -> str:
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=place,
            universal_newlines=True,
            timeout=patience,
        )
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}\n{done.stderr}")
        return done.stdout


if __name__ == "__main__":
    unittest.main()
