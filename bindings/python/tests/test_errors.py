"""Exceptions and status codes, as far as they need no library."""

from __future__ import annotations

import pickle
import unittest

from . import support  # noqa: F401  (puts the package on the path)

import mcpnative
from mcpnative import errors
from mcpnative._time import Deadline, milliseconds
from mcpnative import _text


class Classes(unittest.TestCase):
    def test_every_failure_has_the_class_of_its_band(self) -> None:
        bands = {
            range(-19, 0): errors.UsageError,
            range(-39, -19): errors.TransportError,
            range(-59, -39): errors.ProtocolError,
            range(-79, -59): errors.CallError,
            range(-99, -79): errors.AuthorizationError,
            range(-119, -99): errors.TaskError,
            range(-139, -119): errors.InternalError,
        }
        for codes, band in bands.items():
            for code in codes:
                self.assertTrue(issubclass(errors.exception_class(code), band), code)

    def test_built_in_kin(self) -> None:
        self.assertTrue(issubclass(mcpnative.RequestTimeout, TimeoutError))
        self.assertTrue(issubclass(mcpnative.WaitTimeout, TimeoutError))
        self.assertTrue(issubclass(mcpnative.ArgumentError, ValueError))
        self.assertTrue(issubclass(mcpnative.ConnectError, ConnectionError))

    def test_text_and_pickle(self) -> None:
        error = mcpnative.RpcError(mcpnative.Status.E_RPC, "no such tool", rpc_code=-32602, rpc_data={"a": 1})
        self.assertEqual(str(error), "no such tool (MCP_E_RPC)")
        copy = pickle.loads(pickle.dumps(error))
        self.assertIs(type(copy), mcpnative.RpcError)
        self.assertEqual((copy.status, copy.rpc_code, copy.rpc_data), (-43, -32602, {"a": 1}))

    def test_a_code_that_is_not_known_yet(self) -> None:
        self.assertEqual(int(mcpnative.Status(-17)), -17)
        self.assertEqual(mcpnative.status_name(-17), "MCP_STATUS_-17")
        self.assertIs(errors.exception_class(-17), mcpnative.UsageError)


class Arguments(unittest.TestCase):
    def test_times(self) -> None:
        self.assertEqual(milliseconds(None), -1)
        self.assertEqual(milliseconds(0), 0)
        self.assertEqual(milliseconds(0.0001), 1)
        self.assertEqual(milliseconds(2), 2000)
        self.assertEqual(milliseconds(float("inf")), -1)
        for wrong in (-1, float("nan"), "1", True):
            with self.assertRaises(mcpnative.ArgumentError):
                milliseconds(wrong)  # type: ignore[arg-type]

    def test_deadline(self) -> None:
        self.assertEqual(Deadline(None).remaining_ms(), -1)
        self.assertEqual(Deadline(0).remaining_ms(), 0)
        self.assertLessEqual(Deadline(5).remaining_ms(), 5000)

    def test_what_json_cannot_say(self) -> None:
        cycle: dict = {}
        cycle["self"] = cycle
        for wrong in ({"a": object()}, {"a": float("nan")}, {"a": "\ud800"}, cycle):
            with self.assertRaises(mcpnative.ArgumentError) as raised:
                _text.encode_object(wrong, "arguments")
            self.assertIn("arguments", str(raised.exception))
        with self.assertRaises(mcpnative.ArgumentError):
            _text.encode_object([1], "arguments")  # type: ignore[arg-type]

    def test_names(self) -> None:
        for wrong in ("a\0b", "\ud800", 7):
            with self.assertRaises(mcpnative.ArgumentError):
                _text.name(wrong, "name")  # type: ignore[arg-type]


class Words(unittest.TestCase):
    def test_statuses_read_as_the_protocol_s_words(self) -> None:
        status = mcpnative.TaskStatus.WORKING
        self.assertEqual(status, "working")
        self.assertEqual(f"{status} {status!s:>9}", "working   working")

    def test_everything_public_is_there(self) -> None:
        for name in mcpnative.__all__:
            self.assertTrue(hasattr(mcpnative, name), name)


if __name__ == "__main__":
    unittest.main()
