"""Problems that end a command with one line; what a capture holds never raises these."""

from __future__ import annotations


class UserError(Exception):
    """The input could not be read at all: exit code 1. The text says why and what to try."""


class CaptureError(UserError):
    """A capture file could not be opened or is not a capture."""


class UsageProblem(Exception):  # noqa: N818
    """The command cannot be carried out as asked: exit code 2. The text says what to write."""

    def render(self) -> str:
        """The text for standard error; some problems point at a place and take more lines."""
        return str(self)
