"""What differs from release to release and is not a message format: one line a release.

Sources: the manual pages ``protocol-logical-replication.html`` (options of pgoutput) and
``protocol.html`` (versions of the envelope) of each release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from dissector.spec import FIRST_RELEASE, LAST_RELEASE


@dataclass(frozen=True, slots=True)
class Option:
    """One option that START_REPLICATION ... LOGICAL hands to pgoutput.

    type: ``integer``, ``list`` (comma-separated identifiers), ``boolean`` or ``enum``; values: what
    it may be (empty: anything). also: values accepted though not documented. default: when it is
    not given. required: whether it must be given. proto: value -> the protocol version that it
    needs, with "" for every value.
    """

    name: str
    type: str
    meaning: str
    values: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    default: str = ""
    required: bool = False
    proto: Mapping[str, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Release:
    """One server major. options: pgoutput's, by name. proto_versions: the versions of pgoutput's
    protocol that it speaks. protocols: versions of the envelope that it accepts, described: the one
    that its manual describes."""

    number: int
    proto_versions: tuple[int, ...]
    options: Mapping[str, Option]
    protocols: tuple[str, ...]
    described: str = "3.0"
    lsn_padded: bool = False
    notes: tuple[str, ...] = ()

    def manual_path(self, page: str) -> str:
        """The path of a manual page: ``/docs/18/protocol-replication.html``."""
        return f"/docs/{self.number}/{page}"


PROTO_VERSIONS: Mapping[int, tuple[int, str]] = MappingProxyType(
    {
        1: (10, "whole transactions, sent when they commit"),
        2: (14, "large transactions can be streamed while they are in progress"),
        3: (15, "transactions can be sent when they are prepared for two-phase commit"),
        4: (16, "streamed transactions carry what a receiver needs to apply them in parallel"),
    }
)
"""pgoutput's protocol version -> (first server release, what it allows)."""

_SWITCH = ("on", "off", "true", "false")


def _options(proto_version: Option, *more: Option) -> Mapping[str, Option]:
    names = Option(
        "publication_names",
        "list",
        "Publications whose tables are sent: identifiers separated by commas, quoted where needed.",
        required=True,
    )
    return MappingProxyType({o.name: o for o in (proto_version, names, *more)})


def _version(*numbers: int) -> Option:
    return Option(
        "proto_version",
        "integer",
        "Version of pgoutput's protocol that the receiver understands.",
        tuple(str(n) for n in numbers),
        required=True,
    )


_BINARY = Option(
    "binary",
    "boolean",
    "Sends column values in binary form where their type has one.",
    _SWITCH,
    default="off",
    proto=MappingProxyType({"": 1}),
)
_MESSAGES = Option(
    "messages",
    "boolean",
    "Sends the messages that pg_logical_emit_message() wrote.",
    _SWITCH,
    default="off",
    proto=MappingProxyType({"": 1}),
)
_STREAMING = Option(
    "streaming",
    "boolean",
    "Streams large transactions while they are in progress.",
    _SWITCH,
    default="off",
    proto=MappingProxyType({"off": 1, "on": 2}),
)
_PARALLEL = Option(
    "streaming",
    "enum",
    "Streams large transactions while they are in progress; parallel adds what is needed to apply "
    "several at once.",
    ("off", "on", "parallel"),
    also=("false", "true"),
    default="off",
    proto=MappingProxyType({"off": 1, "on": 2, "parallel": 4}),
)
_TWO_PHASE = Option(
    "two_phase",
    "boolean",
    "Sends a prepared transaction at its PREPARE TRANSACTION and not only when it is committed.",
    _SWITCH,
    default="off",
    proto=MappingProxyType({"off": 1, "on": 3}),
)
_ORIGIN = Option(
    "origin",
    "enum",
    "none sends only changes that were first made on this server, any sends replicated ones as "
    "well.",
    ("none", "any"),
    default="any",
    proto=MappingProxyType({"": 1}),
)

_10 = _options(_version(1))
_14 = _options(_version(1, 2), _BINARY, _MESSAGES, _STREAMING)
_15 = _options(_version(1, 2, 3), _BINARY, _MESSAGES, _STREAMING, _TWO_PHASE)
_16 = _options(_version(1, 2, 3, 4), _BINARY, _MESSAGES, _PARALLEL, _TWO_PHASE, _ORIGIN)

_OLD = ("2.0", "3.0")
_TWO = ("3.0", "3.2")
_DIRECT = "From 17 on a connection may begin with TLS at once, without SSLRequest."
_KEYS = "From protocol 3.2 on the cancel key has 4 to 256 bytes; with 3.0 it has 4."
_GREASE = "3.9999 and _pq_.test_protocol_negotiation are reserved to test version negotiation."
_V2 = "The server still accepts protocol 2.0, whose formats are not described."

RELEASES: Mapping[int, Release] = MappingProxyType(
    {
        10: Release(10, (1,), _10, _OLD, notes=(_V2,)),
        11: Release(11, (1,), _10, _OLD, notes=(_V2,)),
        12: Release(12, (1,), _10, _OLD, notes=(_V2,)),
        13: Release(13, (1,), _10, _OLD, notes=(_V2,)),
        14: Release(14, (1, 2), _14, ("3.0",)),
        15: Release(15, (1, 2, 3), _15, ("3.0",)),
        16: Release(16, (1, 2, 3, 4), _16, ("3.0",)),
        17: Release(17, (1, 2, 3, 4), _16, ("3.0",), notes=(_DIRECT,)),
        18: Release(18, (1, 2, 3, 4), _16, _TWO, "3.2", notes=(_DIRECT, _KEYS)),
        19: Release(19, (1, 2, 3, 4), _16, _TWO, "3.2", True, (_DIRECT, _KEYS, _GREASE)),
    }
)
"""Every release that the catalogue declares, by its major number."""


def release(number: int) -> Release:
    """The release `number`. Raises ValueError that names the known ones."""
    if number not in RELEASES:
        raise ValueError(
            f"PostgreSQL {number} is not in the catalogue; known releases: "
            f"{FIRST_RELEASE} to {LAST_RELEASE}"
        )
    return RELEASES[number]
