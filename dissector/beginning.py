"""The beginning of a connection: who is the client, start-up packets, answers, encryption."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import recognise
from .catalogue.startup import GSS_ANSWER, REFUSAL, TLS_ANSWER
from .findings import finding
from .rows import ASSUMED, DECRYPTED
from .sides import (
    ANSWER,
    GSS,
    HEAD_GAPS,
    HEAD_LIMIT,
    LOST,
    MESSAGES,
    STARTUP,
    TLS,
    WAITS,
    Block,
    Framed,
    Side,
)
from .units import Units

if TYPE_CHECKING:  # cryptography is imported where a connection is encrypted
    from .plaintext import PlainText


class Beginning(Units):
    """Judges the first bytes, and follows a connection into TLS or GSSAPI."""

    def _decide(self, final: bool) -> bool:
        """Find out whether this is PostgreSQL and which side is the client; True when decided."""
        while True:
            for side in self.sides:
                while side.take():
                    pass
            verdict = self._verdict(final)
            if verdict is not None or not self._over_gap():
                break
        if verdict is None:
            seen = sum(side.total for side in self.sides)
            many = self.gaps > HEAD_GAPS
            verdict = False if final or many or seen > HEAD_LIMIT else None
        if verdict is None:
            return False
        if not verdict:
            self._give_up()
            return False
        self.decided = True
        return True

    def _over_gap(self) -> bool:
        """Go on behind the first gap that the bytes end at: what is before it proved nothing."""
        ends = [side for side in self.sides if side.waiting]
        if not ends or self.gaps > HEAD_GAPS:
            return False
        side = min(ends, key=lambda side: side.waiting[0].arrival)
        gap = side.waiting.popleft()
        side.unread += side.left()
        side.lost += gap.length
        side.buffer, side.at, side.base = b"", 0, gap.offset + gap.length
        self.gaps += 1
        return True

    def _give_up(self) -> None:
        self.foreign = True
        for side in self.sides:
            side.waiting.clear()
            side.buffer = b""
            side.at = 0

    def _verdict(self, final: bool) -> bool | None:
        """True: PostgreSQL, roles and modes are set; False: not; None: not enough bytes yet."""
        starts = [(side.buffer[: recognise.LARGEST_STARTUP]) for side in self.sides]
        candidates = (0, 1) if self.client is None else (self.client,)
        waits = False
        for client in candidates:
            if self.sides[client].base:  # the first byte is not in the capture
                continue
            packet = recognise.startup_packet(starts[client]) if starts[client] else None
            if packet is None and starts[client]:
                waits = True
            if packet:
                self._roles(client, STARTUP, MESSAGES)
                return True
            if recognise.is_tls_record(starts[client]):
                hello = self._direct_tls(starts[client], final)
                server = b"" if self.from_start else starts[1 - client]
                if server[:1] == TLS_ANSWER.encode() and (
                    hello or recognise.is_tls_record(server[1:])
                ):
                    self.session.asked_encryption = (
                        "SSLRequest"  # not in the capture, its answer is
                    )
                    self._roles(client, WAITS, ANSWER)
                    return True
                if hello:
                    self.session.facts["encryption"] = "TLS (direct)"
                    self._begin_tls(client)
                    return True
                waits |= hello is None
        return self._middle(starts, candidates, waits, final)

    def _middle(
        self, starts: list[bytes], candidates: tuple[int, ...], waits: bool, final: bool
    ) -> bool | None:
        """The same for a connection whose beginning is not in the capture."""
        best, proof = -1, 0
        for client in candidates:
            layers = {client: "frontend", 1 - client: "backend"}
            scores = [
                recognise.seek(layers[i], starts[i], self._dialects(i), final)
                if starts[i]
                else None
                for i in (0, 1)
            ]
            score = sum(s for s in scores if s)
            if score > proof and (0 not in scores or score >= recognise.PROOF):
                best, proof = client, score
        if proof >= recognise.PROOF or (final and proof and (self.forced or proof > 1)):
            self._roles(best, LOST, LOST)
            self.session.began_in_middle = True
            self.session.in_startup = False
            note = finding("began-mid-session", what="roles, release and dialect are")
            self.sides[best].notes.append(note)
            return True
        first = self.from_start and not any(side.base for side in self.sides)
        if first and not waits and all(len(s) > 64 for s in starts) and not proof:
            return False
        return None

    def _direct_tls(self, start: bytes, final: bool) -> bool | None:
        """Whether a TLS ClientHello begins a PostgreSQL connection; None: not all of it is here."""
        if self.forced or recognise.is_postgres_hello(start):
            return True
        whole = len(start) >= 5 and len(start) >= 5 + int.from_bytes(start[3:5], "big")
        return False if whole or final else None

    def _begin_tls(self, client: int) -> None:
        """From here on both sides send TLS records."""
        from .encrypted import Encrypted
        from .framing import Framer

        self._roles(client, TLS, TLS)
        inner = Framer(self.tables, self.assumptions, client, (0, 0), session=self.session)
        inner.decided = True
        inner.fast = self.fast
        inner.number = self.number
        inner.flags = DECRYPTED
        inner._roles(client, STARTUP, MESSAGES)
        self.encrypted = Encrypted(inner, client, self.keylog)
        self.session.tls = self.encrypted.facts

    def _startup(self, side: Side, size: int) -> Iterator[Framed]:
        packet = recognise.startup_packet(side.buffer[side.at : side.at + size])
        if not packet:
            side.mode = LOST
            return
        server = self.sides[1 - side.physical]
        name = getattr(packet, "name", "")
        yield from self._early(server, side.place(side.offset() + size)[0], name)
        framed = self._message(side, size)
        if name in ("SSLRequest", "GSSENCRequest"):
            server.mode = ANSWER
            side.mode = WAITS
            self.session.asked_encryption = name
        else:
            side.mode = MESSAGES
            if server.mode == WAITS:
                server.mode = MESSAGES
        yield framed

    def _early(self, server: Side, arrival: int, name: str) -> Iterator[Framed]:
        """The server's refusal of encryption that came before the client's first packet in the capture:
        the request that it answers is not in it."""
        if self.from_start or server.consumed or server.mode != MESSAGES or not server.left():
            return
        earlier = server.place(server.offset() + 1)[0] < arrival
        if earlier and server.buffer[server.at] == ord(REFUSAL):
            asked = "GSSENCRequest" if name == "SSLRequest" else "SSLRequest"
            self.session.asked_encryption = asked
            self.session.encryption_answer(REFUSAL)
            framed = self._outside(server, 1, "")
            framed.flags |= ASSUMED
            yield framed

    def _answer(self, side: Side) -> Iterator[Framed]:
        """The server's one byte; anything else is a message (an ErrorResponse)."""
        byte = chr(side.buffer[side.at])
        client = self.sides[1 - side.physical]
        side.mode = MESSAGES
        client.mode = STARTUP
        if byte not in "SNG":
            return
        self.session.encryption_answer(byte)
        yield self._outside(side, 1, "")
        side.mode = WAITS
        if byte == TLS_ANSWER:
            self._begin_tls(client.physical)
        elif byte == GSS_ANSWER:
            client.mode = side.mode = GSS

    def _unanswered(self, side: Side) -> None:
        """The other side's answer is not in the capture: what this one sends next tells."""
        if side.physical != self.client:
            side.mode = MESSAGES
        elif recognise.is_tls_record(side.buffer[side.at : side.at + 8]):
            self.session.encryption_answer(TLS_ANSWER)
            self._begin_tls(side.physical)
        else:
            side.mode = STARTUP

    def _decrypted(self, final: bool) -> Iterator[Framed | Block | bytes]:
        """Messages out of the plain text that TLS records held."""
        if self.encrypted is None:
            return
        yield from self.encrypted.inner.messages(final)
        for found in (self.encrypted.found, self.encrypted.inner.found):
            self.found += found
            found.clear()

    def plain(self) -> list[PlainText]:
        """The plain text of TLS records since the last call."""
        return [] if self.encrypted is None else self.encrypted.plain()
