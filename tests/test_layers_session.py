"""PostgresSession: whole messages from a capture at a scapy prompt, whatever the segmentation."""

from __future__ import annotations

import gzip
import json
import random
from itertools import pairwise
from pathlib import Path

import pytest
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.sendrecv import sniff
from scapy.utils import RawPcapNgReader, wrpcap

from dissector.layers import (
    CopyData,
    DataRow,
    Insert,
    PostgresSession,
    Query,
    StartupMessage,
    TLSRecord,
    XLogData,
)

CAPTURES = Path(__file__).parent.parent / "captures"
TOUR = CAPTURES / "tour.pcapng"
FILES = sorted(
    path
    for path in CAPTURES.glob("*.pca*[pg]")
    if path.with_name(f"{path.stem}.truth.jsonl.gz").exists()
)

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 6543)
WRAP = (1 << 32) - 3000
"""First sequence number of both sides: it wraps after 3,000 bytes."""


def read(path: Path) -> list[Packet]:
    return list(sniff(offline=str(path), session=PostgresSession))


def truth(path: Path) -> list[bytes]:
    """The server's own list of the pgoutput messages in a capture."""
    with gzip.open(path.with_name(f"{path.stem}.truth.jsonl.gz"), "rt") as lines:
        return [bytes.fromhex(json.loads(line)["data"]) for line in lines]


def pgoutput(pkts: list[Packet]) -> list[bytes]:
    return [bytes(pkt[XLogData].payload) for pkt in pkts if XLogData in pkt]


def message(pkt: Packet) -> bytes:
    return bytes(pkt[TCP].payload)


