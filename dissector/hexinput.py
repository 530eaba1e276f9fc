"""Bytes as people paste them: hex in many dresses, dumps, literals, base64, rows that psql printed.

`read_given` looks at a text and finds out which form it has; nobody has to say. What it cannot read it
refuses with the line and the column.
"""

from __future__ import annotations

import ast
import binascii
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from .errors import UsageProblem
from .hexdumps import dumped
from .hexrows import octal, rows

EMPTY = "no bytes: give hex digits, for example: pgdissect hex 45"


@dataclass(frozen=True, slots=True)
class Given:
    """The bytes of one message. lsn, xid: what stood beside it in a row, None where nothing did.

    dump: the bytes come from a dump of a packet, which may begin with the headers of IP or Ethernet.
    """

    data: bytes
    lsn: int | None = None
    xid: int | None = None
    dump: bool = False


def read_given(text: str) -> list[Given]:
    """The messages in `text`, in order.

    One message: hex digits with or without separators, ``\\x42..`` as psql prints bytea, ``0x42, 0x00``,
    a C array, an escaped string ``"\\x42\\x00"``, a Python bytes literal, base64. Several: rows of
    pg_logical_slot_peek_binary_changes, one bytea a line, a Python list of literals, a dump (xxd,
    hexdump -C, tcpdump -X, Wireshark) in which the offset begins again at 0. Raises UsageProblem that
    says where it fails.
    """
    if not text.strip():
        raise UsageProblem(EMPTY)
    found = rows(text)
    if found is not None:
        return [Given(data, lsn, xid) for lsn, xid, data in found]
    packets = dumped(text)
    if packets is not None:
        return [Given(data, dump=True) for data in packets]
    for form in _FORMS:
        read = form(text)
        if read is not None:
            return _not_empty(read)
    return _not_empty([digits(text)])


def read_bytes(text: str) -> list[bytes]:
    """As `read_given`, the bytes alone."""
    return [given.data for given in read_given(text)]


def _not_empty(read: list[bytes]) -> list[Given]:
    if not any(read):
        raise UsageProblem(EMPTY)
    return [Given(data) for data in read if data]


def place(text: str, at: int) -> str:
    """``line 2, column 5`` of the character `at`."""
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"


# -- hex digits

_PREFIX = re.compile(r"\s*(?:E?'|X'|\"|decode\(')?(?:\\{1,2}x|0x(?![0-9A-Fa-f]{1,2}[\s,;]))?", re.I)
_SUFFIX = re.compile(r"(?:['\"](?:::bytea|,\s*'hex'\))?)?;?\s*$", re.IGNORECASE)
_TOKEN = re.compile(r"(?:0x|\\x)?([0-9A-Fa-f]+)", re.IGNORECASE)
_SEPARATOR = re.compile(r"[\s:,;.|-]+")


def digits(text: str) -> bytes:
    """Hex digits with any of blank, colon, comma, dash between; a byte may be cut by a line's end."""
    start = _PREFIX.match(text).end()  # type: ignore[union-attr]  # it matches nothing at least
    end = _SUFFIX.search(text, start).start()  # type: ignore[union-attr]
    found: list[str] = []
    half = 0  # where the odd digit before a line's end stands, counted from 1
    total = 0
    at = start
    while at < end:
        gap = _SEPARATOR.match(text, at, end)
        if gap is not None:
            at = gap.end()
            if half and "\n" not in gap.group():
                raise _odd(text, half - 1, total)
            continue
        token = _TOKEN.match(text, at, end)
        if token is None:
            raise UsageProblem(
                f"not a hex digit: {text[at]!a} at {place(text, at)}; give hex digits, a dump, a Python "
                "bytes literal or base64"
            )
        some = token[1]
        if len(some) == 1 and token.group()[:2].lower() == "0x":
            some = "0" + some
        total += len(some)
        found.append(some)
        odd = (len(some) + bool(half)) % 2
        half = token.end() if odd else 0
        at = token.end()
    if half:
        raise _odd(text, half - 1, total)
    return bytes.fromhex("".join(found))


def _odd(text: str, at: int, total: int) -> UsageProblem:
    return UsageProblem(
        f"an odd number of hex digits: the one at {place(text, at)} ({text[at]!r}) has no second half"
        + (f"; {total} digits up to there" if total > 1 else "")
    )


# -- other forms: each gives None where the text does not have it

_LITERAL = re.compile(r"""(?<![\w'"])(?:[bB][rR]?|[rR][bB])['"]|fromhex\(""")
_ESCAPES = re.compile(r"\\x[0-9A-Fa-f]{2}")


