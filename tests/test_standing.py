"""Where replication stood at the end, against the server's list and the bytes of the client's last word."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from click.testing import CliRunner

from dissector.cli import pgdissect
from dissector.standing import replicating, standing
from dissector.view import open_capture

FOLDER = Path(__file__).parent.parent / "captures" / "conversation"
UPDATE = b"d\x00\x00\x00\x26r"
"""How a CopyData with a Standby status update begins: 38 bytes, the letter r."""

END = {"C": 10, "c": 14, "K": 10, "r": 10}
"""Messages that end a transaction for the client -> where their end LSN stands."""


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(where it ends in the file, bytes) of each packet of a little-endian pcap."""
    at = 24
    while at < len(data):
        (size,) = struct.unpack("<I", data[at + 8 : at + 12])
        at += 16 + size
        yield at, data[at - size : at]


def updates(data: bytes) -> list[tuple[int, int]]:
    """(end of its packet in the file, flushed LSN) of each Standby status update."""
    return [
        (end, int.from_bytes(packet[at + 14 : at + 22], "big"))
        for end, packet in packets(data)
        if (at := packet.find(UPDATE)) >= 0
    ]


def ends(name: str) -> list[tuple[int, int]]:
    """(xid, end LSN) of each transaction in the server's own list, in its order."""
    found = []
    for _, xid, text in json.loads((FOLDER / f"{name}.json").read_text())["peek"]:
        data = bytes.fromhex(text)
        if at := END.get(chr(data[0])):
            found.append((int(xid), int.from_bytes(data[at : at + 8], "big")))
    return found


def test_a_client_that_lags_behind(tmp_path: Path) -> None:
    data = (FOLDER / "subscription-18-16.pcap").read_bytes()
    end, flushed = updates(data)[-3]
    (tmp_path / "cut.pcap").write_bytes(data[:end])
    capture = open_capture([str(tmp_path / "cut.pcap")]).read()
    at = standing(capture, list(replicating(capture))[-1])
    assert at is not None
    waiting = [(xid, lsn) for xid, lsn in ends("subscription-18-16") if lsn > flushed]
    assert len(waiting) > 1  # or else the capture is no longer the one this test needs
    assert (at.flushed, at.waiting) == (flushed, len(waiting))
    assert at.told == waiting[-1][1]
    assert at.behind == waiting[-1][1] - flushed
    assert at.first is not None and at.first.xid == waiting[0][0]
    assert at.open is None
    shown = CliRunner().invoke(pgdissect, ["stats", str(tmp_path / "cut.pcap")]).stdout
    assert f"first transaction not confirmed  xid {waiting[0][0]} " in shown


def test_a_client_that_has_confirmed_all() -> None:
    data = (FOLDER / "subscription-18-16.pcap").read_bytes()
    capture = open_capture([str(FOLDER / "subscription-18-16.pcap")]).read()
    at = standing(capture, list(replicating(capture))[-1])
    assert at is not None
    assert at.flushed == updates(data)[-1][1] == ends("subscription-18-16")[-1][1]
    assert (at.behind, at.waiting, at.first) == (0, 0, None)


def test_a_connection_of_queries_stands_nowhere() -> None:
    capture = open_capture([str(FOLDER / "query-extended.pcap")]).read()
    assert replicating(capture) == {}
    assert standing(capture, 0) is None


def test_machine_output(tmp_path: Path) -> None:
    path = FOLDER / "subscription-18-16.pcap"
    shown = CliRunner().invoke(pgdissect, ["stats", "--json", str(path)]).stdout
    last = json.loads(shown)["replication"][-1]
    flushed = updates(path.read_bytes())[-1][1]
    assert last["flushed_lsn"] == f"{flushed >> 32:X}/{flushed & 0xFFFFFFFF:X}"
    assert (last["behind_bytes"], last["first_unconfirmed_xid"]) == (0, None)


def test_stats_tell_who_logged_in_how_and_who_cancelled_whom() -> None:
    def stats(name: str) -> list[dict[str, str]]:
        shown = CliRunner().invoke(pgdissect, ["stats", "--json", str(FOLDER / name)]).stdout
        found: list[dict[str, str]] = json.loads(shown)["sessions"]
        return found

    process = str(json.loads((FOLDER / "cancel.json").read_text())["process"])
    busy, hit, missed = stats("cancel.pcap")
    assert (busy["process_id"], hit["cancels_process"]) == (process, process)
    assert (hit["cancels_connection"], busy["cancelled_by_connection"]) == ("0", "1")
    assert "cancels_connection" not in missed
    assert [s["authentication"] for s in stats("login-scram.pcap")] == ["SCRAM-SHA-256"] * 2
    assert stats("tls13.pcapng")[0]["encryption"] == "TLS"
    shown = CliRunner().invoke(pgdissect, ["stats", str(FOLDER / "cancel.pcap")]).stdout
    assert f"cancels process {process}, cancels connection 0" in shown
