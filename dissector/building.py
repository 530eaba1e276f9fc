"""A message from the values of its fields, through the scapy layers."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from . import catalogue
from .errors import UsageProblem
from .spec import Choice, Dialect, Field, Kind, Message, Part, Repeat, When

Values = Mapping[str, Any]

ASSUMED = Dialect()

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class BuildProblem(UsageProblem):
    """A value that its field cannot have. path: of the field, ``Insert.new.columns[0].value``."""

    def __init__(self, path: str, text: str) -> None:
        super().__init__(f"{path}: {text}")
        self.path = path


def build(name: str, values: Values, dialect: Dialect = ASSUMED) -> bytes:
    """The bytes of the message called `name` with `values` by field name, as the catalogue names them.

    Numbers are int or text in decimal or 0x hex; an LSN may be ``"0/1E9D450"``, a time
    ``"2026-11-29 18:53:12.831399 UTC"``, ``infinity`` or microseconds since 2000-01-01 UTC, a letter or a
    flag byte its character or number; Strings are str (in `dialect`'s encoding) or bytes; bytes may be
    ``"\\\\x42"``. What repeats is a list of dicts, a TupleData a dict or the list of its columns; a column
    is a dict or its value alone: str is text, bytes binary, None NULL. The data that a message carries
    (CopyData, XLogData) are bytes. Lengths, counts and constants may be left out.
    Raises BuildProblem that says which field is wrong, UsageProblem for an unknown message.
    """
    message = _message_called(name)
    from .layers.packets import CLASSES

    return _Builder(dialect, CLASSES).message(message, values)


def _message_called(name: str) -> Message:
    """The message called `name`. Raises UsageProblem that suggests the nearest."""
    from .reference import find

    found = find(name)
    if found not in catalogue.MESSAGES:
        raise UsageProblem(f"{found.name} is no message that can be built")
    return found


class _Builder:
    def __init__(self, dialect: Dialect, classes: Mapping[str, Any]) -> None:
        self.dialect = dialect
        self.classes = classes

    def message(self, message: Message, values: Values) -> bytes:
        path = message.name_in(self.dialect.release)
        packet, payload = self._packet(self.classes[message.name], message.parts, values, path)
        packet.dialect = self.dialect
        whole = packet / payload if payload else packet
        try:
            return bytes(whole)
        except Exception as problem:  # scapy and struct raise many kinds
            raise BuildProblem(path, f"cannot be built: {problem}") from None

    def _packet(
        self, cls: Any, parts: tuple[Part, ...], values: Any, path: str
    ) -> tuple[Any, bytes]:
        if not isinstance(values, Mapping):
            raise BuildProblem(path, f"needs a value for each field, not {type(values).__name__}")
        known = {part.name: part for part in _flat(parts)}
        given: dict[str, Any] = {}
        payload = b""
        for name, value in values.items():
            part = known.get(name)
            where = f"{path}.{name}"
            if part is None:
                near = difflib.get_close_matches(str(name), known, 1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(known)}"
                raise BuildProblem(where, f"there is no such field: {hint}")
            if isinstance(part, Field) and part.layer:
                payload = _raw(value, where, self.dialect.encoding)
                continue
            made = self._value(cls, part, value, where)
            if made is not None or value is None:
                given[_attribute(name)] = made
        try:
            return cls(**given), payload
        except Exception as problem:  # scapy and struct raise many kinds
            raise BuildProblem(path, str(problem)) from None

    def _value(self, cls: Any, part: Field | Repeat, value: Any, path: str) -> Any:
        if isinstance(part, Repeat):
            group = _field_of(cls, part.name).cls
            if isinstance(value, str | bytes) or not isinstance(value, Sequence):
                raise BuildProblem(path, "needs a list, one for each element")
            elements = []
            for number, each in enumerate(value):
                where = f"{path}[{number}]"
                element = _element(part, each)
                elements.append(self._packet(group, part.parts, element, where)[0])
            return elements
        if part.kind.rule == "part":
            return self._tuple(part.kind, value, path)
        if value is None:
            return None
        return _converted(part, value, path, self.dialect.encoding)

    def _tuple(self, kind: Kind, value: Any, path: str) -> Any:
        if isinstance(value, Sequence) and not isinstance(value, str | bytes):
            value = {"columns": value}
        return self._packet(self.classes[kind.part], catalogue.part(kind.part).parts, value, path)[
            0
        ]


def _element(repeat: Repeat, value: Any) -> Any:
    """An element given by its value alone, as the fields that it stands for; others as they are."""
    names = [part.name for part in _flat(repeat.parts)]
    if isinstance(value, Mapping):
        return value
    if "null_kind" in names:
        return _column(value)
    if names == ["length", "value"] or len(names) == 1:
        return {names[-1]: value}
    return value


def _column(value: Any) -> Any:
    """A column given by its value alone, with the kind that says so."""
    if value is None:
        return {"null_kind": "n"}
    if isinstance(value, bytes):
        return {"binary_kind": "b", "value": value}
    return {"text_kind": "t", "value": str(value)}


def _flat(parts: tuple[Part, ...]) -> list[Field | Repeat]:
    found: list[Field | Repeat] = []
    for part in parts:
        if isinstance(part, When):
            found += _flat(part.parts)
        elif isinstance(part, Choice):
            found += part.options
        else:
            found.append(part)
    return found


def _attribute(name: str) -> str:
    from .layers.fields import attribute

    return attribute(name)


def _field_of(cls: Any, name: str) -> Any:
    wanted = _attribute(name)
    field = next(f for f in cls.fields_desc if f.name == wanted)
    return getattr(field, "fld", field)


# -- single values


def _raw(value: Any, path: str, encoding: str) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if not isinstance(value, str):
        raise BuildProblem(path, f"needs bytes or text, not {type(value).__name__}")
    if value.startswith("\\x"):
        try:
            return bytes.fromhex(value[2:])
        except ValueError as problem:
            raise BuildProblem(path, f"not hex after \\x: {problem}") from None
    try:
        return value.encode(encoding)
    except UnicodeEncodeError as problem:
        raise BuildProblem(path, f"{value[problem.start]!a} does not exist in {encoding}") from None


def _converted(declared: Field, value: Any, path: str, encoding: str) -> Any:
    kind = declared.kind
    if kind.rule == "array":
        if isinstance(value, str | bytes) or not isinstance(value, Sequence):
            raise BuildProblem(path, "needs a list of numbers")
        return [_number(declared, one, f"{path}[{n}]") for n, one in enumerate(value)]
    if kind.rule == "string":
        text = _raw(value, path, encoding)
        if 0 in text:
            raise BuildProblem(
                path, f"a String ends at its zero byte and cannot hold one (byte {text.index(0)})"
            )
        return text
    if kind.rule == "bytes" or kind.show == "bytes":
        data = _raw(value, path, encoding)
        fixed = kind.width if kind.rule == "fixed" else 0
        if fixed and len(data) != fixed:
            raise BuildProblem(path, f"needs {fixed} bytes, not {len(data)}")
        return data
    number = _number(declared, value, path)
    constant = declared.constant
    wanted = ord(constant) if isinstance(constant, str) else constant
    if wanted is not None and number != wanted and not declared.includes_self:
        raise BuildProblem(path, f"must be {constant!r}, which marks it")
    # scapy holds a character as one byte
    return bytes([number]) if kind.show == "char" and kind.width == 1 else number


def _number(declared: Field, value: Any, path: str) -> int:
    kind = declared.kind
    number = _parsed(declared, value, path)
    bits = kind.width * 8
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind.signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise BuildProblem(path, f"{number} does not fit: from {low} to {high}")
    return number


def _parsed(declared: Field, value: Any, path: str) -> int:
    show = declared.kind.show
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    if not isinstance(value, str):
        raise BuildProblem(path, f"needs a number, not {type(value).__name__}")
    text = value.strip()
    if show == "char" and len(value) == 1:
        return ord(value)
    if show == "lsn" and (match := re.fullmatch(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", text)):
        return int(match[1], 16) << 32 | int(match[2], 16)
    if show == "protocol" and (match := re.fullmatch(r"(\d{1,5})\.(\d{1,5})", text)):
        return int(match[1]) << 16 | int(match[2])
    if re.fullmatch(r"[+-]?\d{1,20}", text):
        return int(text)
    if re.fullmatch(r"0[xX][0-9A-Fa-f]{1,16}", text):
        return int(text, 16)
    if show == "timestamp":
        return _time(text, path)
    if declared.flags and (flags := _flags(declared, text)) is not None:
        return flags
    if declared.flags:
        known = " | ".join(declared.flags.values())
        raise BuildProblem(path, f"{value[:40]!a} is no number and none of {known}")
    raise BuildProblem(
        path, f"{value[:40]!a} is no {_WANTED.get(show, 'number, such as 801 or 0x321')}"
    )


_WANTED = {
    "lsn": "LSN, such as 0/1E9D450",
    "char": "single character",
    "protocol": "protocol version, such as 3.2",
}


def _flags(declared: Field, text: str) -> int | None:
    """``CASCADE | RESTART IDENTITY`` as bits; None when a name is not known."""
    bits = {name.casefold(): bit for bit, name in declared.flags.items()}
    total = 0
    for word in filter(None, (part.strip().casefold() for part in text.split("|"))):
        if word not in bits:
            return None
        total |= bits[word]
    return total


def _time(text: str, path: str) -> int:
    if text in ("infinity", "-infinity"):
        return (1 << 63) - 1 if text == "infinity" else -(1 << 63)
    try:
        moment = datetime.fromisoformat(text.removesuffix("UTC").strip())
    except ValueError:
        raise BuildProblem(
            path, f"{text[:40]!a} is no time, such as 2026-11-29 18:53:12.831399 UTC"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    gone = moment - EPOCH
    return (gone.days * 86400 + gone.seconds) * 1_000_000 + gone.microseconds
