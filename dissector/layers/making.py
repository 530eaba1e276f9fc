"""Makes the scapy Packet classes from the catalogue's declarations; see `dissector.layers.packets`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from scapy.fields import ConditionalField

from dissector import catalogue
from dissector.layers.fields import (
    ArrayField,
    CharField,
    DataField,
    NumberField,
    OptionField,
    PartField,
    RepeatField,
    TextField,
    attribute,
)
from dissector.layers.packets import ASSUMED, CLASSES, CataloguePacket
from dissector.spec import Choice, Field, Kind, Message, Part, Repeat, When

TAKEN = frozenset({"Message", "Type"})
"""Names of scapy.all that messages have too: their classes begin with ``Pg``."""

TERMINATOR = Field(
    "terminator", Kind("zero", "Byte1", width=1), "The zero byte that ends the list.", 0
)

PARTS: dict[str, Any] = {}
"""Class name -> class of the groups that repeat inside messages."""


class _FieldsThatAre:
    """`fields_desc` of a class is the whole list; of a packet, the fields up to where it stopped.

    So everything in scapy that walks the fields (show, build, repr) sees no default value for a
    field whose bytes were never there.
    """

    def __init__(self, every: list[Any]) -> None:
        self.every = every

    def __get__(self, pkt: Any, cls: Any) -> list[Any]:
        if pkt is None or pkt.stopped is None:
            return self.every
        return self.every[: pkt.stopped]


def class_name(text: str) -> str:
    """``Primary keepalive message`` -> ``PrimaryKeepaliveMessage``."""
    words = re.findall(r"[A-Za-z0-9]+", text.replace("_", " "))
    name = "".join(word[0].upper() + word[1:] for word in words)
    return f"Pg{name}" if name in TAKEN else name


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _siblings(parts: tuple[Part, ...]) -> Iterator[Field]:
    for part in parts:
        if isinstance(part, Field):
            yield part
        elif isinstance(part, When):
            yield from _siblings(part.parts)


def _condition(when: When) -> Any:
    kind, _, argument = when.condition.partition(":")
    name, _, letters = argument.partition("=")
    if kind == "chosen":
        return lambda pkt: bool(chosen := pkt.chosen(name)) and (not letters or chosen in letters)
    names = [attribute(each.name) for each in _siblings(when.parts)]

    def present(pkt: Any) -> bool:
        # What somebody set is there, whatever the Dialect: Insert(xid=7) needs no Dialect to be built.
        if any(pkt.fields.get(each) is not None for each in names):
            return True
        dialect = pkt.dialect
        return bool(getattr(dialect, kind)) and when.since <= dialect.release <= when.until

    return present


class _Maker:
    """Makes the class of one group of siblings."""

    def __init__(self, name: str, parts: tuple[Part, ...]) -> None:
        self.name = name
        self.fields: list[Any] = []
        self.choices: dict[str, list[tuple[str, str]]] = {}
        self.needs: dict[str, list[tuple[str, str]]] = {}
        self.required: set[str] = set()
        self.optional: dict[str, str] = {}
        self.layered = False
        self.length_at: int | None = None
        self.declared = {each.name: each for each in _siblings(parts)}
        self.measures: dict[str, list[str]] = {}
        self._measure(parts)
        self._add(parts, None)

    def _measure(self, parts: tuple[Part, ...]) -> None:
        for part in parts:
            if isinstance(part, When):
                self._measure(part.parts)
            elif isinstance(part, Repeat) and part.count:
                self.measures.setdefault(part.count, []).append(attribute(part.name))
            elif isinstance(part, Field) and (told := part.size_from or part.count_from):
                self.measures.setdefault(told, []).append(attribute(part.name))

    def _add(self, parts: tuple[Part, ...], when: When | None) -> None:
        for part in parts:
            if isinstance(part, When):
                self._add(part.parts, part)
                kind, _, argument = part.condition.partition(":")
                if kind == "chosen":
                    choice, _, letters = argument.partition("=")
                    # The value before its length: what a person sets comes last.
                    for each in reversed(list(_siblings(part.parts))):
                        self.needs.setdefault(choice, []).append((letters, attribute(each.name)))
                else:
                    names = (attribute(each.name) for each in _siblings(part.parts))
                    self.optional.update(dict.fromkeys(names, kind))
            elif isinstance(part, Choice):
                self._choice(part)
            elif isinstance(part, Repeat):
                group = make(f"{self.name} {_singular(part.name)}", part.parts)
                PARTS[group.__name__] = group
                self._put(RepeatField(part.name, group, part.count, part.until_zero), when)
                if part.until_zero:
                    self._put(NumberField(TERMINATOR), when)
            elif part.layer:
                self.layered = True
            else:
                if part.includes_self and part.name == "length":
                    self.length_at = sum(each.sz for each in self.fields)
                self._put(self._field(part, when is not None), when)

    def _put(self, fld: Any, when: When | None) -> None:
        self.fields.append(fld if when is None else ConditionalField(fld, _condition(when)))

    def _choice(self, choice: Choice) -> None:
        self.choices[choice.name] = [
            (attribute(option.name), str(option.constant)) for option in choice.options
        ]
        if choice.required:
            self.required.add(choice.name)
        for option in choice.options:
            last = choice.required and option is choice.options[-1]
            self.fields.append(OptionField(option, choice.name, last))

    def _field(self, decl: Field, optional: bool) -> Any:
        kind = decl.kind
        if kind.rule == "string":
            return TextField(decl)
        if kind.rule == "part":
            return PartField(decl, CLASSES[kind.part], optional)
        if kind.rule == "array":
            return ArrayField(decl)
        if kind.rule == "bytes" or kind.show == "bytes":
            return DataField(decl, self.declared.get(decl.size_from))
        if kind.show == "char":
            return CharField(decl)
        return NumberField(decl, tuple(self.measures.get(decl.name, ())))

    def attributes(self) -> dict[str, Any]:
        return {
            "fields_desc": self.fields,
            "choices": self.choices,
            "needs": self.needs,
            "required": frozenset(self.required),
            "optional": self.optional,
            "length_at": self.length_at,
            "layered": self.layered,
        }


def make(
    name: str, parts: tuple[Part, ...], message: Message | None = None, base: Any = CataloguePacket
) -> Any:
    """The class for `parts` called `name`; `message` when they are a whole message."""
    attributes = _Maker(name, parts).attributes()
    attributes["name"] = name
    attributes["declared"] = message
    attributes["__doc__"] = message.meaning if message else f"One element of {name}."
    attributes["__module__"] = "dissector.layers"
    cls: Any = type(base)(class_name(name), (base,), attributes)
    type.__setattr__(cls, "fields_desc", _FieldsThatAre(cls.fields_desc))
    return cls


def make_all() -> dict[str, Any]:
    """All classes by class name, also under the names that other releases give; fills CLASSES."""
    every = (*catalogue.MESSAGES, *catalogue.OUTSIDE)
    ordered = sorted(every, key=lambda message: message.layer != "part")
    public: dict[str, Any] = {}
    for message in ordered:
        cls = make(message.name_in(ASSUMED.release), message.parts, message)
        CLASSES[message.name] = cls
        for name in (message.name, *(older for _, older in message.older_names)):
            public.setdefault(class_name(name), cls)
        public[cls.__name__] = cls
    public.update(PARTS)
    return public
