"""Where TLS keys come from: the key log that the user names, and what the captures themselves hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import UserError
from .findings import finding

if TYPE_CHECKING:
    from .capture import CaptureFiles
    from .tls import KeyLog

TLS_KEY_LOG = 0x544C534B
"""Secrets type of a pcapng Decryption Secrets Block: an NSS key log (draft-ietf-opsawg-pcapng)."""


class Keys:
    """The key log for a capture; `log` is None while there are no keys at all.

    path: an NSS key log, "" for none. Raises UserError with one line where it cannot be used.
    """

    def __init__(self, path: str = "") -> None:
        self.log: KeyLog | None = None
        self._taken = 0
        if path:
            from .tls import KeyLogError, load_keylog

            try:
                self.log = load_keylog(path)
            except KeyLogError as error:
                raise UserError(str(error)) from None

    def learn(self, files: CaptureFiles) -> None:
        """Take the Decryption Secrets Blocks that came since the last call; never raises."""
        news = files.secrets[self._taken :]
        self._taken += len(news)
        for kind, data in news:
            if kind != TLS_KEY_LOG:
                continue
            from .tls import KeyLog

            if self.log is None:
                self.log = KeyLog()
            name = "the capture's Decryption Secrets Block"
            for problem in self.log.extend(data, name, strict=False):
                files.findings.append(
                    finding("tls-damaged", what=problem, action="the rest is used")
                )
