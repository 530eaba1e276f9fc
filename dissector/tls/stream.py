"""One TLS connection: two directions of records in, plain text with its place in the stream out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dissector.findings import Finding, finding
from dissector.text import visible

from . import handshake as hs
from .keylog import ADVICE, LABELS, KeyLog
from .records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    HEARTBEAT,
    SMALLEST,
    Framer,
    Record,
)
from .suites import SUITES, TLS12, TLS13, suite_name

if TYPE_CHECKING:
    from .keys import Schedule

MAX_TRIES = 1 << 14
"""How many sequence numbers are tried for one record after a gap."""

TRIES_PER_DIRECTION = 1 << 17
"""... and for all records after gaps of one direction: some seconds of work at most."""

MAX_PENDING = 4 << 20
"""Bytes of records kept that come before the ServerHello which tells how to open them."""

GIVE_UP = 32
"""Records in a row that do not open, none ever having opened, until no more are tried."""

MAX_FINDINGS = 200
MAX_ALERTS = 64

SIDES = {"F": "client", "B": "server"}

_LOST = 0
"""The version of a record that waits and whose bytes are lost; real ones begin with 3."""


class Chunk(NamedTuple):
    """Plain text of one record, or a hole.

    direction: "F" from the client, "B" from the server. data: the plain text, which follows on the
    previous chunk's of this direction. start, end: where the record stands in the direction's
    encrypted stream, its header included; every byte of `data` maps to this range.
    lost: data is b"" and the range could not be opened: plain text of unknown length (less than
    end - start) is missing here.
    """

    direction: str
    data: bytes
    start: int
    end: int
    lost: bool = False


class Located(NamedTuple):
    """A finding and where its record begins in the direction's encrypted stream."""

    direction: str
    offset: int
    finding: Finding


class _Side:
    """What is known of one direction."""

    def __init__(self, stream: TLSStream, direction: str) -> None:
        self.direction = direction
        self.name = SIDES[direction]
        self.framer = Framer(
            lambda record: stream._record(self, record),
            lambda kind, start, end: stream._lost(self, kind, start, end),
            lambda offset, first: stream._damaged(self, offset, first),
        )
        self.handshakes = hs.Handshakes()
        self.schedule: Schedule | None = None
        self.epoch = 0  # 0: plain text
        self.sequence = 0
        self.changed = False  # a ChangeCipherSpec was seen
        self.unsure = False  # records were lost: a ChangeCipherSpec or a Finished may be among them
        self.opened = 0  # records that authenticated
        self.failures = 0  # records in a row that did not
        self.tries = TRIES_PER_DIRECTION
        self.dead = False
        self.hole = -1  # where the range that could not be opened begins
        self.pending: list[Record] = []
        self.pending_bytes = 0


