"""What a server said of itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional

from . import _constants as c
from . import _text


@dataclass(frozen=True)
class Server:
    """The server of an open client."""

    #: ``modern`` (2026-07-28 and later) or ``legacy``.
    era: str
    #: The protocol version in use.
    version: str
    info: Mapping[str, Any]
    instructions: Optional[str]
    capabilities: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name the server gives itself."""
        return str(self.info.get("name", ""))


def take_server(library: Any, key: int) -> Server:
    """Read a server handle and free it."""
    try:
        get = library.mcp_server_text
        return Server(
            era=_text.read(get, key, c.SERVER_ERA) or "",
            version=_text.read(get, key, c.SERVER_VERSION) or "",
            info=_text.read_json(get, key, c.SERVER_INFO) or {},
            instructions=_text.read(get, key, c.SERVER_INSTRUCTIONS),
            capabilities=_text.read_json(get, key, c.SERVER_CAPABILITIES) or {},
        )
    finally:
        library.mcp_server_free(key)
