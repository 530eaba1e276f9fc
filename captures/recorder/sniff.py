"""Sniffing the loopback interface with tcpdump, and pcapng with comments made of its file."""

from __future__ import annotations

import contextlib
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from .servers import RecorderError


class LostError(RecorderError):
    """tcpdump dropped packets: recording again helps."""


def check_rights() -> None:
    """Raise RecorderError when this process cannot sniff."""
    if not shutil.which("tcpdump"):
        raise RecorderError("tcpdump is not installed; install the package tcpdump")
    if os.geteuid() != 0:
        raise RecorderError("sniffing needs root; run the recorder as root (sudo)")


@contextlib.contextmanager
def sniffing(path: Path, port: int, *options: str, interface: str = "lo") -> Iterator[None]:
    """Write all packets from and to a TCP port into a pcap file while the block runs."""
    check_rights()
    command = [
        "tcpdump",
        "-i",
        interface,
        "--immediate-mode",
        "-U",
        "-n",
        "-Z",
        "root",
        "-B",
        "65536",
    ]
    command += [*options, "-w", str(path), f"tcp port {port}"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = ""
        while "listening on" not in line:
            line = process.stderr.readline()
            if not line:
                raise RecorderError(f"tcpdump did not start: {' '.join(command)}")
        time.sleep(0.2)
        yield
        time.sleep(1.0)  # the connection's FIN arrives last; without the wait the tail is lost
    finally:
        process.terminate()
        _, report = process.communicate(timeout=10)
    for line in report.splitlines():
        if "dropped by kernel" in line and not line.startswith("0 "):
            raise LostError(f"tcpdump lost packets ({line}); record again")


@contextlib.contextmanager
def ethernet_sized_segments() -> Iterator[None]:
    """Make the loopback interface cut segments as Ethernet does (1448 bytes); put it back after."""
    if not shutil.which("ethtool") or not shutil.which("ip"):
        raise RecorderError("ip (iproute2) and ethtool are needed to cut segments as Ethernet does")
    mtu = Path("/sys/class/net/lo/mtu").read_text().strip()

    def offload(state: str) -> None:
        subprocess.run(
            ["ethtool", "-K", "lo", "tso", state, "gso", state, "gro", state],
            check=True,
            capture_output=True,
        )

    try:
        subprocess.run(["ip", "link", "set", "lo", "mtu", "1500"], check=True)
        offload("off")
        yield
    finally:
        subprocess.run(["ip", "link", "set", "lo", "mtu", mtu], check=False)
        with contextlib.suppress(subprocess.CalledProcessError):
            offload("on")


def read_pcap(path: Path) -> tuple[int, list[tuple[int, int, bytes]]]:
    """Link type and packets (nanoseconds since 1970, length on the wire, bytes) of tcpdump's file."""
    data = path.read_bytes()
    (magic,) = struct.unpack_from("<I", data)
    scale = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}[magic]
    (link,) = struct.unpack_from("<I", data, 20)
    packets, at = [], 24
    while at < len(data):
        seconds, fraction, kept, length = struct.unpack_from("<IIII", data, at)
        at += 16
        packets.append((seconds * 10**9 + fraction * scale, length, data[at : at + kept]))
        at += kept
    return link, packets


def _option(code: int, value: bytes) -> bytes:
    return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)


def _block(kind: int, body: bytes) -> bytes:
    length = len(body) + 12
    return struct.pack("<II", kind, length) + body + struct.pack("<I", length)


def write_pcapng(
    source: Path,
    target: Path,
    comment: Callable[[int, bytes], str | None],
    title: str,
    secrets: bytes = b"",
) -> None:
    """Write tcpdump's file as pcapng; ``comment`` gets number (from 1) and bytes of each packet.

    ``secrets`` (an NSS key log) goes into a Decryption Secrets Block when it is not empty.
    """
    link, packets = read_pcap(source)
    out = [_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
                  + _option(1, title.encode()) + _option(4, b"captures/record.py")
                  + _option(0, b""))]  # fmt: skip
    # if_name, if_tsresol 9 (nanoseconds)
    out.append(_block(1, struct.pack("<HHI", link, 0, 262144)
                      + _option(2, b"lo") + _option(9, b"\x09") + _option(0, b"")))  # fmt: skip
    if secrets:
        pad = b"\0" * (-len(secrets) % 4)
        out.append(_block(10, struct.pack("<II", 0x544C534B, len(secrets)) + secrets + pad))
    for number, (when, length, data) in enumerate(packets, 1):
        head = struct.pack("<IIIII", 0, when >> 32, when & 0xFFFFFFFF, len(data), length)
        body = head + data + b"\0" * (-len(data) % 4)
        text = comment(number, data)
        if text:
            body += _option(1, text.encode()) + _option(0, b"")
        out.append(_block(6, body))
    target.write_bytes(b"".join(out))
