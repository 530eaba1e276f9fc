"""Frames to segments: every link type and tunnel, and scapy's word on every frame of the captures."""

from __future__ import annotations

import ipaddress
import itertools
import random
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import transforms as t
from transforms import CAPTURES, Packet, conversation

from dissector.capture import Chunk, Streams, open_capture_files
from dissector.capture.link import Link, Segments
from dissector.capture.slow import dissect

TALK = [(0, b"Q"), (1, bytes(range(200)) * 3), (0, b""), (1, b"Z" * 31)]
SHIPPED = sorted(p for p in CAPTURES.rglob("*.pcap*") if p.suffix in (".pcap", ".pcapng"))


def segments(path: Path, **options: int) -> tuple[list[tuple], Link]:
    """[(frame, arrival, src, dst, sport, dport, seq, ack, flags, payload, missing)] of a file."""
    rows: list[tuple] = []
    with open_capture_files([path], **options) as files:
        link = Link(files)
        last = 0
        for batch in files.batches():
            rows += _rows(link.segments(batch), files)
            last = batch.last
        rows += _rows(link.finish(last), files)
    return rows, link


def _rows(s: Segments, files) -> list[tuple]:
    result = []
    for i in range(len(s.frame)):
        width = 4 if s.version[i] == 4 else 16
        src = (int(s.src_high[i]) << 64 | int(s.src_low[i])).to_bytes(width, "big")
        dst = (int(s.dst_high[i]) << 64 | int(s.dst_low[i])).to_bytes(width, "big")
        length = int(s.length[i])
        payload = files.read(int(s.position[i]), length)
        missing = int(s.wire[i]) - length
        numbers = (int(c[i]) for c in (s.sport, s.dport, s.seq, s.ack, s.flags))
        result.append((int(s.frame[i]), int(s.arrival[i]), src, dst, *numbers, payload, missing))
    return result


def wanted(packets: list[Packet]) -> list[tuple]:
    return [
        (i, i, p.src, p.dst, p.sport, p.dport, p.seq, p.ack, p.flags, p.payload, p.missing)
        for i, p in enumerate(packets, 1)
    ]


def write(path: Path, link: int, raw: list[bytes], wire: list[int] | None = None) -> Path:
    sizes = wire or [len(r) for r in raw]
    rows = [(i * 1000, r, w) for i, (r, w) in enumerate(zip(raw, sizes, strict=True))]
    path.write_bytes(t.pcap((link, rows)))
    return path


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("name", t.LINKS)
def test_link_types_and_tunnels(tmp_path: Path, name: str, version: int) -> None:
    packets = conversation(TALK, version=version)
    path = tmp_path / "x"
    path.write_bytes(t.pcap(t.frames(packets, name)))
    rows, link = segments(path)
    assert rows == wanted(packets)
    assert link.stats.slow == 0, "no frame of these needs scapy"
    assert (link.stats.tcp, link.stats.other, link.stats.cut) == (len(packets), 0, 0)


@pytest.mark.parametrize(("number", "version"), [(228, 4), (229, 6)])
def test_raw_ip_of_one_version(tmp_path: Path, number: int, version: int) -> None:
    packets = conversation(TALK, version=version)
    rows, _ = segments(write(tmp_path / "x", number, [t.ip_bytes(p) for p in packets]))
    assert rows == wanted(packets)


def test_link_types_mixed_in_one_file(tmp_path: Path) -> None:
    packets = conversation(TALK) + conversation(TALK, version=6)
    data = t.section()
    names = list(t.LINKS)
    for name in names:
        data += t.interface(t.LINKS[name][0])
    for i, packet in enumerate(packets):
        face = i % len(names)
        frame = t.LINKS[names[face]][1](t.ip_bytes(packet))
        data += t.enhanced(face, i, frame, len(frame))
    path = tmp_path / "x"
    path.write_bytes(data)
    assert segments(path)[0] == wanted(packets)


def test_ipv4_options_and_total_length_zero(tmp_path: Path) -> None:
    packets = conversation(TALK)
    raw = [t.ethernet(t.ip_bytes(p, options=b"\x94\4\0\0\1\1\1\0")) for p in packets]
    assert segments(write(tmp_path / "a", 1, raw))[0] == wanted(packets)
    # An offloaded segment has no total length; such frames are never short enough for padding.
    big = conversation([(1, bytes(range(256)) * 300)], fin=False)[3:4]
    raw = [t.ethernet(t.ip_bytes(p, total=0)) for p in big]
    assert segments(write(tmp_path / "b", 1, raw))[0] == wanted(big)