def _python(text: str) -> list[bytes] | None:
    """Python: b'..' alone, side by side, over lines, added, in a list; bytes.fromhex('..')."""
    if not _LITERAL.search(text):
        return None
    source = (
        re.sub(r"^\s*[A-Za-z_]\w*\s*=(?!=)", "", text).replace("\\\r\n", " ").replace("\\\n", " ")
    )
    try:
        return list(_evaluated(_expression(f"({source.strip()}\n)"), many=True))
    except SyntaxError as problem:
        line = problem.lineno or 0
        where = f" in line {line}" if 1 < line <= len(text.splitlines()) else ""
        raise _no_literal(f"{problem.msg}{where}") from None
    except (ValueError, RecursionError, MemoryError) as problem:
        raise _no_literal(str(problem) or "nested too deep") from None


def _no_literal(why: str) -> UsageProblem:
    return UsageProblem(
        f"not a Python bytes literal: {why}; give a whole one (b'B\\x00'), hex digits, a dump or base64"
    )


def _expression(source: str) -> ast.expr:
    """The parsed Python expression; nothing of it is run."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Python warns of escapes that it does not know, and keeps them
        return ast.parse(source, mode="eval").body


def _evaluated(node: ast.expr, many: bool = False) -> list[bytes]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bytes):
        return [node.value]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return [_evaluated(node.left)[0] + _evaluated(node.right)[0]]
    if isinstance(node, ast.List | ast.Tuple) and many:
        return [data for each in node.elts for data in _evaluated(each)]
    if isinstance(node, ast.Call) and len(node.args) == 1:
        name = ast.unparse(node.func)
        argument = node.args[0]
        if name.endswith("fromhex") and isinstance(argument, ast.Constant):
            return [digits(str(argument.value))]
        if name in ("bytes", "bytearray", "memoryview"):
            return _evaluated(argument)
    raise ValueError(
        f"only literals, lists of them, + and fromhex are read, not {type(node).__name__}"
    )


def _array(text: str) -> list[bytes] | None:
    """A C array, as Wireshark and xxd -i write it; several arrays are several messages."""
    plain = re.sub(
        r"/\*.*?\*/|//[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S
    )
    bodies = list(re.finditer(r"\{([^{}]*)\}", plain)) or list(
        re.finditer(r"^\s*\[([^\[\]]*)\]\s*$", plain)
    )
    if not bodies:
        return None
    read = []
    for body in bodies:
        numbers = bytearray()
        for token in re.finditer(r"[^\s,]+", body[1]):
            word, at = token.group(), body.start(1) + token.start()
            try:
                numbers.append(int(word.rstrip("uUlL"), 0))
            except ValueError:
                raise UsageProblem(
                    f"not a byte: {word[:20]!a} at {place(text, at)}; an array holds numbers from 0 to "
                    "255 with commas between, 0x42 or 66"
                ) from None
        read.append(bytes(numbers))
    return read


def _escaped(text: str) -> list[bytes] | None:
    """An escaped string, ``"\\x42\\x00"``, over one or several lines, with or without quotes."""
    quoted = text.lstrip()[:1] == '"' and text.count('"') >= 2
    if not _ESCAPES.search(text) or not (quoted or len(_ESCAPES.findall(text)) > 1):
        return None
    lines = (
        line.strip().rstrip("\\;").strip() if quoted else line.strip() for line in text.splitlines()
    )
    joined = "".join(
        line[1:-1] if quoted and line[:1] == line[-1:] == '"' else line for line in lines
    )
    try:
        node = _expression('b"' + joined.replace('\\"', '"').replace('"', '\\"') + '"')
        return _evaluated(node)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as problem:
        raise UsageProblem(f"not an escaped string: {problem}") from None


def _octal(text: str) -> list[bytes] | None:
    """bytea in the old escape format, ``B\\000\\000``, one value."""
    if not re.search(r"\\[0-3][0-7]{2}", text):
        return None
    return [octal(text.strip())]


_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")

FOREIGN = 3
"""So many different letters that are no hex digits make a text base64 and not hex with a slip."""


def _base64(text: str) -> list[bytes] | None:
    plain = "".join(text.split())
    foreign = {c for c in plain if c.isalpha() and c not in "abcdefABCDEFxX"}
    if not _BASE64.fullmatch(plain) or not (plain[-1] == "=" or len(foreign) >= FOREIGN):
        return None
    standard = plain.replace("-", "+").replace("_", "/")
    standard = standard.rstrip("=")
    try:
        return [binascii.a2b_base64(standard + "=" * (-len(standard) % 4), strict_mode=True)]
    except binascii.Error as problem:
        raise UsageProblem(
            f"neither hex nor base64: {problem}; {len(plain)} characters, "
            f"the first that is no hex digit is {next(c for c in plain if c in foreign or c == '=')!r}"
        ) from None


_FORMS: tuple[Callable[[str], list[bytes] | None], ...] = (
    _python,
    _array,
    _escaped,
    _octal,
    _base64,
)
