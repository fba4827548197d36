"""The declarations of the package against the committed header: nothing missing, nothing invented, same types."""

from __future__ import annotations

import ctypes
import os
import re
import unittest
from pathlib import Path
from typing import Dict, List, Tuple

from .support import ROOT, run_program

from mcpnative import _abi, _constants, _load, errors

HEADER = Path(os.environ.get("MCPNATIVE_HEADER") or ROOT / "include" / "mcpnative.h")

SCALARS = {
    "void": None,
    "int32_t": ctypes.c_int32,
    "mcp_status": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "size_t": ctypes.c_size_t,
    "mcp_event_fn": _abi.event_fn,
    "mcp_destroy_fn": _abi.destroy_fn,
    "mcp_log_fn": _abi.log_fn,
    "mcp_stream_write_fn": _abi.stream_write_fn,
    "mcp_stream_close_fn": _abi.stream_close_fn,
}


def header_text() -> str:
    text = HEADER.read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"//[^\n]*", " ", text)
    return text


def functions(text: str) -> Dict[str, Tuple[str, List[str]]]:
    """Every exported function: its result type and the types of its parameters."""
    text = re.sub(r"^\s*#[^\n]*(\\\n[^\n]*)*", "", text, flags=re.M)
    text = text.replace("MCP_API", " ")
    found = {}
    pattern = re.compile(r"([A-Za-z_][\w \t\n]*?[\s*]+)(mcp_\w+)\s*\(([^()]*)\)\s*(?:[A-Z_]+(?:\([^)]*\))?\s*)*;")
    for match in pattern.finditer(text):
        result, name, parameters = match.groups()
        if result.lstrip().startswith("typedef"):
            continue
        listed = [] if parameters.strip() in ("", "void") else parameters.split(",")
        found[name] = (" ".join(result.split()), [" ".join(one.split()) for one in listed])
    return found


def type_of(declaration: str) -> str:
    """A parameter without its name, without const, struct, and spaces around stars."""
    text = re.sub(r"\b(const|struct|enum)\b", " ", declaration)
    words = re.findall(r"\w+|\*", text)
    stars = words.count("*")
    names = [word for word in words if word != "*"]
    base = names[0] if names else ""
    return base + "*" * stars


def ctype_of(declaration: str, is_result: bool) -> object:
    kind = type_of(declaration)
    if kind in SCALARS:
        return SCALARS[kind]
    if kind == "char*":
        return ("char", is_result)
    if kind in ("uint8_t*", "void*"):
        return ctypes.c_void_p
    if re.fullmatch(r"mcp_\w+\*", kind):
        return ctypes.c_void_p
    if re.fullmatch(r"mcp_\w+\*\*", kind):
        return ctypes.POINTER(ctypes.c_void_p)
    pointed = {
        "size_t*": ctypes.c_size_t,
        "int32_t*": ctypes.c_int32,
        "int64_t*": ctypes.c_int64,
    }
    if kind in pointed:
        return ctypes.POINTER(pointed[kind])
    raise AssertionError(f"a type that the test does not know: {declaration!r}")


class Functions(unittest.TestCase):
    def test_every_function_is_declared_and_none_invented(self) -> None:
        self.assertEqual(sorted(functions(header_text())), sorted(_abi.FUNCTIONS))

    def test_types(self) -> None:
        for name, (result, parameters) in functions(header_text()).items():
            with self.subTest(name):
                restype, argtypes = _abi.FUNCTIONS[name]
                self.assertEqual(len(parameters), len(argtypes))
                for declared, used in zip(parameters, argtypes):
                    wanted = ctype_of(declared, False)
                    if isinstance(wanted, tuple):
                        wanted = ctypes.c_char_p
                    self.assertIs(used, wanted, declared)
                wanted = ctype_of(result, True)
                if isinstance(wanted, tuple):
                    # Text with a length is read by address, static text is a C string.
                    lent = any(type_of(one) == "size_t*" for one in parameters)
                    wanted = ctypes.c_void_p if lent else ctypes.c_char_p
                self.assertIs(restype, wanted, result)

    def test_the_library_has_them_all(self) -> None:
        library = _load.library()
        for name in _abi.FUNCTIONS:
            self.assertIsNotNone(getattr(library, name))


class Misuse(unittest.TestCase):
    def test_br48_nothing_and_nonsense(self) -> None:
        """Every function with no handle, with one that never was, and with nothing for what it points to."""
        program = """
            import ctypes
            from mcpnative import _abi, _load
            lib = _load.library()
            for name, (result, arguments) in _abi.FUNCTIONS.items():
                for number in (0, 1, -1, 0x123456789):
                    given = []
                    for kind in arguments:
                        if kind is ctypes.c_void_p:
                            given.append(number & (2**64 - 1) or None)
                        elif kind in (ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t):
                            given.append(0)
                        else:
                            given.append(kind() if issubclass(kind, ctypes._CFuncPtr) else None)
                    answer = getattr(lib, name)(*given)
                    if result is ctypes.c_int32 and _abi.handle in arguments and "_free" not in name:
                        # The log hook alone takes no queue for an answer.
                        assert answer < 0 or name == "mcp_log_on", (name, number, answer)
                    elif result is ctypes.c_void_p:
                        assert answer is None, (name, number, answer)
            print("alive")
        """
        done = run_program(program)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "alive\n", ""))


def constants(text: str) -> Dict[str, int]:
    """Every constant, whether the header writes it as an enumerator or as a macro."""
    found = {}
    for name, value in re.findall(r"\b(MCP_[A-Z0-9_]+)\s*=\s*(-?\d+)", text):
        found[name] = int(value)
    for name, value in re.findall(r"#define\s+(MCP_[A-Z0-9_]+)\s+\(?(-?\d+)\)?\s*$", text, flags=re.M):
        found[name] = int(value)
    return found


class Constants(unittest.TestCase):
    def setUp(self) -> None:
        self.header = constants(header_text())

    def test_abi_version(self) -> None:
        self.assertEqual(self.header["MCP_ABI_VERSION"], _abi.ABI_VERSION)

    def test_status_codes(self) -> None:
        listed = {
            name: value
            for name, value in self.header.items()
            if name == "MCP_OK" or name.startswith(("MCP_S_", "MCP_E_"))
        }
        self.assertEqual(listed, {name: value for value, name in errors.STATUS_NAMES.items()})

    def test_fields_and_kinds(self) -> None:
        groups = (
            "LOG", "ERROR", "STATE", "EVENT", "CLIENT", "SERVER", "RESULT", "BLOCK", "SNAPSHOT", "TASK", "REASON", "INPUT",
            "SUBSCRIPTION", "WAIT",
        )
        ours = {f"MCP_{name}": value for name, value in vars(_constants).items() if name.isupper()}
        listed = {
            name: value
            for name, value in self.header.items()
            if name.split("_")[1] in groups
        }
        self.assertEqual(listed, ours)

    def test_status_names_are_the_library_s(self) -> None:
        library = _load.library()
        for value, name in errors.STATUS_NAMES.items():
            self.assertEqual(library.mcp_status_name(value).decode("ascii"), name)


if __name__ == "__main__":
    unittest.main()