class TLSStream:
    """Opens the records of one TLS connection, incrementally and in both directions.

    Feed it from the ClientHello on: after SSLRequest and its 'S', or from the first byte. Nothing
    raises on what the streams hold: wrong keys, damage and gaps become `findings` (Located), and
    what the connection says about itself is in `facts`. Memory: one record per direction, and up to
    4 MiB of records that come before the ServerHello.
    """

    def __init__(self, keylog: KeyLog | None = None) -> None:
        self.facts = hs.Facts()
        self.findings: list[Located] = []
        self.findings_left_out = 0
        self._keylog = keylog
        self._sides = {name: _Side(self, name) for name in SIDES}
        self._out: list[Chunk] = []
        self._schedule: Schedule | None = None
        self._session = b""
        self._answered = ""  # "retry": HelloRetryRequest; "done": ServerHello seen, or surely lost
        self._told: set[str] = set()

    # -- what callers use -------------------------------------------------------------------------

    def feed(self, direction: str, offset: int, data: bytes) -> list[Chunk]:
        """The next bytes of `direction` ("F" or "B"), the first at stream offset `offset`.

        Bytes that were fed before are left out; an offset beyond the last byte is a gap. Returns
        what could be opened because of them, of either direction, in order.
        """
        side = self._sides[direction]
        position = side.framer.position
        if position is not None and offset > position:
            self._gap(side, position, offset - position)
        elif position is not None and offset < position:
            data = data[position - offset :]
            offset = position
        if data:
            side.framer.feed(offset, data)
        return self._take_out()

    def gap(self, direction: str, offset: int, length: int) -> list[Chunk]:
        """`length` bytes of `direction` from `offset` on are not in the capture.

        Returns what is lost as far as it is known now (the rest comes with the next record that
        opens); a finding says what that means. Afterwards the next record that opens with one of
        the next sequence numbers, a bounded number of them, brings the direction back.
        """
        side = self._sides[direction]
        position = side.framer.position
        if position is not None and offset < position:
            length -= position - offset
            offset = position
        elif position is not None and offset > position:
            length += offset - position
            offset = position
        if length > 0:
            self._gap(side, offset, length)
        return self._take_out()

    def finish(self) -> list[Chunk]:
        """Both streams have ended: what is left, and findings for what did not end as it should."""
        for side in self._sides.values():
            side.framer.finish()
        self._drain(final=True)
        for side in self._sides.values():
            end = side.framer.position or 0
            have, need = side.framer.waiting
            if need and not side.framer.searching:
                what = f"the stream ends after {have} of {need} bytes of a TLS record"
                self._find(side, "tls-damaged", end - have, what=what, action="it is not shown")
            if side.hole >= 0 and end > side.hole and side.schedule is not None:
                self._out.append(Chunk(side.direction, b"", side.hole, end, lost=True))
                side.hole = -1
        return self._take_out()

    # -- framing ----------------------------------------------------------------------------------

    def _take_out(self) -> list[Chunk]:
        out, self._out = self._out, []
        return out

    def _gap(self, side: _Side, offset: int, length: int) -> None:
        side.handshakes.reset()
        side.unsure = True
        at = offset - side.framer.waiting[0]
        if side.framer.searching:
            side.framer.gap(offset, length)
            return
        side.framer.gap(offset, length)
        if side.framer.searching:
            about = "the records in it are lost, how many is known when a later one opens"
            if side.hole < 0:
                side.hole = at
        else:
            about = "one record is lost, the next one is known to begin after it"
        self._find(side, "tls-gap", at, bytes=length, about=about)

    def _lost(self, side: _Side, kind: int, start: int, end: int) -> None:
        if self._pends(side, kind):
            self._pend(side, Record(kind, _LOST, start, end, b""))
        elif side.epoch and self._protected(side, kind):
            side.sequence += 1
            self._out.append(Chunk(side.direction, b"", start, end, lost=True))

    def _damaged(self, side: _Side, offset: int, first: bytes) -> None:
        side.handshakes.reset()
        side.unsure = True
        if side.hole < 0 and side.epoch:
            side.hole = offset
        self._find(
            side, "tls-damaged", offset,
            what=f"no TLS record begins here (bytes {first.hex(' ')})",
            action="looking for the next record that opens",
        )  # fmt: skip

    def _protected(self, side: _Side, kind: int, length: int = 0) -> bool:
        if kind == APPLICATION_DATA:
            return True
        if self._is_13():
            return False
        return side.changed and (kind != CHANGE_CIPHER_SPEC or length > 1)

    def _is_13(self) -> bool:
        return self.facts.version == TLS13 or self.facts.hello_retry

    def _pends(self, side: _Side, kind: int) -> bool:
        """Whether a record must wait for the ServerHello. The server's own come after it."""
        if self._answered == "done" or side.direction == "B":
            return False
        if kind == APPLICATION_DATA or side.pending:
            return True
        return kind == CHANGE_CIPHER_SPEC and not self._answered

    def _pend(self, side: _Side, record: Record) -> None:
        side.pending.append(record._replace(body=bytes(record.body)))
        side.pending_bytes += record.end - record.start
        if side.pending_bytes > MAX_PENDING:
            self._drain(final=True)

    def _drain(self, final: bool = False) -> None:
        """Handle the records that waited; `final`: no ServerHello is to be hoped for."""
        side = self._sides["F"]
        if final and side.pending:
            self._no_hello(side, side.pending[0].start)
        pending, side.pending, side.pending_bytes = side.pending, [], 0
        for record in pending:
            if record.version == _LOST:
                self._lost(side, record.kind, record.start, record.end)
            else:
                self._record(side, record)

    def _no_hello(self, side: _Side, offset: int) -> None:
        if self._answered == "done":
            return
        self._answered = "done"
        self.facts.keys = "ServerHello not captured"
        self._find(
            side, "tls-damaged", offset, what="the ServerHello is not in the capture",
            action="nothing can be opened without it; capture from the connection's start",
        )  # fmt: skip

    def _record(self, side: _Side, record: Record) -> bool:
        """Handle one record; False when it was a guess (record.missing) and does not open."""
        if self._pends(side, record.kind):
            self._pend(side, record)
            return True
        if side.direction == "B" and record.kind == APPLICATION_DATA and self._answered != "done":
            self._no_hello(side, record.start)
            self._drain()
        if self._protected(side, record.kind, len(record.body)):
            return self._encrypted(side, record)
        if side.unsure and not side.epoch and self._schedule and self._schedule.version == TLS12:
            # A ChangeCipherSpec may be among what is lost: then this record opens.
            side.schedule, side.epoch = self._schedule, 1
            if record.kind != CHANGE_CIPHER_SPEC and self._open(side, record):
                side.changed = True
                return True
            side.epoch = 0
        if record.missing and (side.epoch or (self._is_13() and self._answered == "done")):
            return False  # nothing proves plain text between protected records
        self._content(side, record, record.kind, bytes(record.body))
        return True

    # -- protection -------------------------------------------------------------------------------

    def _count(self, side: _Side, record: Record) -> None:
        v = self.facts.volume[side.direction]
        self.facts.volume[side.direction] = v._replace(
            records=v.records + 1, encrypted=v.encrypted + len(record.body)
        )

    def _encrypted(self, side: _Side, record: Record) -> bool:
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
            self._find(
                side, "tls-damaged", record.start, action="the rest of this direction stays closed",
                what="no record after the gap opens with any of the sequence numbers tried",
            )  # fmt: skip
        self._count(side, record)
        self._failed(side, record)
        return True

    def _open(self, side: _Side, record: Record) -> bool:
        """Try the keys in force, then the ones after them; after a gap, later sequence numbers."""
        assert side.schedule is not None
        tries = 1
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

    def _opened(self, side: _Side, record: Record, kind: int, content: bytes) -> None:
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

    def _failed(self, side: _Side, record: Record) -> None:
        """A record that touches the last one does not open."""
        assert side.schedule is not None
        if side.schedule.opener(side.direction, side.epoch) is None:
            return  # the log lacks the handshake's secret: the first of the next keys will open
        side.handshakes.reset()
        side.sequence += 1
        side.failures += 1
        if side.opened or side.unsure:
            side.hole = record.start if side.hole < 0 else side.hole
            if side.failures == 1:
                self._find(
                    side, "tls-damaged", record.start, what="a TLS record does not authenticate",
                    action="it is damaged or was altered, its plain text is lost",
                )  # fmt: skip
            return
        side.dead = side.failures >= GIVE_UP
        if "wrong" not in self._told and not any(s.opened for s in self._sides.values()):
            self._told.add("wrong")
            self.facts.keys = "wrong"
            self._find(side, "tls-wrong-key", record.start, side=side.name, advice=ADVICE)

    def _closed(self, side: _Side, record: Record) -> None:
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

    # -- content ----------------------------------------------------------------------------------

    def _content(self, side: _Side, record: Record, kind: int, content: bytes) -> None:
        if kind == APPLICATION_DATA:
            if content:
                self._out.append(Chunk(side.direction, content, record.start, record.end))
        elif kind == HANDSHAKE:
            for code, body in side.handshakes.feed(content):
                try:
                    self._message(side, record, code, body)
                except hs.MalformedError:
                    what = f"handshake message {code} of {len(body)} bytes is malformed"
                    action = "what it says is not used"
                    self._find(side, "tls-damaged", record.start, what=what, action=action)
        elif kind == ALERT:
            self._alert(side, record.start, content)
        elif kind == CHANGE_CIPHER_SPEC:
            self._change(side)
        elif kind != HEARTBEAT:
            what = f"a TLS record has the unknown content type {kind}"
            self._find(side, "tls-damaged", record.start, what=what, action="it is passed over")

    def _change(self, side: _Side) -> None:
        """ChangeCipherSpec: TLS 1.3 sends it for show (RFC 8446, appendix D.4)."""
        if self._is_13() or (side.changed and self._schedule is side.schedule):
            return
        side.changed = True
        if self._schedule is not None:
            side.schedule, side.epoch, side.sequence = self._schedule, 1, 0

    def _alert(self, side: _Side, offset: int, body: bytes) -> None:
        level, description = (body[0], body[1]) if len(body) == 2 else (0, -1)
        alert = hs.Alert(side.direction, offset, level, description)
        if len(self.facts.alerts) < MAX_ALERTS:
            self.facts.alerts.append(alert)
        if description not in {-1, 0, 90}:  # closing and cancelling are no trouble
            self._find(side, "tls-alert", offset, side=side.name, alert=str(alert))

    def _message(self, side: _Side, record: Record, code: int, body: bytes) -> None:
        facts = self.facts
        if code == hs.CLIENT_HELLO and side.direction == "F":
            hello = hs.parse_hello(body, client=True)
            self._session = hello.session
            hs.learn_client(facts, hello)
        elif code == hs.SERVER_HELLO and side.direction == "B":
            self._server_hello(side, record, hs.parse_hello(body, client=False))
        elif code == hs.ENCRYPTED_EXTENSIONS and side.direction == "B":
            facts.alpn = "".join(hs.alpn_of(hs.parse_extensions(body))[:1])
        elif code == hs.CERTIFICATE:
            hs.learn_certificates(facts, side.direction, body)
        elif code == hs.SERVER_KEY_EXCHANGE and not self._is_13():
            hs.learn_key_exchange(facts, body)
        elif code == hs.NEW_SESSION_TICKET:
            facts.tickets += 1
        elif code == hs.FINISHED and self._is_13() and side.epoch == 1:
            side.epoch, side.sequence = 2, 0
        elif code == hs.KEY_UPDATE and self._is_13() and side.epoch >= 2:
            facts.key_updates[side.direction] += 1
            side.epoch, side.sequence = side.epoch + 1, 0

    def _server_hello(self, side: _Side, record: Record, hello: hs.Hello) -> None:
        facts = self.facts
        if self._answered == "done" and (self._is_13() or not side.epoch):
            what, action = "a second ServerHello", "it is not used"
            self._find(side, "tls-damaged", record.start, what=what, action=action)
            return
        if hello.random == hs.HELLO_RETRY:
            facts.hello_retry, facts.version, self._answered = True, TLS13, "retry"
            self._drain()
            return
        self._answered = "done"
        try:
            hs.learn_server(facts, hello, self._session)
        finally:
            self._schedule = self._find_keys(side, record, hello)
            if self._is_13() and self._schedule is not None:
                for each in self._sides.values():
                    usable = [self._schedule.opener(each.direction, epoch) for epoch in (1, 2)]
                    if any(usable):
                        each.schedule, each.epoch, each.sequence = self._schedule, 1, 0
                    else:
                        facts.keys = "incomplete"
            self._drain()

    def _find_keys(self, side: _Side, record: Record, hello: hs.Hello) -> Schedule | None:
        facts = self.facts
        suite = SUITES.get(facts.suite or 0)
        unsupported = ""
        if facts.version not in {TLS12, TLS13}:
            unsupported = hs.version_name(facts.version or 0)
        elif suite is None or (suite.code >> 8 == 0x13) != (facts.version == TLS13):
            unsupported = f"cipher suite {visible(suite_name(facts.suite or 0))}"
        elif hello.compression != b"\0":
            unsupported = "TLS compression"
        if unsupported or suite is None:
            facts.keys = "unsupported"
            action = "connect with TLS 1.2 or 1.3 and AES-GCM or ChaCha20-Poly1305"
            self._find(side, "tls-unsupported", record.start, what=unsupported, action=action)
            return None
        if not facts.client_random:
            facts.keys = "ClientHello not captured"
            self._find(
                side, "tls-damaged", record.start, what="the ClientHello is not in the capture",
                action="a key log is no use without it; capture from the connection's start",
            )  # fmt: skip
            return None
        if self._keylog is None:
            facts.keys = "no key log"
            return None
        secrets = self._keylog.find(facts.client_random)
        from .keys import Schedule12, Schedule13  # only now: cryptography takes time to import

        if facts.version == TLS13 and secrets.keys() & LABELS.keys() - {"CLIENT_RANDOM"}:
            facts.keys = "found"
            return Schedule13(suite, secrets)
        if facts.version == TLS12 and "CLIENT_RANDOM" in secrets:
            facts.keys = "found"
            master = secrets["CLIENT_RANDOM"]
            etm = 22 in hello.extensions
            return Schedule12(suite, master, facts.client_random, hello.random, etm)
        facts.keys = "not in the key log"
        return None

    def _find(self, where: _Side, code: str, offset: int, **facts: Any) -> None:
        if len(self.findings) >= MAX_FINDINGS:
            self.findings_left_out += 1
            return
        # -1: the finding's own offset counts in a PostgreSQL message, and there is none here.
        self.findings.append(Located(where.direction, offset, finding(code, **facts)))
