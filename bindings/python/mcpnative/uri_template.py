"""URI templates, as ``resources/templates/list`` has them."""

from __future__ import annotations

from typing import Any, Mapping, Optional

from . import _text
from ._handle import out_present
from ._load import library as load_library


def expand_uri_template(template: str, variables: Optional[Mapping[str, Any]] = None) -> str:
    """The URI that a template (RFC 6570) makes of these variables. ArgumentError says what is wrong with them.

    Variables are text, numbers and booleans, and lists and mappings of them; what is absent or None is undefined.
    """
    library = load_library()
    data = _text.encode_object(variables, "variables")
    name = _text.name(template, "template")
    key = out_present(library, library.mcp_uri_template_expand, name, data, _text.length(data))
    try:
        return _text.read(library.mcp_text_get, key) or ""
    finally:
        library.mcp_text_free(key)
