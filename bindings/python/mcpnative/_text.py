"""Text and JSON on their way across the border, in both directions."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Mapping, Optional, Union

from .errors import ArgumentError, Status

Json = Any


def encode(value: Json, what: str) -> bytes:
    """JSON text in UTF-8; ArgumentError names what could not be written."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentError(Status.E_ARGUMENT, f"{what} cannot be written as JSON: {error}") from error


def encode_object(value: Optional[Mapping[str, Any]], what: str) -> Optional[bytes]:
    """A JSON object, or None for none."""
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ArgumentError(
            Status.E_ARGUMENT, f"{what} must be a mapping (a JSON object), not {type(value).__name__}"
        )
    return encode(dict(value), what)


def length(data: Optional[bytes]) -> int:
    return 0 if data is None else len(data)


def name(value: str, what: str) -> bytes:
    """An identifier: text without a NUL character."""
    if not isinstance(value, str):
        raise ArgumentError(Status.E_ARGUMENT, f"{what} must be a str, not {type(value).__name__}")
    if "\0" in value:
        raise ArgumentError(Status.E_ARGUMENT, f"{what} must not hold a NUL character")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(Status.E_UTF8, f"{what} is no valid text: {error}") from error


def read_bytes(getter: Callable[..., Optional[int]], *arguments: Union[int, None]) -> Optional[bytes]:
    """The bytes that a getter lends, copied; None when it has none."""
    size = ctypes.c_size_t()
    address = getter(*arguments, ctypes.byref(size))
    if address is None:
        return None
    return ctypes.string_at(address, size.value)


def read(getter: Callable[..., Optional[int]], *arguments: Union[int, None]) -> Optional[str]:
    """The text that a getter lends, copied; None when it has none."""
    data = read_bytes(getter, *arguments)
    return None if data is None else data.decode("utf-8")


def read_json(getter: Callable[..., Optional[int]], *arguments: Union[int, None]) -> Json:
    """The JSON value that a getter lends; None when it has none."""
    data = read_bytes(getter, *arguments)
    return None if data is None or not data else json.loads(data)