def test_ipv6_extension_headers_and_jumbograms(tmp_path: Path) -> None:
    packets = conversation(TALK, version=6)
    raw = []
    for p in packets:
        plain = t.ip_bytes(p)
        chain = (
            b"\x33\0" + bytes(6)  # hop-by-hop, then AH
            + b"\x3c\4" + bytes(22)  # AH of 24 bytes, then destination options
            + b"\x2b\0" + bytes(6)  # destination options, then routing
            + b"\x06\1" + bytes(14)  # routing of 16 bytes, then TCP
        )  # fmt: skip
        head = plain[:4] + struct.pack(">HB", len(plain) - 40 + len(chain), 0) + plain[7:40]
        raw.append(t.ethernet(head + chain + plain[40:]))
    assert segments(write(tmp_path / "a", 1, raw))[0] == wanted(packets)
    big = conversation([(1, b"J" * 100_000)], version=6, fin=False)[3:4]
    plain = t.ip_bytes(big[0])
    jumbo = b"\6\0\xc2\4" + struct.pack(">I", len(plain) - 40 + 8)
    raw = [t.ethernet(plain[:6] + b"\0" + plain[7:40] + jumbo + plain[40:])]
    assert segments(write(tmp_path / "b", 1, raw))[0] == wanted(big)


def test_padding_is_never_payload(tmp_path: Path) -> None:
    packets = conversation([(1, b"x"), (1, b"yy")])
    raw = [t.ethernet(t.ip_bytes(p)).ljust(200, b"\xee") for p in packets]
    assert segments(write(tmp_path / "x", 1, raw))[0] == wanted(packets)


def test_snap_length_cuts_payload_and_headers(tmp_path: Path) -> None:
    (packet,) = conversation([(1, b"x" * 100)])[3:4]
    frame = t.ethernet(t.ip_bytes(packet))
    for keep in range(14, len(frame)):
        rows, link = segments(write(tmp_path / "x", 1, [frame[:keep]], [len(frame)]))
        assert link.stats.cut == 1
        if keep < 14 + 20 + 20:  # the fixed TCP header is not there
            assert rows == []
            continue
        captured = max(0, keep - 14 - 20 - 32)
        ((*_, payload, missing),) = rows
        assert payload == b"x" * captured
        assert missing == 100 - captured


def fragments(packet: Packet, cuts: list[int], ident: int = 7) -> list[bytes]:
    """The packet's IP payload in pieces that end at `cuts` (multiples of 8) and at its end."""
    inner = t.tcp_bytes(packet)
    edges = [0, *cuts, len(inner)]
    result = []
    for low, high in itertools.pairwise(edges):
        more = high != len(inner)
        part = inner[low:high]
        if len(packet.src) == 4:
            field = low // 8 | (0x2000 if more else 0)
            ip = t.ipv4(packet.src, packet.dst, 6, part, ident=ident, fragment=field)
        else:
            head = struct.pack(">BBHI", 6, 0, low | more, ident)
            ip = struct.pack(">IHBB", 6 << 28, len(part) + 8, 44, 64)
            ip += packet.src + packet.dst + head + part
        result.append(t.ethernet(ip))
    return result


