"""The words in which a message format is declared: plain, frozen, printable data.

A message stands once, in ``dissector.catalogue``, as a `Message` made of parts. Five readers walk
the same parts: the annotator, the generated decoder, the scapy layers, the reference pages and the
filter language. So a declaration holds no code: conditions are names (`When`), alternatives are
lists of constants (`Choice`), and what changed between releases is a mark (``since``, ``until``,
``older``) on the part that changed.

Documented positions count from 1 in documented order and run on through parts that repeat. They are
not written down: `Message.layout` numbers the fields that exist in a release, which is how the
manual's lists are made as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

FIRST_RELEASE = 10
"""Logical replication with pgoutput begins with PostgreSQL 10."""

LAST_RELEASE = 19
"""The newest release whose formats the catalogue declares."""

_NO_VALUES: Mapping[int | str, str] = MappingProxyType({})
_NO_FLAGS: Mapping[int, str] = MappingProxyType({})

Older = tuple[tuple[int, str], ...]
"""What stood in earlier releases: ((last release it was so, text), ...), ascending."""


def _as_of(release: int, newest: str, older: Older) -> str:
    for last, text in older:
        if release <= last:
            return text
    return newest


@dataclass(frozen=True, slots=True)
class Kind:
    """A data type of the wire, as the manual's "Message Data Types" page defines them.

    documented: the format as the newest manual writes it, without a constant:
        ``Int64 (XLogRecPtr)``.
    rule: how its end is found: ``fixed`` (width), ``string`` (a zero byte ends it), ``bytes`` (the
        length is a field's value or runs to the message's end), ``array`` (``Field.count_from``
        names how many elements of ``width`` bytes), ``part`` (a declared message part).
    width: bytes of one value for ``fixed`` (and of an element for arrays), else 0.
    signed: two's complement when true. OIDs, xids, LSNs and counts are unsigned; lengths, type
        modifiers and timestamps are signed.
    show: the name of the display rule: int, char, lsn, xid, full_xid (epoch in the high 32 bits,
        xid in the low ones), oid, protocol (major in the high 16 bits, minor in the low ones),
        timestamp, bool, text, bytes, tuple.
    older: the format as older manuals write it.
    part: the name of the message part for ``part``.
    """

    name: str
    documented: str
    rule: str = "fixed"
    width: int = 0
    signed: bool = False
    show: str = "int"
    older: Older = ()
    part: str = ""

    def format_in(self, release: int) -> str:
        """The format as the manual of `release` writes it, without a constant."""
        return _as_of(release, self.documented, self.older)


@dataclass(frozen=True, slots=True)
class Field:
    """One documented position.

    name: a Python identifier, unique among its siblings: what paths and filters use.
    meaning: one precise sentence of the project's own.
    constant: the value that the manual prints in brackets; a str of one character for Byte1.
    size_from: for kind rule ``bytes``: the sibling field that holds the length; "" runs to the end
        of the enclosing message. For an array (``Int16[C]``) ``count_from`` names the count
        instead.
    values / flags: what single values or bits mean. Keys of ``values`` are str where the kind
        shows ``char`` or ``text``, else int. A length field that knows -1 may be -1: no bytes then.
    closed: ``values`` holds all that the manual allows; any other value is worth a finding.
    sizes: for kind rule ``bytes``: fewest and most bytes that the manual allows.
    layer: the field carries a message of another layer (CopyData's bytes, XLogData's bytes): the
        inner message's node takes the place of the bytes, chosen by the Dialect.
    secret: masked unless the user asks (passwords, proofs, tokens, cancel keys).
    includes_self: a length field whose value counts itself (the envelope's Int32).
    note: where servers differ from the manual.
    """

    name: str
    kind: Kind
    meaning: str
    constant: int | str | None = None
    also: tuple[int, ...] = ()
    size_from: str = ""
    count_from: str = ""
    values: Mapping[Any, str] = field(default_factory=lambda: _NO_VALUES, hash=False)
    flags: Mapping[int, str] = field(default_factory=lambda: _NO_FLAGS, hash=False)
    closed: bool = False
    sizes: tuple[int, int] | None = None
    layer: bool = False
    secret: bool = False
    includes_self: bool = False
    note: str = ""
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE
    older: Older = ()
    older_meaning: Older = ()

    def format_in(self, release: int) -> str:
        """The format as the manual of `release` writes it: ``Byte1('R')``, ``Int8(0)``."""
        plain = self.kind.format_in(release)
        if self.constant is not None:
            shown = f"'{self.constant}'" if isinstance(self.constant, str) else str(self.constant)
            plain = f"{plain}({shown})"
        return _as_of(release, plain, self.older)

    def meaning_in(self, release: int) -> str:
        """The meaning for `release`."""
        return _as_of(release, self.meaning, self.older_meaning)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Parts that come again: as often as field ``count`` says, or until a zero byte, or to the end.

    until_zero: the run ends at a zero byte; that byte is the leaf ``terminator`` and has no
        position of its own unless the manual gives it one.
    """

    name: str
    parts: tuple[Part, ...]
    count: str = ""
    until_zero: bool = False
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE


@dataclass(frozen=True, slots=True)
class Choice:
    """Alternatives told apart by a constant byte: the next byte picks one of `options`.

    Each option is a Field with a one-character constant and has a position of its own; the chosen
    one is present, the others are absent. Not required: none may come.
    """

    name: str
    options: tuple[Field, ...]
    required: bool = True
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE


@dataclass(frozen=True, slots=True)
class When:
    """Parts that are there only under a named condition.

    condition: ``in_stream`` and ``parallel`` ask the Dialect; ``chosen:NAME`` asks whether Choice
        NAME took any option; ``chosen:NAME=ab`` whether it took one with a constant among the
        letters.
    present / absent: the reason, as a sentence, for a reader who asks why.
    proto: the protocol version from which the part can come at all.
    """

    condition: str
    parts: tuple[Part, ...]
    present: str
    absent: str
    proto: int = 0
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE


Part = Field | Repeat | Choice | When


@dataclass(frozen=True, slots=True)
class Placed:
    """A field in the layout of one release: what a reference page shows in a row."""

    position: int
    format: str
    field: Field
    repeats: str = ""
    condition: str = ""
    choice: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One message format. Compared and hashed by identity: each exists once.

    layer: ``frontend``, ``backend``, ``replication``, ``pgoutput`` or ``part`` (TupleData).
    tag: the first byte, one character; "" for StartupMessage and its kin, and for parts.
    direction: "F", "B" or "F & B", as the manual prints it.
    since / until: server releases that document it. proto: protocol version that it needs
        (pgoutput).
    older_names: names in earlier releases, ((last release, name), ...).
    context: the state in which it may come, a name that session.py knows ("" = any).
    page: the manual page's file name. note: what servers do beyond what the manual tells.
    """

    name: str
    layer: str
    tag: str
    direction: str
    parts: tuple[Part, ...]
    meaning: str
    page: str
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE
    proto: int = 0
    older_names: Older = ()
    context: str = ""
    note: str = ""

    def name_in(self, release: int) -> str:
        """The name by the manual of `release` (XLogData until 18, WALData from 19)."""
        return _as_of(release, self.name, self.older_names)

    def parts_in(self, release: int) -> tuple[Part, ...]:
        """The parts that exist in `release`, marks resolved, nesting kept."""
        return tuple(_select(self.parts, release))

    def layout(self, release: int) -> tuple[Placed, ...]:
        """Every documented position of `release`, flat, in documented order."""
        numbered = enumerate(_flatten(self.parts_in(release), "", "", ""), start=1)
        return tuple(
            replace(placed, position=number, format=placed.field.format_in(release))
            for number, placed in numbered
        )


def _select(parts: tuple[Part, ...], release: int) -> Iterator[Part]:
    for part in parts:
        if not part.since <= release <= part.until:
            continue
        if isinstance(part, Repeat | When):
            yield replace(part, parts=tuple(_select(part.parts, release)))
        elif isinstance(part, Choice):
            kept = tuple(o for o in part.options if o.since <= release <= o.until)
            yield replace(part, options=kept)
        else:
            yield part


def _flatten(
    parts: tuple[Part, ...], repeats: str, condition: str, choice: str
) -> Iterator[Placed]:
    for part in parts:
        if isinstance(part, Field):
            yield Placed(0, "", part, repeats, condition, choice)
        elif isinstance(part, Repeat):
            yield from _flatten(part.parts, part.name, condition, choice)
        elif isinstance(part, When):
            yield from _flatten(part.parts, repeats, part.condition, choice)
        else:
            yield from _flatten(part.options, repeats, condition, part.name)


@dataclass(frozen=True, slots=True)
class Dialect:
    """Everything outside a message that its layout depends on; index rows store its number.

    release: server major; proto_version: pgoutput's, 0 when no pgoutput; in_stream: between Stream
    Start and Stream Stop; parallel: streaming 'parallel'; binary: pgoutput's option.
    copy: what CopyData holds: "" (unknown), "pgoutput", "plugin" (text of another output plug-in),
        "wal" (physical), "rows" (COPY text or CSV), "rows-binary", "backup" (typed, 15 and later),
        "tar" (before 15), "manifest" (UPLOAD_MANIFEST). Also "tls", "gssenc", "unencrypted": the
        stream is not one of messages at all, see catalogue.outside. auth: what the client's 'p'
        means: "" or the last authentication request's name ("AuthenticationSASL", ...).
    startup: the frontend stream has not sent its StartupMessage yet: messages have no type byte.
        Of the backend, with auth "SSLRequest" or "GSSENCRequest": a one-byte answer is due.
    protocol: (major << 16) + minor of the envelope. encoding: Python's codec of the client_encoding,
        in which names, queries and text values are.
    """

    release: int = 18
    proto_version: int = 1
    in_stream: bool = False
    parallel: bool = False
    binary: bool = False
    copy: str = ""
    auth: str = ""
    startup: bool = False
    protocol: int = 196608
    encoding: str = "utf-8"
