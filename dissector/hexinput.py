"""Bytes as people paste them: hex in many dresses, Python literals, base64, psql's rows."""

from __future__ import annotations

import re

from .errors import UsageProblem

_PLAIN = re.compile(r"^(?:\\\\?x|0x)?([0-9A-Fa-f\s:,-]*)$")


def read_bytes(text: str) -> list[bytes]:
    """The byte strings in `text`, one for each message. Raises UsageProblem that says where it fails."""
    plain = _PLAIN.match(text.strip())
    if plain is None:
        at = next((i for i, c in enumerate(text) if c not in "0123456789abcdefABCDEF \n\t"), 0)
        raise UsageProblem(f"not a hex digit at character {at + 1}: {text[at : at + 1]!r}")
    digits = re.sub(r"[\s:,-]", "", plain[1])
    if len(digits) % 2:
        raise UsageProblem(f"an odd number of hex digits ({len(digits)}): the last byte is half")
    return [bytes.fromhex(digits)] if digits else []