def together(rows: list[tuple]) -> dict[int, bytes]:
    """Sequence number -> payload bytes, joined where one row continues another."""
    data: dict[int, int] = {}
    for row in rows:
        for i, byte in enumerate(row[9]):
            data.setdefault((row[6] + i) & t.MASK, byte)
    starts = [s for s in data if (s - 1) & t.MASK not in data]
    result = {}
    for s in starts:
        run = bytearray()
        while (s + len(run)) & t.MASK in data:
            run.append(data[(s + len(run)) & t.MASK])
        result[s] = bytes(run)
    return result


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("cuts", [[64], [8, 16, 24, 32, 40, 200], [600], [128, 136]])
@pytest.mark.parametrize("order", ["in order", "backwards", "twice", "mixed"])
def test_fragments_are_put_together(
    tmp_path: Path, version: int, cuts: list[int], order: str
) -> None:
    (packet,) = conversation([(1, bytes(range(250)) * 3)], version=version)[3:4]
    raw = fragments(packet, cuts)
    frames = {
        "in order": raw,
        "backwards": raw[::-1],
        "twice": [f for f in raw for _ in (0, 1)],
        "mixed": random.Random(3).sample(raw, len(raw)),
    }[order]
    rows, link = segments(write(tmp_path / "x", 1, frames))
    assert together(rows) == {packet.seq: packet.payload}
    last = {"twice": 2 * len(raw) - 1}.get(order, len(raw))
    assert {r[1] for r in rows} == {last}, "complete with the last piece"
    assert {r[2:6] for r in rows} == {(packet.src, packet.dst, packet.sport, packet.dport)}
    assert sum(len(r[9]) for r in rows) == len(packet.payload)
    assert link.stats.other == 0
    for row in rows:  # each row's frame is the one that holds its bytes
        assert row[9] in frames[row[0] - 1]


def test_fragments_of_two_datagrams_and_a_reused_identification(tmp_path: Path) -> None:
    packets = [p for p in conversation([(1, b"A" * 200), (1, b"B" * 200)]) if p.payload]
    a, b = (fragments(p, [96], ident=i) for i, p in enumerate(packets, 1))
    rows, _ = segments(write(tmp_path / "x", 1, [a[0], b[1], a[1], b[0]]))
    assert together(rows) == {packets[0].seq: b"A" * 200 + b"B" * 200}
    a, b = (fragments(p, [96], ident=5) for p in packets)
    rows, _ = segments(write(tmp_path / "x", 1, [*a, *b]))
    assert together(rows) == {packets[0].seq: b"A" * 200 + b"B" * 200}


def test_incomplete_datagram_gives_what_it_has(tmp_path: Path) -> None:
    (packet,) = conversation([(1, b"A" * 100 + b"B" * 100 + b"C" * 100)])[3:4]
    raw = fragments(packet, [80, 160])
    rows, _ = segments(write(tmp_path / "x", 1, [raw[0], raw[2]]))
    assert together(rows) == {packet.seq: packet.payload[: 80 - 32]}


def test_tunnel_in_fragments(tmp_path: Path) -> None:
    (packet,) = conversation([(1, bytes(range(250)) * 6)])[3:4]
    outer = t.LINKS["VXLAN"][1](t.ip_bytes(packet))[14:]
    inner, size = outer[20:], 800
    raw = []
    for low in range(0, len(inner), size):
        field = low // 8 | (0x2000 if low + size < len(inner) else 0)
        ip = t.ipv4(*t.OUTER, 17, inner[low : low + size], ident=9, fragment=field)
        raw.append(t.ethernet(ip))
    assert len(raw) == 2
    rows, _ = segments(write(tmp_path / "x", 1, raw))
    assert together(rows) == {packet.seq: packet.payload}
    assert [r[0] for r in rows] == [1, 2]


def test_streams_through_fragments_in_small_batches(tmp_path: Path) -> None:
    packets = conversation([(1, bytes([i]) * 300) for i in range(10)])
    raw: list[bytes] = []
    for i, p in enumerate(packets):
        raw += (
            fragments(p, [64, 128], ident=i)
            if len(p.payload) == 300
            else [t.ethernet(t.ip_bytes(p))]
        )
    path = write(tmp_path / "x", 1, raw)
    with open_capture_files([path], batch_frames=2) as files:
        events = [e for b in Streams(files).batches() for e in b.events]
        data = b"".join(e.data for e in events if isinstance(e, Chunk) and e.direction == 1)
    assert data == b"".join(bytes([i]) * 300 for i in range(10))


def test_the_slow_lane_knows_rarer_frames(tmp_path: Path) -> None:
    """802.11 data frames and GTP-U, which only scapy takes apart."""
    packets = conversation(TALK)
    wifi = b"\x08\0\0\0" + bytes(18) + b"\0\0" + b"\xaa\xaa\3\0\0\0\x08\0"
    rows, link = segments(write(tmp_path / "a", 105, [wifi + t.ip_bytes(p) for p in packets]))
    assert rows == wanted(packets)
    assert link.stats.slow == len(packets)
    raw = []
    for p in packets:
        ip = t.ip_bytes(p)
        gtp = b"\x30\xff" + struct.pack(">HI", len(ip), 77) + ip
        raw.append(t.ethernet(t.ipv4(*t.OUTER, 17, t.udp(2152, gtp))))
    rows, _ = segments(write(tmp_path / "b", 1, raw))
    assert rows == wanted(packets)


