"""Problems that end a command with one line; what a capture holds never raises these."""

from __future__ import annotations


class UserError(Exception):
    """The input could not be read at all: exit code 1. The text says why and what to try."""


class CaptureError(UserError):
    """A capture file could not be opened or is not a capture."""


class ShorterError(CaptureError):
    """A capture file became shorter than it was when it was opened. source: its number; at: the first
    byte of it that was wanted and may be gone."""

    def __init__(self, label: str, source: int, at: int) -> None:
        super().__init__(
            f"{label}: became shorter while it was read; copy it to where nobody writes, and read "
            "the copy"
        )
        self.source, self.at = source, at


class UsageProblem(Exception):  # noqa: N818
    """The command cannot be carried out as asked: exit code 2. The text says what to write."""

    def render(self) -> str:
        """The text for standard error; some problems point at a place and take more lines."""
        return str(self)
