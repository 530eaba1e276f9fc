"""The binary format of built-in types that hold no other values; see `dissector.binary`."""

from __future__ import annotations

import ipaddress
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

from dissector.moments import clock_text, date_text, interval_text, timestamp_text, zone_text
from dissector.text import decode_text

Result = tuple[str, Any]


class Input(NamedTuple):
    raw: bytes
    encoding: str
    depth: int


class MalformedError(ValueError):
    """The bytes are not a value of the type."""


def _exactly(layout: str, raw: bytes) -> tuple[Any, ...]:
    return struct.unpack(layout, raw)


def _number(layout: str) -> Callable[[Input], Result]:
    packed = struct.Struct(layout)

    def decode(given: Input) -> Result:
        (number,) = packed.unpack(given.raw)
        return str(number), number

    return decode


def _plain(given: Input) -> Result:
    text = decode_text(given.raw, given.encoding)
    return text, text


def _versioned(given: Input) -> Result:
    """jsonb and jsonpath: a version byte 1, then text."""
    if given.raw[:1] != b"\x01":
        raise MalformedError
    return _plain(given._replace(raw=given.raw[1:]))


def _bool(given: Input) -> Result:
    (byte,) = _exactly(">B", given.raw)
    return ("t" if byte else "f"), bool(byte)


def _bytea(given: Input) -> Result:
    return "\\x" + given.raw.hex(), given.raw


def _char(given: Input) -> Result:
    (byte,) = _exactly(">c", given.raw)
    text = "" if byte == b"\0" else decode_text(byte)
    return text, text


def _as_single(number: float) -> float:
    """`number` rounded to what four bytes can hold."""
    try:
        rounded: float = struct.unpack(">f", struct.pack(">f", number))[0]
    except OverflowError:
        return math.inf
    return rounded


def _shortest(number: float, single: bool) -> str:
    """The fewest digits that read back as the same float, as PostgreSQL 12 and later print them."""
    if math.isnan(number):
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    digits = repr(number)
    if single:
        for precision in range(1, 10):
            digits = f"{number:.{precision}g}"
            if _as_single(float(digits)) == number:
                break
    sign, numbers, exponent = Decimal(digits).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, numbers)).rstrip("0") or "0"
    power = len(numbers) + exponent - 1 if text != "0" else 0
    prefix = "-" if sign else ""
    if -4 <= power < (6 if single else 15):
        if power < 0:
            return f"{prefix}0.{'0' * (-power - 1)}{text}"
        whole = text[: power + 1].ljust(power + 1, "0")
        rest = text[power + 1 :]
        return f"{prefix}{whole}.{rest}" if rest else f"{prefix}{whole}"
    mantissa = text[0] + (f".{text[1:]}" if len(text) > 1 else "")
    return f"{prefix}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02}"


def _float4(given: Input) -> Result:
    (number,) = _exactly(">f", given.raw)
    return _shortest(number, True), number


def _float8(given: Input) -> Result:
    (number,) = _exactly(">d", given.raw)
    return _shortest(number, False), number


_NUMERIC_SPECIAL = {0xC000: "NaN", 0xD000: "Infinity", 0xF000: "-Infinity"}


def _numeric(given: Input) -> Result:
    count, weight, sign, scale = struct.unpack_from(">HhHH", given.raw)
    if sign in _NUMERIC_SPECIAL:
        text = _NUMERIC_SPECIAL[sign]
        return text, Decimal(text)
    if len(given.raw) != 8 + 2 * count or sign not in (0, 0x4000) or scale > 16_383:
        raise MalformedError
    groups = struct.unpack_from(f">{count}H", given.raw, 8)
    if any(group > 9999 for group in groups):
        raise MalformedError
    digits = "".join(f"{group:04}" for group in groups)
    point = (weight + 1) * 4
    if point > len(digits):
        digits = digits.ljust(point, "0")
    elif point < 0:
        digits, point = "0" * -point + digits, 0
    whole = digits[:point].lstrip("0") or "0"
    fraction = digits[point : point + scale].ljust(scale, "0")
    text = f"{'-' if sign else ''}{whole}" + (f".{fraction}" if scale else "")
    return text, Decimal(text)


