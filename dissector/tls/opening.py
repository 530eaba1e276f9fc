"""The opening of protected records: which keys and sequence numbers are tried, and what if none fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dissector.findings import finding

from .handshake import Facts
from .keylog import ADVICE
from .records import ALERT, APPLICATION_DATA, SMALLEST, Record
from .state import Chunk, Located, Side
from .suites import TLS12, TLS13

if TYPE_CHECKING:
    from .keys import Schedule

MAX_TRIES = 1 << 16
"""How many sequence numbers are tried for one record after a gap."""

GIVE_UP = 32
"""Records in a row that do not open, none ever having opened, until no more are tried."""

UNSURE_TRIES = 16
"""... and for a record that touches the last one, while records before it are known to be lost."""

MAX_FINDINGS = 200


class Opening:
    """The part of a TLS stream that opens records. What they hold goes to `_content`."""

    def __init__(self) -> None:
        self.facts = Facts()
        self.findings: list[Located] = []
        self.findings_left_out = 0
        self._sides: dict[str, Side] = {}
        self._out: list[Chunk] = []
        self._schedule: Schedule | None = None
        self._told: set[str] = set()

    def _content(self, side: Side, record: Record, kind: int, content: bytes) -> None:
        raise NotImplementedError

    def _alert(self, side: Side, offset: int, body: bytes) -> None:
        raise NotImplementedError

    def _is_13(self) -> bool:
        return self.facts.version == TLS13 or self.facts.hello_retry

    def _count(self, side: Side, record: Record) -> None:
        v = self.facts.volume[side.direction]
        self.facts.volume[side.direction] = v._replace(
            records=v.records + 1, encrypted=v.encrypted + len(record.body)
        )

    def _encrypted(self, side: Side, record: Record) -> bool:
        if side.schedule is None and self._schedule and self._schedule.version == TLS12:
            side.schedule, side.epoch = self._schedule, 1  # the ChangeCipherSpec is lost
        if side.schedule is None or side.dead:
            self._count(side, record)
            self._closed(side, record)
            return True
        if self._open(side, record):
            return True
        if record.missing:
            if side.tries > 0:
                return False
            side.dead = True
            self._count(side, record)
            self._find(
                side, "tls-damaged", record.start, action="the rest of this direction stays closed",
                what="no record after the gap opens with any of the sequence numbers tried",
            )  # fmt: skip
            return True
        self._count(side, record)
        self._failed(side, record)
        return True

    def _open(self, side: Side, record: Record) -> bool:
        """Try the keys in force, then the ones after them; after a gap, later sequence numbers."""
        assert side.schedule is not None
        tries = UNSURE_TRIES if side.unsure else 1
        if record.missing:
            tries = max(0, min(2 + record.missing // SMALLEST, MAX_TRIES, side.tries))
        for epoch in (side.epoch, side.epoch + 1):
            opener = side.schedule.opener(side.direction, epoch)
            if opener is None:
                continue
            first = side.sequence if epoch == side.epoch else 0
            for sequence in range(first, first + tries):
                found = opener.open(sequence, record.kind, record.version, record.body)
                if found is not None:
                    self._count(side, record)
                    side.epoch, side.sequence = epoch, sequence + 1
                    self._opened(side, record, *found)
                    return True
            side.tries -= tries if record.missing else 0
        return False

    def _opened(self, side: Side, record: Record, kind: int, content: bytes) -> None:
        side.opened += 1
        side.failures = 0
        side.unsure = False
        if self.facts.keys == "wrong":
            self.facts.keys = "found"
        if side.hole >= 0:
            self._out.append(Chunk(side.direction, b"", side.hole, record.start, lost=True))
            side.hole = -1
        v = self.facts.volume[side.direction]
        plain = len(content) if kind == APPLICATION_DATA else 0
        self.facts.volume[side.direction] = v._replace(
            opened=v.opened + 1, plaintext=v.plaintext + plain
        )
        self._content(side, record, kind, content)

    def _failed(self, side: Side, record: Record) -> None:
        """A record that touches the last one does not open."""
        assert side.schedule is not None
        if self._is_13() and side.schedule.opener(side.direction, side.epoch) is None:
            if side.opened and "keys" not in self._told:  # but for the traffic that followed
                self._told.add("keys")
                why = f"the key log lacks the secrets of the {side.name}'s traffic"
                self._find(side, "tls-no-keys", record.start, why=why, advice=ADVICE)
            return  # the log lacks the handshake's secret: the first of the next keys will open
        side.handshakes.reset()
        side.sequence += 1
        side.failures += 1
        unsure = side.unsure
        if side.failures >= GIVE_UP:
            side.unsure, side.dead = False, not side.opened
        if side.opened or unsure:
            side.hole = record.start if side.hole < 0 else side.hole
            if side.failures == 1:
                self._find(
                    side, "tls-damaged", record.start, what="a TLS record does not authenticate",
                    action="it is damaged or was altered, its plain text is lost",
                )  # fmt: skip
            return
        if "wrong" not in self._told:
            self._told.add("wrong")
            if not any(s.opened for s in self._sides.values()):
                self.facts.keys = "wrong"
            self._find(side, "tls-wrong-key", record.start, side=side.name, advice=ADVICE)

    def _closed(self, side: Side, record: Record) -> None:
        """A protected record for which there is no key at all."""
        if record.kind == ALERT:
            self._alert(side, record.start, b"")
        if side.dead or "keys" in self._told:
            return
        why = {
            "no key log": "no key log was given",
            "not in the key log": "the key log has no secrets for this connection",
            "incomplete": f"the key log lacks the secrets of the {side.name}'s direction",
        }.get(self.facts.keys)
        if why:
            self._told.add("keys")
            self._find(side, "tls-no-keys", record.start, why=why, advice=ADVICE)

    def _find(self, where: Side, code: str, offset: int, **facts: Any) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            self.findings_left_out += 1
            return
        # -1: the finding's own offset counts in a PostgreSQL message, and there is none here.
        self.findings.append(Located(where.direction, offset, finding(code, **facts)))
