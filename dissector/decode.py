"""The annotator's fast twin: for each message and dialect a reader generated from the declaration.

The generated code (`dissector.emit`) reads messages in which nothing is wrong, which is nearly all of
them. As soon as something is unusual it gives up, and the annotator reads the message from its first
byte. So both always say the same: the same leaves with the same places, the same findings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dissector import catalogue
from dissector.annotate import annotate, findings, leaves, messages
from dissector.emit import compile_plan
from dissector.findings import Finding
from dissector.node import Node, Place
from dissector.plan import plan_of
from dissector.spec import Dialect, Message, Repeat
from dissector.steps import ENVELOPES, NULL_REASON, NumberStep

Leaf = tuple[Place, int, int, Any]
"""(place, start, end, raw value): what the annotator's leaf holds."""


class Decoded(NamedTuple):
    """A message, flat. path: message names from the outermost layer to the innermost."""

    path: tuple[str, ...]
    leaves: list[Leaf]
    findings: list[Finding]


class Values(NamedTuple):
    """A message's values by field name. Repeats are lists of dicts, message parts are dicts, a field
    that carries a message holds that message's dict; absent fields have no key, NULL is None."""

    path: tuple[str, ...]
    fields: dict[str, Any]
    findings: list[Finding]


class _Readers:
    """The generated readers of one dialect and one flavour, made when they are first needed."""

    def __init__(self, dialect: Dialect, flavour: str) -> None:
        self.dialect = dialect
        self.flavour = flavour
        self.by_message: dict[int, Callable[..., bool]] = {}
        self.by_byte: dict[str, dict[int, Callable[..., bool] | None]] = {}
        for layer in catalogue.LAYERS:
            self.by_byte[layer] = {}

    def read(self, layer: str, data: bytes, start: int, end: int, sink: Any, names: Any) -> bool:
        """Read the message at `start`; False when it is not an ordinary one."""
        if start >= end:
            return False
        known = self.by_byte[layer]
        byte = data[start]
        if byte in known:
            reader = known[byte]
        else:
            reader = self._find(layer, data, start)
            if not _shared(layer, byte, self.dialect):
                known[byte] = reader
        return reader is not None and reader(data, start, end, sink, names)

    def _find(self, layer: str, data: bytes, start: int) -> Callable[..., bool] | None:
        message = catalogue.lookup_bytes(layer, data, start, self.dialect)
        if message is None:
            return None
        reader = self.by_message.get(id(message))
        if reader is None:
            plan = plan_of(message, self.dialect)
            reader = compile_plan(plan, self.flavour, self.read)
            self.by_message[id(message)] = reader
        return reader


def _shared(layer: str, byte: int, dialect: Dialect) -> bool:
    """Whether the first byte alone does not tell the message in this dialect."""
    if layer not in ENVELOPES:
        return False
    if layer == "frontend" and dialect.startup:
        return True
    return sum(m.tag == chr(byte) for m in catalogue.in_layer(layer)) > 1


_leaf_readers: dict[Dialect, _Readers] = {}
_value_readers: dict[Dialect, _Readers] = {}
_recent: list[tuple[Dialect | None, _Readers | None]] = [(None, None)]


def _readers(dialect: Dialect) -> _Readers:
    recent, readers = _recent[0]
    if recent is dialect and readers is not None:
        return readers
    if dialect not in _leaf_readers:
        _leaf_readers[dialect] = _Readers(dialect, "leaves")
    readers = _leaf_readers[dialect]
    _recent[0] = (dialect, readers)
    return readers