def _money(given: Input) -> Result:
    (cents,) = _exactly(">q", given.raw)
    text = f"{'-' if cents < 0 else ''}${abs(cents) // 100:,}.{abs(cents) % 100:02}"
    return text, text


def _text_of(layout: str, show: Callable[..., str]) -> Callable[[Input], Result]:
    packed = struct.Struct(layout)

    def decode(given: Input) -> Result:
        text = show(*packed.unpack(given.raw))
        return text, text

    return decode


def _uuid(given: Input) -> Result:
    if len(given.raw) != 16:
        raise MalformedError
    h = given.raw.hex()
    text = f"{h[:8]}-{h[8:12]}-{h[12:16]}-{h[16:20]}-{h[20:]}"
    return text, text


def _inet(given: Input) -> Result:
    family, bits, is_cidr, size = struct.unpack_from(">BBBB", given.raw)
    address = given.raw[4:]
    if len(address) != size or (family, size) not in ((2, 4), (3, 16)):
        raise MalformedError
    text = ".".join(map(str, address)) if family == 2 else _ipv6(address)
    if is_cidr or bits != size * 8:
        text += f"/{bits}"
    return text, text


def _ipv6(address: bytes) -> str:
    """An IPv6 address with its longest run of zero groups left out, the last 4 bytes of a mapped
    IPv4 address dotted."""
    shown = str(ipaddress.IPv6Address(address))
    mapped = address[:12] in (bytes(10) + b"\xff\xff", bytes(12))
    if mapped and any(address[12:14]):
        return ("::ffff:" if address[10] else "::") + ".".join(map(str, address[12:]))
    return shown


def _macaddr(given: Input) -> Result:
    if len(given.raw) not in (6, 8):
        raise MalformedError
    text = given.raw.hex(":")
    return text, text


def _bits(given: Input) -> Result:
    (count,) = struct.unpack_from(">i", given.raw)
    body = given.raw[4:]
    if count < 0 or len(body) != (count + 7) // 8:
        raise MalformedError
    text = "".join(f"{byte:08b}" for byte in body)[:count]
    return text, text


def _points(raw: bytes) -> str:
    if len(raw) % 16:
        raise MalformedError
    numbers = [_shortest(n, False) for n in struct.unpack(f">{len(raw) // 8}d", raw)]
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return ",".join(f"({x},{y})" for x, y in pairs)


def _fixed_points(points: int, before: str, after: str) -> Callable[[Input], Result]:
    def decode(given: Input) -> Result:
        if len(given.raw) != 16 * points:
            raise MalformedError
        text = before + _points(given.raw) + after
        return text, text

    return decode


def _path(given: Input) -> Result:
    closed, count = struct.unpack_from(">Bi", given.raw)
    if len(given.raw) != 5 + 16 * count:
        raise MalformedError
    inner = _points(given.raw[5:])
    text = f"({inner})" if closed else f"[{inner}]"
    return text, text


def _polygon(given: Input) -> Result:
    (count,) = struct.unpack_from(">i", given.raw)
    if len(given.raw) != 4 + 16 * count:
        raise MalformedError
    text = f"({_points(given.raw[4:])})"
    return text, text


def _three(shape: str) -> Callable[..., str]:
    return lambda *numbers: shape.format(*(_shortest(n, False) for n in numbers))


_WEIGHTS = "DCBA"


def _tsvector(given: Input) -> Result:
    raw = given.raw
    (count,) = struct.unpack_from(">i", raw)
    if count < 0 or count * 3 > len(raw):
        raise MalformedError
    at, words = 4, []
    for _ in range(count):
        stop = raw.index(b"\0", at)
        word = decode_text(raw[at:stop], given.encoding).replace("\\", "\\\\").replace("'", "''")
        (number,) = struct.unpack_from(">H", raw, stop + 1)
        places = struct.unpack_from(f">{number}H", raw, stop + 3)
        at = stop + 3 + 2 * number
        shown = ",".join(f"{p & 0x3FFF}{_WEIGHTS[p >> 14].rstrip('D')}" for p in places)
        words.append(f"'{word}'" + (f":{shown}" if shown else ""))
    if at != len(raw):
        raise MalformedError
    text = " ".join(words)
    return text, text


_OPERATORS = {1: ("!", 4), 2: ("&", 2), 3: ("|", 1), 4: ("<->", 3)}
"""tsquery operators: code -> (sign, priority)."""


