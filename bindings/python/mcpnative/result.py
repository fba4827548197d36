"""What a tool answered."""

from __future__ import annotations

import enum
import json
from typing import Any, List, Mapping, Optional

from . import _constants as c
from . import _text
from ._handle import Handle
from .errors import Status, ToolError


class BlockKind(enum.IntEnum):
    """The kinds of content blocks that the library tells apart."""

    OTHER = c.BLOCK_OTHER
    TEXT = c.BLOCK_TEXT
    IMAGE = c.BLOCK_IMAGE
    AUDIO = c.BLOCK_AUDIO
    RESOURCE_LINK = c.BLOCK_RESOURCE_LINK
    RESOURCE = c.BLOCK_RESOURCE


class Block:
    """One content block of a result. Read on demand; it keeps the result alive."""

    __slots__ = ("_library", "_handle", "_index", "kind")

    def __init__(self, library: Any, handle: Handle, index: int) -> None:
        self._library = library
        self._handle = handle
        self._index = index
        kind = library.mcp_result_block_kind(handle.key, index)
        self.kind = BlockKind(kind) if kind in BlockKind._value2member_map_ else BlockKind.OTHER

    @property
    def text(self) -> Optional[str]:
        """The text of a text block or of an embedded text resource, else None."""
        return _text.read(self._library.mcp_result_block_text, self._handle.key, self._index)

    @property
    def data(self) -> Optional[bytes]:
        """The decoded bytes of an image, a sound or a binary resource, else None."""
        return _text.read_bytes(self._library.mcp_result_block_bytes, self._handle.key, self._index)

    @property
    def json(self) -> Any:
        """The whole block as the server sent it."""
        return _text.read_json(self._library.mcp_result_block_json, self._handle.key, self._index)

    def __repr__(self) -> str:
        return f"<Block {self.kind.name.lower()}>"


class Result:
    """The immutable result of a tool call. Its parts are read from the library when they are asked for."""

    def __init__(self, library: Any, key: int) -> None:
        self._library = library
        self._handle = Handle(key, library.mcp_result_free)
        self._blocks: Optional[List[Block]] = None

    @property
    def text(self) -> str:
        """All text blocks, joined by line feeds; empty when there are none."""
        return _text.read(self._library.mcp_result_text, self._handle.key, c.RESULT_TEXT) or ""

    @property
    def structured(self) -> Any:
        """The structured content, or None."""
        return _text.read_json(self._library.mcp_result_text, self._handle.key, c.RESULT_STRUCTURED)

    @property
    def json_text(self) -> str:
        """The whole result as JSON text."""
        return _text.read(self._library.mcp_result_text, self._handle.key, c.RESULT_JSON) or "null"

    @property
    def json(self) -> Any:
        """The whole result as Python values."""
        return json.loads(self.json_text)

    @property
    def meta(self) -> Mapping[str, Any]:
        """The result's ``_meta``; empty when the server sent none."""
        whole = self.json
        meta = whole.get("_meta") if isinstance(whole, dict) else None
        return meta if isinstance(meta, dict) else {}

    @property
    def is_error(self) -> bool:
        """Whether the tool itself reports a failure. That is a result, not an exception."""
        return bool(self._library.mcp_result_is_error(self._handle.key) == 1)

    @property
    def blocks(self) -> List[Block]:
        """The content blocks in order."""
        if self._blocks is None:
            count = self._library.mcp_result_block_count(self._handle.key)
            self._blocks = [Block(self._library, self._handle, index) for index in range(max(0, count))]
        return list(self._blocks)

    def raise_for_error(self) -> "Result":
        """Raise :class:`ToolError` when ``is_error``, else give the result itself."""
        if self.is_error:
            error = ToolError(Status.OK, self.text or "the tool reports an error")
            error.result = self
            raise error
        return self

    def __repr__(self) -> str:
        text = self.text
        shown = text if len(text) <= 60 else text[:57] + "..."
        return f"<Result{' error' if self.is_error else ''} {shown!r}>"
