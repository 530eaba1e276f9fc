"""Texts that whatever a regular expression finds has in it: read off the expression, without trying it.

Only what is sure is told. Where an expression holds anything that is not known here (flags, lookaround,
back references, sets within sets, errors that are allowed), nothing is.
"""

from __future__ import annotations

import re

_SINGLE = frozenset("dDwWsSbBAZ")
"""Escapes of one letter that stand for no character of their own."""

_QUANTIFIER = re.compile(r"(?:[*?]|\{\d*,?\d*\})[?+]?|\+[?+]?", re.ASCII)

_FOLDED = re.compile(r"[iks]+", re.IGNORECASE)
"""Letters that are, without regard to case, also others than those of ASCII (the dotless i, the sign of
Kelvin, the long s)."""


def literals(source: str, ignore_case: bool = False) -> list[str] | None:
    """Texts of which one is in all that `source` finds, the longest that is sure for each of its
    alternatives; None where an alternative has none. ignore_case: their letters are in either case."""
    found: list[str] = []
    for runs in _alternatives(source) or [[]]:
        if ignore_case:
            runs = [part for run in runs for part in _FOLDED.split(run)]
        longest = max(runs, key=len, default="")
        if not longest:
            return None
        found.append(longest)
    return found


def _alternatives(source: str) -> list[list[str]] | None:
    """For each alternative the runs of characters that it has to find; None where that is not known."""
    alternatives: list[list[str]] = [[""]]
    depth, at = 0, 0
    while at < len(source):
        runs, sign = alternatives[-1], source[at]
        read = _unit(source, at)
        if read is None:
            return None
        literal, at = read
        if sign in "()":
            depth += 1 if sign == "(" else -1
            if depth < 0:
                return None
        elif sign == "|" and not depth:
            alternatives.append([""])
            continue
        repeated = False
        while quantifier := _QUANTIFIER.match(source, at):
            at, repeated = quantifier.end(), True
            if not quantifier[0].startswith("+"):
                literal = ""
        if depth:  # what a group holds may be left out, or be one of several
            literal = ""
        runs[-1] += literal
        if repeated or not literal:
            runs.append("")
    return alternatives if not depth else None


def _unit(source: str, at: int) -> tuple[str, int] | None:
    """(the character that the unit at `at` stands for, "" for none or several; the place behind the unit);
    None where it is not known."""
    sign = source[at]
    if sign == "\\":
        letter = source[at + 1 : at + 2]
        if letter in _SINGLE and letter:
            return "", at + 2
        return (letter, at + 2) if letter.isascii() and letter and not letter.isalnum() else None
    if sign == "[":
        end = _set_end(source, at)
        return ("", end) if end else None
    if sign == "(" and source[at + 1 : at + 2] in ("?", "*") and source[at + 1 : at + 3] != "?:":
        return None
    if sign == "(" and source[at + 1 : at + 3] == "?:":
        return "", at + 3
    if sign == "{":  # no count: errors that are allowed, which may say a set of characters
        return None
    return ("" if sign in "().^$|*+?}" else sign), at + 1


def _set_end(source: str, at: int) -> int:
    """The place behind the set of characters that begins at `at`; 0 where that is not sure."""
    at += 2 if source[at + 1 : at + 2] == "^" else 1
    first = at
    while at < len(source):
        if source[at] == "]" and at > first:
            return at + 1
        if source[at] == "[":
            return 0
        at += 2 if source[at] == "\\" else 1
    return 0