def decode(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Decoded:
    """The message of `layer` in ``data[start:end]``, flat: equal to ``leaves(annotate(...))``.

    Never raises on content; offsets as in `annotate`.
    """
    stop = len(data) if end is None else end
    found: list[Leaf] = []
    names: list[str] = []
    whole = 0 <= start < stop <= len(data) and isinstance(data, bytes)
    if whole and _readers(dialect).read(layer, data, start, stop, found, names):
        return Decoded(tuple(names), found, [])
    node = annotate(data, layer, dialect, start, end)
    path = tuple(m.name for m in messages(node))
    flat = [(n.place, n.start, n.end, n.value) for n in leaves(node)]
    return Decoded(path, flat, findings(node))


def values(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Values:
    """The message of `layer` in ``data[start:end]`` as values by field name; never raises on content.

    Integers are raw, String and Byten are bytes, ``Int16[C]`` is a tuple.
    """
    found = ordinary(data, layer, dialect, start, end)
    if found is not None:
        return found
    node = annotate(data, layer, dialect, start, end)
    path = tuple(m.name for m in messages(node))
    return Values(path, _fields_of(node), findings(node))


def ordinary(
    data: bytes, layer: str, dialect: Dialect, start: int = 0, end: int | None = None
) -> Values | None:
    """What `values` gives for a message in which nothing is unusual; None for every other one."""
    stop = len(data) if end is None else end
    if not (0 <= start < stop <= len(data) and isinstance(data, bytes)):
        return None
    names: list[str] = []
    fields: dict[str, Any] = {}
    if value_reader(dialect)(layer, data, start, stop, fields, names):
        return Values(tuple(names), fields, [])
    return None


def value_reader(dialect: Dialect) -> Callable[..., bool]:
    """``read(layer, data, start, end, fields, names)`` for many messages of one dialect: fills the dict and
    the list that `Values` are made of; False, with these in any state, where `ordinary` gives None."""
    readers = _value_readers.get(dialect)
    if readers is None:
        readers = _value_readers[dialect] = _Readers(dialect, "fields")
    return readers.read


def _fields_of(node: Node) -> dict[str, Any]:
    """What the generated ``fields`` reader makes, from a tree."""
    made: dict[str, Any] = {}
    for child in node.children or ():
        if child.declaration is None or (child.absent and not _is_null(child)):
            continue
        if child.children is None:
            made[child.name] = child.value
        elif isinstance(child.declaration, Repeat):
            made[child.name] = [_fields_of(each) for each in child.children if each.index >= 0]
        elif child.children and child.children[0].is_message:
            made[child.name] = _fields_of(child.children[0])
        else:
            made[child.name] = _fields_of(child)
    return made


def _is_null(node: Node) -> bool:
    return node.reason == NULL_REASON


def decoder(
    layer: str, message_name: str, dialect: Dialect
) -> Callable[[bytes, int, int], tuple[Any, ...] | None]:
    """A reader of the message's own fields for callers that know what the message is.

    The result: the values of its documented fields in declared order (repeats as lists of dicts, None
    where absent), or None when the bytes are not such a message or something is wrong with them.
    Raises KeyError for an unknown name.
    """
    message = catalogue.by_name(message_name, dialect.release)
    plan = plan_of(message, dialect)
    readers = _value_readers.setdefault(dialect, _Readers(dialect, "fields"))
    read = compile_plan(plan, "fields", readers.read)
    order = tuple(dict.fromkeys(_top_names(plan.message, dialect)))

    def run(data: bytes, start: int, end: int) -> tuple[Any, ...] | None:
        fields: dict[str, Any] = {}
        if not 0 <= start < end <= len(data) or not read(data, start, end, fields, []):
            return None
        return tuple(map(fields.get, order))

    return run


def _top_names(message: Message, dialect: Dialect) -> list[str]:
    names = []
    pending = list(message.parts_in(dialect.release))
    while pending:
        part = pending.pop(0)
        inner = getattr(part, "options", None)
        if inner is None and not isinstance(part, Repeat):
            inner = getattr(part, "parts", None)
        if inner is None:
            names.append(part.name)  # type: ignore[union-attr]
        else:
            pending = [*inner, *pending]
    return names


def probes(layer: str, message_name: str, dialect: Dialect) -> dict[str, tuple[int, int, bool]]:
    """The integers that stand at a fixed offset from the layer's first byte.

    field name -> (offset, width in bytes, signed), for reading many messages at once; fields after
    the first String, repeat or choice have no fixed place. Raises KeyError for an unknown name.
    """
    message = catalogue.by_name(message_name, dialect.release)
    if message.layer != layer and layer not in ENVELOPES:
        raise KeyError(f"{message_name} is no message of the layer {layer}")
    found: dict[str, tuple[int, int, bool]] = {}
    offset = 0
    for step in plan_of(message, dialect).steps:
        if isinstance(step, NumberStep):
            found[step.field.name] = (offset, step.width, step.signed)
            offset += step.width
        elif step.min_size or not step.fixed:
            break
    return found
