"""The names that a filter may use: the index's columns, the catalogue's messages and their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dissector.spec import Choice, Field, Message, Part, Repeat, When

from .columns import COLUMNS
from .errors import QueryError, did_you_mean
from .values import fold

TUPLE_NAMES: dict[str, str] = {
    "column.name": "name of a column of the row, by the Relation in force",
    "column.type": "its type: integer, character varying(40)",
    "value": "its value as text",
    "state": "its state: text, binary, null, unchanged, not sent",
}
"""What can be asked of the columns of a row; conditions joined by "and" speak of one column."""

_ELEMENT = re.compile(r"\[(\d+)\]")
_CARRIERS = ("DataRow", "Bind")
"""Messages whose values have columns without being TupleData."""


@dataclass(frozen=True)
class Declared:
    """A field of the catalogue: its message, the names from there on, and the declaration."""

    message: Message
    path: tuple[str, ...]
    field: Field

    @property
    def dotted(self) -> str:
        """``Insert.new.columns.value``; spaces of the message's name left out."""
        return ".".join((self.message.name.replace(" ", ""), *self.path))


class Names:
    """Everything that `messages` make available, looked up by name."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._parts = {m.name: m for m in messages if m.layer == "part"}
        self.messages = [m for m in messages if m.layer != "part"]
        self._part_fields = {
            fold(name): {id(field) for _, field in self._walk(part.parts, ())}
            for name, part in self._parts.items()
        }
        self._canonical: dict[str, str] = {}
        for message in self.messages:
            for _, older in message.older_names:
                self._canonical.setdefault(fold(older), fold(message.name))
        for message in self.messages:
            self._canonical[fold(message.name)] = fold(message.name)
        self.fields: dict[str, list[Declared]] = {}
        self.with_columns: set[str] = {fold(name) for name in _CARRIERS}
        for message in self.messages:
            for path, field in self._walk(message.parts, ()):
                self.fields.setdefault(path[-1], []).append(Declared(message, path, field))
                if field.kind.part:
                    self.with_columns.add(fold(message.name))

    def _walk(
        self, parts: Sequence[Part], prefix: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], Field]]:
        for part in parts:
            if isinstance(part, Field):
                path = (*prefix, part.name)
                yield path, part
                if part.kind.part in self._parts and part.kind.part not in prefix:
                    yield from self._walk(self._parts[part.kind.part].parts, path)
            elif isinstance(part, Repeat):
                yield from self._walk(part.parts, (*prefix, part.name))
            elif isinstance(part, When):
                yield from self._walk(part.parts, prefix)
            elif isinstance(part, Choice):
                yield from ((((*prefix, option.name)), option) for option in part.options)

    def canonical(self, name: str) -> str:
        """The one spelling of a message's name: case, spaces and releases do not matter."""
        return self._canonical.get(fold(name), fold(name))

    def is_message(self, name: str) -> bool:
        """Whether a message of any release has that name."""
        return fold(name) in self._canonical

    def message_names(self) -> list[str]:
        """All names of messages, older ones included, as the manual writes them."""
        older = (name for m in self.messages for _, name in m.older_names)
        return list(dict.fromkeys((*(m.name for m in self.messages), *older)))

    def all_names(self) -> list[str]:
        """All names that stand for something by themselves."""
        return [*COLUMNS, *TUPLE_NAMES, *self.fields]

    def require_message(self, name: str, position: int) -> None:
        """Raise QueryError unless `name` is a message."""
        if not self.is_message(name):
            raise QueryError(
                "",
                position,
                f"no message is called {name}",
                did_you_mean(name, self.message_names())
                or "names are the manual's: Insert, DataRow",
            )

    def resolve(self, name: str, position: int) -> tuple[list[Declared], tuple[str, ...]]:
        """The fields that ``Message.part.field``, or any tail of it, may mean, and its parts in lower
        case, elements as ``[0]``. Parts between may be left out: ``Insert.value``.

        Raises QueryError that names the nearest field.
        """
        written = _ELEMENT.sub(r".[\1]", name).lower().split(".")
        segments = tuple(each for each in written if fold(each) not in self._part_fields)
        known = self.fields.get(segments[-1], []) if segments else []
        for part in map(fold, written):
            if part in self._part_fields:
                inside = self._part_fields[part]
                known = [d for d in known if id(d.field) in inside]
        # how many of the leading parts name messages that carry the one that has the field
        for carriers in range(len(segments)):
            outer, tail = segments[:carriers], segments[carriers:]
            if not all(fold(each) in self._canonical for each in outer):
                break
            found = [d for d in known if self._fits(d, tail)]
            if found:
                return found, segments
        raise QueryError("", position, f"no field is called {name}", self._suggest(name, segments))

    def _fits(self, declared: Declared, segments: tuple[str, ...]) -> bool:
        names = tuple(each for each in segments if not each.startswith("["))
        if is_subsequence(names, declared.path):
            return True
        message = fold(declared.message.name)
        return self.canonical(names[0]) == message and is_subsequence(names[1:], declared.path)

    def _suggest(self, name: str, segments: tuple[str, ...]) -> str:
        if len(segments) > 1:
            message = self.canonical(segments[0])
            own = [d for all_ in self.fields.values() for d in all_]
            own = [d for d in own if fold(d.message.name) == message]
            if own:
                near = did_you_mean(name, (d.dotted for d in own))
                fields = list(dict.fromkeys(d.path[0] for d in own))
                return near or f"{own[0].message.name} has {', '.join(fields[:12])}"
        near = did_you_mean(name, (*self.all_names(), *self.message_names()))
        return (
            near or "a name is a column (xid, lsn, relation), a message (Insert) or a field (gid)"
        )


def is_subsequence(wanted: Sequence[str], there: Sequence[str]) -> bool:
    """Whether `wanted` stands in `there` in order, ending where it ends (a field's own name last)."""
    if not wanted or not there or wanted[-1] != there[-1]:
        return False
    rest = iter(there[:-1])
    return all(each in rest for each in wanted[:-1])


@lru_cache(maxsize=1)
def default_names() -> Names:
    """The names of the catalogue."""
    from dissector.catalogue import MESSAGES

    return Names(MESSAGES)
