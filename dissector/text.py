"""The only door through which text from a capture reaches a terminal or a line of output.

Everything that could move the cursor, change colours or reorder what is read comes out as a visible
escape. The result holds printable characters only, each of which a terminal shows as itself.
"""

from __future__ import annotations

import re

_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\\\\]"
)
"""Controls (C0, C1), bidi marks and isolates, invisible fillers, surrogates; and the backslash, so
that an escape can be told from the same characters in the data."""

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    if char in _NAMED:
        return _NAMED[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: a byte that did not decode
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def visible(text: str, limit: int = 0) -> str:
    """`text` with every unsafe character as an escape; cut to `limit` characters with … when > 0.

    Cutting comes first, so a huge value costs no more than what is shown of it.
    """
    if limit and len(text) > limit:
        return _UNSAFE.sub(_escape, text[: limit - 1]) + "…"
    return _UNSAFE.sub(_escape, text)


def is_visible(text: str) -> bool:
    """Whether `visible` leaves `text` as it is."""
    return _UNSAFE.search(text) is None


_ASCII = {0xA5: "\\", 0x203E: "~"}
"""What Python's codec makes of two ASCII letters in Shift-JIS-2004, which to servers are these."""


def decode_text(data: bytes, encoding: str = "utf-8") -> str:
    """Bytes of a capture as str in `encoding`; bytes that do not decode become surrogate escapes."""
    try:
        text = data.decode(encoding, "surrogateescape")
        return text.translate(_ASCII) if encoding == "shift_jis_2004" else text
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "surrogateescape")