def _tsquery(given: Input) -> Result:
    (count,) = struct.unpack_from(">i", given.raw)
    if count < 0 or count * 2 > len(given.raw):
        raise MalformedError
    text, left, at = _operand(given, 4, count, 0, False, 0) if count else ("", 0, 4)
    if left or at != len(given.raw):
        raise MalformedError
    return text, text


def _operand(
    given: Input, at: int, left: int, around: int, right_of_phrase: bool, depth: int
) -> tuple[str, int, int]:
    """Text of the item at `at`, items left after it, and where it ends: operators come before their
    operands, the right operand first. around: the priority of the operator that it stands under."""
    if left <= 0 or depth > 100:
        raise MalformedError
    raw, left = given.raw, left - 1
    if raw[at] == 1:
        weights, prefix = raw[at + 1], raw[at + 2]
        stop = raw.index(b"\0", at + 3)
        word = decode_text(raw[at + 3 : stop], given.encoding)
        word = word.replace("\\", "\\\\").replace("'", "''")
        marks = ("*" if prefix else "") + "".join(
            letter for bit, letter in ((8, "A"), (4, "B"), (2, "C"), (1, "D")) if weights & bit
        )
        return f"'{word}'" + (f":{marks}" if marks else ""), left, stop + 1
    if raw[at] != 2 or raw[at + 1] not in _OPERATORS:
        raise MalformedError
    sign, priority = _OPERATORS[raw[at + 1]]
    at += 2
    if sign == "<->":
        (distance,) = struct.unpack_from(">H", raw, at)
        at += 2
        sign = sign if distance == 1 else f"<{distance}>"
    phrase = priority == 3
    if priority == 4:
        inner, left, at = _operand(given, at, left, priority, False, depth + 1)
        text = f"!{inner}"
    else:
        right, left, at = _operand(given, at, left, priority, phrase, depth + 1)
        other, left, at = _operand(given, at, left, priority, False, depth + 1)
        text = f"{other} {sign} {right}"
    if priority < around or (phrase and priority == around and right_of_phrase):
        text = f"( {text} )"
    return text, left, at


def _lsn(value: int) -> str:
    return f"{value >> 32:X}/{value & 0xFFFFFFFF:X}"


_UNSIGNED = _number(">I")
DECODERS: dict[int, Callable[[Input], Result]] = {
    16: _bool, 17: _bytea, 18: _char, 19: _plain, 20: _number(">q"), 21: _number(">h"),
    23: _number(">i"), 24: _UNSIGNED, 25: _plain, 26: _UNSIGNED,
    27: _text_of(">IH", lambda block, item: f"({block},{item})"), 28: _UNSIGNED, 29: _UNSIGNED,
    114: _plain, 142: _plain, 600: _fixed_points(1, "", ""), 601: _fixed_points(2, "[", "]"),
    602: _path, 603: _fixed_points(2, "", ""), 604: _polygon,
    628: _text_of(">ddd", _three("{{{},{},{}}}")), 650: _inet, 700: _float4, 701: _float8,
    705: _plain, 718: _text_of(">ddd", _three("<({},{}),{}>")), 774: _macaddr, 790: _money,
    829: _macaddr, 869: _inet, 1042: _plain, 1043: _plain, 1082: _text_of(">i", date_text),
    1083: _text_of(">q", clock_text), 1114: _text_of(">q", timestamp_text),
    1184: _text_of(">q", lambda value: timestamp_text(value, "+00")),
    1186: _text_of(">qii", lambda micros, days, months: interval_text(months, days, micros)),
    1266: _text_of(">qi", lambda micros, zone: clock_text(micros) + zone_text(zone)),
    1560: _bits, 1562: _bits, 1700: _numeric, 1790: _plain, 2275: _plain,
    2950: _uuid, 3220: _text_of(">Q", _lsn), 3614: _tsvector, 3615: _tsquery, 3802: _versioned,
    4072: _versioned, 5069: _number(">Q"),
}  # fmt: skip
"""OID -> decoder."""

PLAIN = frozenset(oid for oid, decoder in DECODERS.items() if decoder is _plain)
"""Types whose binary form is their text."""

INTEGERS = {21: 2, 23: 4, 20: 8, 26: 4}
"""OID -> bytes of whole numbers that are shown as digits alone."""
