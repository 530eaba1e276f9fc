"""Recording what passes an interface, to a file that others read while it grows.

A recorder is a program of its own (dumpcap, tcpdump, or scapy in another Python), so that nothing is
lost while the interface is busy, and so that only the recorder needs rights.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import UserError
from .text import visible

PORT = 5432
"""What PostgreSQL listens on unless told otherwise."""

PATIENCE = 5.0
"""Seconds that a recorder may take to begin its file, and to end it."""

RECORDERS = ("dumpcap", "tcpdump", "scapy")
"""In the order of preference: the first drops least, the last needs nothing but scapy."""

_SCAPY = (
    "import sys\n"
    "from scapy.all import AsyncSniffer, PcapWriter\n"
    "import signal, time\n"
    "out = PcapWriter(sys.argv[2], sync=True, snaplen=262144)\n"
    "out.write_header(None)\n"
    "sniffer = AsyncSniffer(iface=sys.argv[1], filter=sys.argv[3] or None, store=False,"
    " prn=out.write)\n"
    "signal.signal(signal.SIGTERM, signal.default_int_handler)\n"
    "sniffer.start()\n"
    "try:\n"
    "    sniffer.thread.join()\n"
    "    if sniffer.exception: raise sniffer.exception\n"
    "except KeyboardInterrupt:\n"
    "    sniffer.stop(); out.close()\n"
)


class RecordingError(UserError):
    """Nothing can be recorded; the text says why and what to try."""


def capture_filter(ports: Sequence[int]) -> str:
    """The recorder's filter: TCP of these ports, fragments of packets included."""
    wanted = " or ".join(f"tcp port {port}" for port in ports or (PORT,))
    return f"({wanted}) or (ip[6:2] & 0x1fff != 0)"


def command(recorder: str, interface: str, ports: Sequence[int], path: str) -> list[str]:
    """The recorder's command line. path: the file that it writes."""
    wanted = capture_filter(ports)
    if recorder == "dumpcap":
        return ["dumpcap", "-q", "-i", interface, "-f", wanted, "-s", "262144", "-w", path]
    if recorder == "tcpdump":
        return ["tcpdump", "-U", "-n", "-i", interface, "-s", "262144", "-w", path, wanted]
    return [sys.executable, "-c", _SCAPY, interface, path, wanted]


class Recorder:
    """A running recorder. Use as a context manager; leaving ends it after it wrote everything.

    path: the file. temporary: nobody named it; it is gone after `close`. program: which recorder.
    """

    def __init__(
        self, interface: str, ports: Sequence[int] = (), write: str = "", program: str = ""
    ) -> None:
        self.interface = interface
        self.temporary = not write
        if write and Path(write).exists():
            raise RecordingError(
                f"{visible(write)} exists; nothing is written over: name another file"
            )
        self._folder = tempfile.mkdtemp(prefix="pgdissect-live-") if not write else ""
        self.path = write or str(Path(self._folder) / "live.pcapng")
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the recorder)
        found = [program] if program else [r for r in RECORDERS if r == "scapy" or shutil.which(r)]
        problems = []
        for each in found:
            self.program = each
            try:
                self._start(ports)
            except RecordingError as error:
                problems.append(str(error))
            else:
                return
        self._tidy()
        raise RecordingError(self._advice(problems))

    def _start(self, ports: Sequence[int]) -> None:
        words = command(self.program, self.interface, ports, self.path)
        self._said.seek(0)
        self._said.truncate()
        try:
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=self._said, stderr=self._said,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise RecordingError(f"{self.program}: {error.strerror}") from error
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self._process.poll() is not None:
                raise RecordingError(f"{self.program}: {self.said() or 'ended at once'}")
            with contextlib.suppress(OSError):
                if os.stat(self.path).st_size:  # noqa: PTH116
                    return
            time.sleep(0.02)

    def said(self) -> str:
        """The recorder's last words."""
        self._said.seek(0)
        lines = self._said.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        wrong = [
            line for line in lines if "ermission" in line or "rror" in line or "No such" in line
        ]
        return visible(" ".join(wrong or lines[-2:]), 300)

    def _advice(self, problems: list[str]) -> str:
        text = "; ".join(problems) or "no recorder was found"
        low = text.lower()
        if "permission" in low or "permitted" in low or "root" in low:
            return (
                f"{text}. Recording needs rights: try sudo, or join the group wireshark; or record "
                "elsewhere: ssh HOST sudo tcpdump -U -w - -i any port 5432 | pgdissect -"
            )
        if "no such device" in low or "not found" in low or "doesn't exist" in low:
            return f"{text}. Interfaces are listed by: dumpcap -D, tcpdump -D or ip link"
        return f"{text}. Try: tcpdump -U -w - -i {visible(self.interface)} | pgdissect -"

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def running(self) -> bool:
        """Whether it still records."""
        return self._process.poll() is None

    def stop(self) -> None:
        """End recording; the file is whole then."""
        if self.running:
            for kind in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
                self._process.send_signal(kind)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(PATIENCE)
                    return

    def close(self) -> None:
        """End recording, and take a file away that nobody named."""
        self.stop()
        self._said.close()
        self._tidy()

    def _tidy(self) -> None:
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
