"""CancelRequest comes on a connection of its own: which session it means, by process and key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from .session import Session


class HasSession(Protocol):
    """What has a session: a framer."""

    session: Session


class CancelLinks:
    """Pairs of a connection with a CancelRequest and the session that it was meant for."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[int, bytes], int] = {}
        self._requests: dict[int, tuple[int, bytes]] = {}
        self._known: set[int] = set()

    def update(self, touched: Iterable[int], framers: Mapping[int, HasSession]) -> set[int]:
        """Look at the connections that went on; returns those whose header changed by a new pair."""
        for number in touched:
            session = framers[number].session
            if number in self._known:
                continue
            if session.cancels is not None:
                self._requests[number] = session.cancels
                self._known.add(number)
            elif session.process_id and session.cancel_key:
                # a later session may get the same process number; its key differs
                self._sessions[session.process_id, session.cancel_key] = number
                self._known.add(number)
        changed: set[int] = set()
        for number, wanted in list(self._requests.items()):
            target = self._sessions.get(wanted)
            if target is None:
                continue
            del self._requests[number]
            framers[number].session.cancel_target = target
            framers[target].session.cancelled_by.append(number)
            changed |= {number, target}
        return changed