@pytest.fixture(scope="module")
def talk() -> list[tuple[str, bytes]]:
    """(sender, message) of the first connection of the tour, in order."""
    pkts = read(TOUR)
    port = pkts[0][TCP].sport
    return [(p.sender, message(p)) for p in pkts if port in (p[TCP].sport, p[TCP].dport)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_messages_are_the_servers_own_list(path: Path) -> None:
    """Of long captures, the first 2,000 messages; kinds that come later are in the tour."""
    pkts = list(sniff(offline=str(path), session=PostgresSession, count=2000))
    got, wanted = pgoutput(pkts), truth(path)
    assert {each[:1] for each in wanted} <= {each[:1] for each in got + truth(TOUR)}
    assert got == (wanted if len(pkts) < 2000 else wanted[: len(got)])


def test_frames_direction_time_of_each_message() -> None:
    raw = [data for data, _ in RawPcapNgReader(str(TOUR))]
    times = [pkt.time for pkt in sniff(offline=str(TOUR))]
    pkts = read(TOUR)
    assert type(pkts[0][TCP].payload) is StartupMessage
    for pkt in pkts:
        held = b"".join(raw[frame - 1] for frame in pkt.frames)
        assert message(pkt) in held
        assert pkt.time == times[pkt.frames[-1] - 1]
        assert pkt.sender == ("B" if pkt[TCP].sport == 5432 else "F")
    assert {pkt.sender for pkt in pkts} == {"F", "B"}


# -- the same talk in other segments ----------------------------------------------------------------


def segments(talk: list[tuple[str, bytes]], sizes: list[int]) -> list[Packet]:
    """The talk as a connection whose bytes are cut at `sizes`, again and again."""
    ends = {"F": (CLIENT, SERVER), "B": (SERVER, CLIENT)}
    seq = {"F": WRAP, "B": WRAP}

    def packet(sender: str, data: bytes, flags: str) -> Packet:
        (src, sport), (dst, dport) = ends[sender]
        other = "B" if sender == "F" else "F"
        pkt = Ether() / IP(src=src, dst=dst) / TCP(
            sport=sport, dport=dport, flags=flags, seq=seq[sender], ack=seq[other]
        )  # fmt: skip
        seq[sender] = (seq[sender] + len(data) + (flags[0] in "SF")) % (1 << 32)
        return pkt / Raw(data) if data else pkt

    pkts = [packet("F", b"", "S"), packet("B", b"", "SA"), packet("F", b"", "A")]
    runs: list[tuple[str, bytes]] = []
    for sender, data in talk:
        if runs and runs[-1][0] == sender:
            runs[-1] = (sender, runs[-1][1] + data)
        else:
            runs.append((sender, data))
    step = 0
    for sender, data in runs:
        while data:
            size = sizes[step % len(sizes)]
            step += 1
            pkts.append(packet(sender, data[:size], "PA"))
            data = data[size:]
    pkts += [packet("F", b"", "FA"), packet("B", b"", "FA")]
    for i, pkt in enumerate(pkts):
        pkt.time = 1_000_000 + i
    return pkts


def again(tmp_path: Path, pkts: list[Packet]) -> list[Packet]:
    path = tmp_path / "talk.pcap"
    wrpcap(str(path), pkts)
    return read(path)


@pytest.mark.parametrize("sizes", [[17], [61, 1, 1448], [536], [1448], [60000]], ids=str)
def test_any_segmentation(tmp_path: Path, talk: list[tuple[str, bytes]], sizes: list[int]) -> None:
    got = again(tmp_path, segments(talk, sizes))
    assert [(pkt.sender, message(pkt)) for pkt in got] == talk
    if sizes == [17]:
        assert all(len(pkt.frames) >= len(message(pkt)) / 17 for pkt in got)


def test_out_of_order_and_twice(tmp_path: Path, talk: list[tuple[str, bytes]]) -> None:
    pkts = segments(talk, [100])
    rng = random.Random(4)
    order = [(i + rng.random() * 6 * (i > 3), pkt) for i, pkt in enumerate(pkts)]
    order += [(i + 2, pkt) for i, pkt in order if i > 3 and rng.random() < 0.3]
    shuffled = [pkt for _, pkt in sorted(order, key=lambda each: each[0])]
    got = again(tmp_path, shuffled)
    for sender in "FB":
        assert [message(p) for p in got if p.sender == sender] == [
            d for s, d in talk if s == sender
        ]


def test_a_frame_longer_than_scapy_reads_by_itself(tmp_path: Path) -> None:
    start = b"\0\0\0\x11\0\3\0\0user\0me\0\0"
    long = b"Q" + (100_004).to_bytes(4, "big") + b"x" * 99_999 + b"\0"
    pkts = segments([("F", start), ("F", long)], [200_000])
    for pkt in pkts:
        if len(pkt[TCP].payload) > 65_535:
            pkt[IP].len = pkt[TCP].chksum = 0
    got = again(tmp_path, pkts)
    assert [message(pkt) for pkt in got] == [start, long]
    assert got[1][Query].query == b"x" * 99_999
    assert len(bytes(got[1])) > 100_000


def test_missing_bytes_are_a_gap_and_the_rest_is_whole(
    tmp_path: Path, talk: list[tuple[str, bytes]]
) -> None:
    pkts = segments(talk, [1448])
    data = [
        i for i, p in enumerate(pkts) if p[TCP].sport == SERVER[1] and len(p[TCP].payload) > 900
    ]
    lost = pkts.pop(data[len(data) // 2])
    got = again(tmp_path, pkts)
    theirs = [data for sender, data in talk if sender == "B"]
    whole = [message(pkt) for pkt in got if pkt.sender == "B" and not pkt.findings]
    touched = [pkt for pkt in got if pkt.sender == "B" and pkt.findings]
    assert touched
    assert all(data in theirs for data in whole)
    missing = len(lost[TCP].payload)
    assert sum(map(len, theirs)) - sum(map(len, whole)) < missing + 3000


def test_headers_of_a_message(tmp_path: Path, talk: list[tuple[str, bytes]]) -> None:
    """A message stands under its own sequence number, with lengths that fit, so it can be written."""
    got = again(tmp_path, segments(talk, [61]))
    ours = [pkt for pkt in got if pkt.sender == "F"]
    assert ours[0][TCP].seq == WRAP + 1
    for one, other in pairwise(ours):
        assert other[TCP].seq == (one[TCP].seq + len(message(one))) % (1 << 32)
    for pkt in got:
        assert Ether(bytes(pkt))[IP].len == 40 + len(message(pkt))
    path = tmp_path / "one-message-a-packet.pcap"
    wrpcap(str(path), segments([], [1])[:3] + got)
    assert [message(pkt) for pkt in read(path)] == [data for _, data in talk]


def test_what_is_not_postgresql_passes_unchanged(tmp_path: Path) -> None:
    ping = Ether() / IP(dst="10.0.0.9") / ICMP()
    name = Ether() / IP(dst="10.0.0.9") / UDP(dport=53) / b"?"
    web = segments(
        [("F", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 5), ("B", b"HTTP/1.1 200 OK" * 9)], [99]
    )
    got = again(tmp_path, [ping, *web, name])
    assert [bytes(p) for p in got if TCP not in p] == [bytes(ping), bytes(name)]
    assert [bytes(p) for p in got if TCP in p] == [bytes(p) for p in web]


@pytest.mark.parametrize("name", ["tls12", "tls-direct", "tls13-chacha"])
def test_tls_is_records_without_keys_and_messages_with_them(name: str) -> None:
    path = CAPTURES / "conversation" / f"{name}.pcap"
    sent: dict[tuple[str, int], bytes] = {}
    for pkt in sniff(offline=str(path)):
        if TCP in pkt and isinstance(pkt[TCP].payload, Raw):
            key = (pkt[IP].src, pkt[TCP].sport)
            sent[key] = sent.get(key, b"") + pkt[TCP].payload.load
    closed = read(path)
    got: dict[tuple[str, int], bytes] = {}
    for pkt in closed:
        key = (pkt[IP].src, pkt[TCP].sport)
        got[key] = got.get(key, b"") + message(pkt)
    assert got == sent
    assert sum(TLSRecord in pkt for pkt in closed) > 5

    session = PostgresSession(keylog=str(path.with_suffix(".keylog")))
    opened = list(sniff(offline=str(path), session=session))
    rows = [pkt[DataRow].columns for pkt in opened if DataRow in pkt]
    got_values = [tuple(column.value for column in columns) for columns in rows]
    assert ("Verschlüsselt".encode(), b"42") in got_values
    assert max(len(value) for row in got_values for value in row) == 35200
    assert all(pkt.frames for pkt in opened)
    long = next(pkt for pkt in opened if DataRow in pkt and len(message(pkt)) > 35200)
    packets = list(sniff(offline=str(path)))
    assert sum(len(packets[frame - 1][TCP].payload) for frame in long.frames) > 35200


def test_layers_can_be_asked_for(talk: list[tuple[str, bytes]]) -> None:
    pkts = read(TOUR)
    inserts = [pkt for pkt in pkts if Insert in pkt]
    facts = json.loads((CAPTURES / "tour.json").read_text())
    assert len(inserts) == facts["messages"]["Insert"]
    assert {pkt[Insert].relation_oid for pkt in inserts} <= {r["oid"] for r in facts["relations"]}
    assert all(pkt.haslayer(CopyData) and pkt.sprintf("%IP.src%") for pkt in inserts)