def test_link_type_that_nobody_knows_is_a_finding(tmp_path: Path) -> None:
    path = write(tmp_path / "x", 65_000, [b"abc", b"def"])
    with open_capture_files([path]) as files:
        streams = Streams(files)
        assert [b.events for b in streams.batches()] == [[]]
    assert [f.text for f in streams.findings] == ["2 packets of link type 65000 are not understood"]


def test_other_traffic_is_counted(tmp_path: Path) -> None:
    arp = t.MACS + b"\x08\x06" + bytes(46)
    dns = t.ethernet(t.ipv4(*t.OUTER, 17, t.udp(53, b"query")))
    stp = t.MACS + b"\0\x26\x42\x42\3" + bytes(43)
    rows, link = segments(write(tmp_path / "x", 1, [arp, dns, stp]))
    assert rows == []
    assert (link.stats.packets, link.stats.other, link.stats.slow) == (3, 3, 0)


def test_fast_lane_does_not_import_scapy() -> None:
    code = (
        "import sys\n"
        "from dissector.capture import Chunk, Streams, open_capture_files\n"
        f"files = open_capture_files([{str(CAPTURES / 'tour.pcapng')!r}])\n"
        "assert any(b.events for b in Streams(files).batches())\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('scapy', 'textual')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_both_lanes_agree_frame_by_frame(path: Path) -> None:
    rows = {row[0]: row for row in segments(path)[0]}
    given = t.records(path)
    step = max(1, len(given) // 700)  # scapy needs 130 microseconds a frame
    for number in range(1, len(given) + 1, step):
        _, linktype, raw = given[number - 1]
        assert scapy_says(number, raw, linktype) == rows.get(number)


@pytest.mark.parametrize("name", t.LINKS)
def test_both_lanes_agree_on_made_frames(tmp_path: Path, name: str) -> None:
    if name in ("PPP, HDLC", "LOOP", "NULL, other order"):
        pytest.skip("scapy reads these otherwise; test_link_types_and_tunnels holds them")
    number, given = t.frames(conversation(TALK), name)
    path = tmp_path / "x"
    path.write_bytes(t.pcap((number, given)))
    rows = segments(path)[0]
    assert [scapy_says(i, raw, number) for i, (_, raw, _) in enumerate(given, 1)] == rows


def scapy_says(number: int, raw: bytes, linktype: int) -> tuple | None:
    """The row of a frame as scapy dissects it: the innermost TCP layer and its IP layer."""
    packet = dissect(raw, linktype)
    inner = None
    layer = packet
    while layer is not None and layer.name != "NoPayload":
        if layer.name in ("IP", "IPv6"):
            inner = layer
        layer = layer.payload
    if inner is None or "TCP" not in inner:
        return None
    tcp = inner["TCP"]
    payload = tcp.payload
    data = b"" if payload.name in ("NoPayload", "Padding") else bytes(payload.original or payload)
    src, dst = (ipaddress.ip_address(a).packed for a in (inner.src, inner.dst))
    flags = int(tcp.flags) & 0xFF
    return (number, number, src, dst, tcp.sport, tcp.dport, tcp.seq, tcp.ack, flags, data, 0)


def test_random_frames_never_raise(tmp_path: Path) -> None:
    """Real frames with bytes changed anywhere: the walk stays inside each frame."""
    source = random.Random(8)
    raw = []
    packets = conversation(TALK) + conversation(TALK, version=6)
    for name in t.LINKS:
        if t.LINKS[name][0] == 1:
            for p in packets:
                frame = bytearray(t.LINKS[name][1](t.ip_bytes(p)))
                for _ in range(source.randrange(1, 4)):
                    frame[source.randrange(12, min(len(frame), 110))] = source.randrange(256)
                raw.append(bytes(frame[: source.randrange(1, len(frame) + 1)]))
    rows, link = segments(write(tmp_path / "x", 1, raw))
    assert link.stats.packets == len(raw)
    for row in rows:
        assert len(row[9]) <= len(raw[row[0] - 1])
