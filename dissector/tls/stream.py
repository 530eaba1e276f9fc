"""One TLS connection: two directions of records in, plain text with its place in the stream out."""

from __future__ import annotations

from . import handshake as hs
from .keylog import KeyLog
from .negotiate import find_keys
from .opening import Opening
from .records import (
    ALERT,
    APPLICATION_DATA,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    HEARTBEAT,
    Framer,
    Record,
)
from .state import SIDES, Chunk, Side
from .suites import TLS12, TLS13

MAX_PENDING = 4 << 20
"""Bytes of records kept that come before the ServerHello which tells how to open them."""

MAX_ALERTS = 64

_LOST = 0
"""The version of a record that waits and whose bytes are lost; real ones begin with 3."""


class TLSStream(Opening):
    """Opens the records of one TLS connection, incrementally and in both directions.

    Feed it from the ClientHello on: after SSLRequest and its 'S', or from the first byte. Nothing
    raises on what the streams hold: wrong keys, damage and gaps become `findings` (Located), and
    what the connection says about itself is in `facts`. Memory: one record per direction, and up to
    4 MiB of records that come before the ServerHello.
    """

    def __init__(self, keylog: KeyLog | None = None) -> None:
        super().__init__()
        self._keylog = keylog
        self._sides = {name: self._side(name) for name in SIDES}
        self._session = b""
        self._answered = ""  # "retry": HelloRetryRequest; "done": ServerHello seen, or surely lost

    def _side(self, direction: str) -> Side:
        return Side(
            direction,
            Framer(
                lambda record: self._record(self._sides[direction], record),
                lambda kind, start, end: self._lost(self._sides[direction], kind, start, end),
                lambda offset, first: self._damaged(self._sides[direction], offset, first),
            ),
        )

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
                self._find(side, "tls-ended", end - have, have=have, need=need)
            if side.hole >= 0 and end > side.hole and side.schedule is not None:
                self._out.append(Chunk(side.direction, b"", side.hole, end, lost=True))
                side.hole = -1
        return self._take_out()

    # -- framing ----------------------------------------------------------------------------------

    def _take_out(self) -> list[Chunk]:
        out, self._out = self._out, []
        return out

    def _gap(self, side: Side, offset: int, length: int) -> None:
        side.handshakes.reset()
        side.unsure = True
        at = offset - side.framer.waiting[0]
        if side.framer.searching:
            side.framer.gap(offset, length)
            return
        side.framer.gap(offset, length)
        if side.framer.searching:
            about = "the records in it are lost, up to the next one that opens"
            if side.hole < 0:
                side.hole = max(at, side.lost_to)
        else:
            about = "one record is lost, the next one is known to begin after it"
        self._find(side, "tls-gap", at, bytes=length, about=about)

    def _lost(self, side: Side, kind: int, start: int, end: int) -> None:
        if self._pends(side, kind):
            self._pend(side, Record(kind, _LOST, start, end, b""))
        elif side.epoch and self._protected(side, kind):
            side.sequence += 1
            if side.hole < 0:  # else it lies inside a longer hole
                side.lost_to = end
                self._out.append(Chunk(side.direction, b"", start, end, lost=True))

    def _damaged(self, side: Side, offset: int, first: bytes) -> None:
        side.handshakes.reset()
        side.unsure = True
        if side.hole < 0 and side.epoch:
            side.hole = offset
        self._find(
            side, "tls-damaged", offset,
            what=f"no TLS record begins here (bytes {first.hex(' ')})",
            action="looking for the next record that opens",
        )  # fmt: skip

    def _protected(self, side: Side, kind: int, length: int = 0) -> bool:
        if kind == APPLICATION_DATA:
            return True
        if self._is_13():
            return False
        return side.changed and (kind != CHANGE_CIPHER_SPEC or length > 1)

    def _pends(self, side: Side, kind: int) -> bool:
        """Whether a record must wait for the ServerHello. The server's own come after it."""
        if self._answered == "done" or side.direction == "B":
            return False
        if kind == APPLICATION_DATA or side.pending:
            return True
        return kind == CHANGE_CIPHER_SPEC and not self._answered

    def _pend(self, side: Side, record: Record) -> None:
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

    def _no_hello(self, side: Side, offset: int) -> None:
        if self._answered == "done":
            return
        self._answered = "done"
        self.facts.keys = "ServerHello not captured"
        self._find(
            side, "tls-damaged", offset, what="the ServerHello is not in the capture",
            action="nothing can be opened without it; capture from the connection's start",
        )  # fmt: skip

    def _record(self, side: Side, record: Record) -> bool:
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
        if side.epoch and self._is_13() and record.kind not in {ALERT, CHANGE_CIPHER_SPEC}:
            what = (
                f"a TLS record of type {record.kind} that is not encrypted, after encryption began"
            )
            self._find(side, "tls-damaged", record.start, what=what, action="it is passed over")
            return not record.missing
        if record.missing and (side.epoch or (self._is_13() and self._answered == "done")):
            return False  # nothing proves plain text between protected records
        self._content(side, record, record.kind, bytes(record.body))
        return True

    # -- content ----------------------------------------------------------------------------------

    def _content(self, side: Side, record: Record, kind: int, content: bytes) -> None:
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

    def _change(self, side: Side) -> None:
        """ChangeCipherSpec: TLS 1.3 sends it for show (RFC 8446, appendix D.4)."""
        if self._is_13() or (side.changed and self._schedule is side.schedule):
            return
        side.changed = True
        if self._schedule is not None:
            side.schedule, side.epoch, side.sequence = self._schedule, 1, 0

    def _alert(self, side: Side, offset: int, body: bytes) -> None:
        level, description = (body[0], body[1]) if len(body) == 2 else (0, -1)
        alert = hs.Alert(side.direction, offset, level, description)
        if len(self.facts.alerts) < MAX_ALERTS:
            self.facts.alerts.append(alert)
        if description not in {-1, 0, 90}:  # closing and cancelling are no trouble
            self._find(side, "tls-alert", offset, side=side.name, alert=str(alert))

    def _message(self, side: Side, record: Record, code: int, body: bytes) -> None:
        facts = self.facts
        if code == hs.CLIENT_HELLO and side.direction == "F":
            if self._answered == "done" and not side.epoch:
                return  # before protection there is one, or two around a HelloRetryRequest
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

    def _server_hello(self, side: Side, record: Record, hello: hs.Hello) -> None:
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
            self._schedule, problem = find_keys(facts, hello, self._keylog)
            if problem is not None:
                code, what, action = problem
                self._find(side, code, record.start, what=what, action=action)
            if self._is_13() and self._schedule is not None:
                for each in self._sides.values():
                    usable = [self._schedule.opener(each.direction, epoch) for epoch in (1, 2)]
                    if any(usable):
                        each.schedule, each.epoch, each.sequence = self._schedule, 1, 0
                    else:
                        facts.keys = "incomplete"
            self._drain()
