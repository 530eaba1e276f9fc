"""Work behind the screen: a thread that goes through messages and hands over the numbers it finds."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dissector.halting import HaltedError, halting

Numbers = NDArray[np.int64]

NONE: Numbers = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Step:
    """numbers: of the messages that were found since the last step. done, total: how far it is.

    before: they come before all that was found so far, in place of after it. place: where it was found in
    one message."""

    numbers: Numbers
    done: int
    total: int
    before: bool = False
    place: Any = None


@dataclass
class Job:
    """One piece of work. steps: a generator, run in a thread; it ends early when `cancel` was called.

    done, total: of the last step that was taken. failed: why it ended, "" for nothing.
    """

    steps: Callable[[], Iterator[Step]]
    done: int = 0
    total: int = 0
    failed: str = ""
    found: int = 0
    cancelled: bool = False
    _given: deque[Step] = field(default_factory=deque)
    _ended: threading.Event = field(default_factory=threading.Event)

    def start(self) -> Job:
        """Begin."""
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def _run(self) -> None:
        try:
            with halting(lambda: self.cancelled):
                for step in self.steps():
                    if self.cancelled:
                        break
                    self._given.append(step)
        except HaltedError:
            pass
        except Exception as error:  # shown by whoever takes the results; a thread has no other way
            self.failed = str(error) or type(error).__name__
        finally:
            self._ended.set()

    def cancel(self) -> None:
        """End soon."""
        self.cancelled = True

    def wait(self, seconds: float) -> None:
        """Wait for its end, so long at most."""
        self._ended.wait(seconds)

    @property
    def running(self) -> bool:
        """Whether there is or may come anything to `take`."""
        return bool(self._given) or not self._ended.is_set()

    def take(self) -> list[Step]:
        """The steps since the last call."""
        taken = []
        while self._given:
            step = self._given.popleft()
            self.done, self.total = step.done, step.total
            self.found += len(step.numbers)
            taken.append(step)
        return taken
