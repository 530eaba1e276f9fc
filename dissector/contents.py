"""What stands inside a field whose bytes have a form of their own, opened for people.

The catalogue ends at "bytes": SASL data, rows of a COPY, WAL, archives and a plug-in's text are taken apart
here, below the field's node, which keeps its place. Nothing is judged: what a state can find wrong is
the session's to say.
"""

from __future__ import annotations

from dataclasses import replace

from . import archives, catalogue, copying, sasl, sql, wal
from .catalogue.outside import HANDSHAKE, HANDSHAKES
from .catalogue.sasl import MECHANISMS
from .inside import NUMBER, as_text, leaf, listed, named, place
from .node import Node, Place, messages
from .schemas import Schema
from .spec import Dialect, Field, Message

_SASL = frozenset(
    ("SASLInitialResponse", "SASLResponse", "AuthenticationSASLContinue", "AuthenticationSASLFinal")
)

_ANSWER = catalogue.by_name("PasswordMessage").tag
_KEYS = ("BackendKeyData", "CancelRequest")
_MECHANISMS = frozenset(name.encode() for name in MECHANISMS)
_REST = named("unparsed", "What is left of the message; a secret may be in it.", secret=True)

_TELLING = ("ErrorResponse", "NoticeResponse")
"""Messages in which a server can repeat a statement."""

MAY_HOLD_SECRETS = frozenset(
    ("AuthenticationSASLContinue", "AuthenticationSASLFinal", "Query", "Parse", *_TELLING)
)
"""Messages without a secret field in which `open_contents` can find one."""


MAY_HAVE_PARTS = _SASL | {"CopyData", "WALData", "archive or manifest data", "TLSRecord"}
"""Messages with a field of bytes that `open_contents` can take apart, or find to be text."""


def open_contents(tree: Node, data: bytes, dialect: Dialect, schema: Schema) -> Node:
    """Give the fields of `tree` that hold something of a known form their parts; returns `tree`.

    data: what `tree` was annotated from. schema: in force for the message (kinds "copy" and "file"
    matter here). The leaves still tile the message.
    """
    inner = messages(tree)[-1]
    declared = inner.declaration
    if not isinstance(declared, Message):
        return tree
    name = declared.name
    if declared.tag == _ANSWER or name in _KEYS:
        _unread(inner)
    if name in _SASL:
        _open(inner, data, _sasl_parts(inner, name, data))
    elif name == "CopyData":
        _copy_data(inner, data, dialect, schema)
    elif name == "WALData":
        _wal_data(inner, data, dialect)
    elif name == "archive or manifest data":
        _archive(inner, data)
    elif name == "TLSRecord":
        _handshakes(inner, data)
    elif name in ("Query", "Parse"):
        node = _field(inner, "query")
        if node is not None:
            node.children = sql.parts(data, node.start, node.end) or None
    elif name in _TELLING:
        _told(inner, data)
    return tree


def _unread(inner: Node) -> None:
    """Bytes of an authentication answer that did not read as it should: the secret may be there, as may
    what stands where a mechanism's name should."""
    for node in inner.children or ():
        if node.declaration is None:
            node.place = place(_REST)
        elif node.name == "mechanism" and node.value not in _MECHANISMS:
            _hide(node)


def _hide(node: Node) -> None:
    was, declared = node.place, node.declaration
    if isinstance(declared, Field):
        hidden = replace(declared, secret=True)
        node.place = Place(hidden, was.name, was.release, was.position, was.format, was.meaning)


def _told(inner: Node, data: bytes) -> None:
    """What a server says of a statement that failed, or of a function in which it stands."""
    fields = inner.child("fields")
    for element in (fields.children if fields is not None else None) or ():
        node = _field(element, "value")
        if node is not None:
            node.children = sql.parts(data, node.start, node.end, prose=True) or None


def _field(inner: Node, name: str = "data") -> Node | None:
    """The field called `name` where it has bytes and no parts yet."""
    node = inner.child(name)
    if node is None or node.children is not None or node.partial or node.start == node.end:
        return None
    return node


def _open(inner: Node, data: bytes, found: list[Node]) -> bool:
    node = _field(inner)
    if node is None or not found:
        return False
    node.children = found
    return True


def _sasl_parts(inner: Node, name: str, data: bytes) -> list[Node]:
    node, mechanism = _field(inner), inner.child("mechanism")
    if node is None:
        return []
    named = mechanism.value if mechanism is not None and mechanism.value else b""
    return sasl.parts(name, named, data, node.start, node.end)


def _copy_data(inner: Node, data: bytes, dialect: Dialect, schema: Schema) -> None:
    node = _field(inner)
    if node is None:
        return
    if dialect.copy == "tar":
        _archive(inner, data)
    elif schema.copy is not None:
        _open(inner, data, copying.parts(schema.copy, data, node.start, node.end))
    elif dialect.copy in ("rows", "manifest"):
        as_text(node)


def _wal_data(inner: Node, data: bytes, dialect: Dialect) -> None:
    node, lsn = _field(inner), inner.child("start_lsn")
    if node is None:
        return
    if dialect.copy == "wal" and lsn is not None and isinstance(lsn.value, int):
        _open(inner, data, wal.parts(lsn.value, data, node.start, node.end))
    elif dialect.copy == "plugin" and _is_text(data[node.start : node.end], dialect.encoding):
        as_text(node)


_TYPE = Field("handshake_type", NUMBER, "Which handshake message it is.", values=HANDSHAKES)
_LENGTH = Field("handshake_length", NUMBER, "Bytes of it that follow.")
_BODY = named("handshake_body", "What the message says; the session's header tells the most of it.")


def _handshakes(inner: Node, data: bytes) -> None:
    """Handshake messages in the clear, where they fill the record: encrypted ones do not look so."""
    node, kind = _field(inner, "fragment"), inner.child("content_type")
    if node is None or kind is None or kind.value != HANDSHAKE:
        return
    elements: list[tuple[list[Node], None]] = []
    at = node.start
    while at + 4 <= node.end and data[at] in HANDSHAKES:
        size = int.from_bytes(data[at + 1 : at + 4], "big")
        nodes = [
            leaf(_TYPE, data, at, at + 1, data[at]),
            leaf(_LENGTH, data, at + 1, at + 4, size),
            leaf(_BODY, data, at + 4, at + 4 + size),
        ]
        elements.append((nodes, None))
        at += 4 + size
    if elements and at == node.end:
        node.children = [listed("handshakes", "Handshake messages in the record.", elements)]


def _archive(inner: Node, data: bytes) -> None:
    node = _field(inner)
    if node is None:
        return
    if not _open(inner, data, archives.parts(data, node.start, node.end)):
        held = data[node.start : node.end]
        if _is_text(held, "utf-8"):
            as_text(node)


def _is_text(held: bytes, encoding: str) -> bool:
    """Whether bytes read as text: a cut character at either end does not matter."""
    for low in range(min(4, len(held) or 1)):
        for high in range(min(4, len(held) - low or 1)):
            try:
                text = held[low : len(held) - high].decode(encoding)
            except (UnicodeError, LookupError):
                continue
            return not any(c < " " and c not in "\t\n\r\f" for c in text)
    return False
