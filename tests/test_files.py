"""Capture files: every format, every damage, several files as one."""

from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
import transforms as t
from transforms import CAPTURES, conversation

from dissector.capture import open_capture_files
from dissector.errors import CaptureError

TIME = 1_700_000_000_123_456_789
PACKETS = [(1, b"a" * 30), (0, b"b" * 9), (1, b"c" * 200)]


def made(step: int = 1_000_001) -> tuple[int, list[tuple[int, bytes, int]]]:
    return t.frames(conversation(PACKETS, time=TIME, step=step))


def read(*paths: Path | str, **options: int):
    """([(frame, time, bytes, wire length)], files after the last batch)."""
    files = open_capture_files(list(paths), **options)
    rows = []
    for batch in files.batches():
        c = batch.columns
        for i in range(len(c.time)):
            data = files.read(int(c.offset[i]), int(c.caplen[i]))
            rows.append((batch.first + i, int(c.time[i]), data, int(c.wirelen[i])))
            again = files.frame(int(c.record[i]))
            assert (again.time, again.data, again.wirelen) == rows[-1][1:]
    return rows, files


def expected(given: list[tuple[int, bytes, int]], unit: int = 1) -> list[tuple]:
    return [(i, time // unit * unit, f, w) for i, (time, f, w) in enumerate(given, 1)]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("batch", [1, 3, 1000])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("form", ["micro", "nano", "modified"])
def test_pcap_forms(tmp_path: Path, order: str, form: str, batch: int) -> None:
    data = t.pcap(made(), order=order, nano=form == "nano", modified=form == "modified")
    rows, files = read(write(tmp_path / "x", data), batch_frames=batch)
    assert rows == expected(made()[1], 1 if form == "nano" else 1000)
    assert files.interfaces[0].digits == (9 if form == "nano" else 6)
    assert not files.findings


def test_pcap_link_type_without_frame_check_bits(tmp_path: Path) -> None:
    data = bytearray(t.pcap(made()))
    data[20:24] = struct.pack("<I", 0x54000001)  # 4 bytes of FCS follow each frame, says the header
    _, files = read(write(tmp_path / "x", bytes(data)))
    assert files.interfaces[0].linktype == 1


def test_frames_larger_than_64_kib(tmp_path: Path) -> None:
    frame = bytes(range(256)) * 2000
    for data in (t.pcap((1, [(0, frame, len(frame))])), t.pcapng((1, [(0, frame, len(frame))]))):
        rows, files = read(write(tmp_path / "x", data))
        assert rows[0][2] == frame
        assert not files.findings


@pytest.mark.parametrize("batch", [1, 2, 1000])
@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_sections_have_their_own_interfaces_and_order(
    tmp_path: Path, order: str, batch: int
) -> None:
    other = "<>"[order == "<"]
    frames = [f for _, f, _ in made()[1]]
    data = (
        t.section(order)
        + t.interface(1, order, options=t.option(2, b"eth0", order))
        + t.enhanced(0, 1_500_000, frames[0], 99, order)
        + t.section(other)
        + t.interface(113, other, options=t.option(9, b"\x09", other))
        + t.interface(276, other, options=t.option(9, b"\x03", other))
        + t.enhanced(1, 2001, frames[1], 300, other)
        + t.enhanced(0, 2_000_000_007, frames[2], 300, other)
    )
    rows, files = read(write(tmp_path / "x", data), batch_frames=batch)
    assert [(r[1], r[3]) for r in rows] == [
        (1_500_000_000, 99), (2_001_000_000, 300), (2_000_000_007, 300)
    ]  # fmt: skip
    assert [r[2] for r in rows] == frames[:3]
    assert [(f.linktype, f.digits, f.name) for f in files.interfaces] == [
        (1, 6, "eth0"), (113, 9, ""), (276, 3, "")
    ]  # fmt: skip
    assert not files.findings


@pytest.mark.parametrize(
    ("resolution", "offset", "ticks", "nanoseconds", "digits"),
    [
        (b"", 0, 1_234_567, 1_234_567_000, 6),
        (b"\x00", 0, 77, 77_000_000_000, 0),
        (b"\x06", 100, 1, 100_000_001_000, 6),
        (b"\x09", -5, 5_000_000_007, 7, 9),
        (b"\x0c", 0, 1_700_000_000_999_999_999_999, 1_700_000_000_999_999_999, 9),
        (b"\x14", 0, 5 * 10**11, 5, 9),
        (b"\x80", 0, 12, 12_000_000_000, 0),
        (b"\x8a", 0, 1536, 1_500_000_000, 4),  # 2**-10: 1.5 s
        (b"\xa0", 0, (7 << 32) + (1 << 31), 7_500_000_000, 9),  # 2**-32
        (b"\xbf", 0, (1 << 63) + (1 << 61), 1_250_000_000, 9),  # 2**-63: 1.25 s
    ],
)
def test_pcapng_time_units(
    tmp_path: Path, resolution: bytes, offset: int, ticks: int, nanoseconds: int, digits: int
) -> None:
    ticks &= (1 << 64) - 1
    options = t.option(9, resolution) if resolution else b""
    options += t.option(14, struct.pack("<q", offset)) if offset else b""
    if resolution == b"\x0c":  # picoseconds since 1970 do not fit 64 bits: those of a year do
        ticks, nanoseconds = 17_000_000_999_999_999_999, 17_000_000_999_999_999
    data = t.section() + t.interface(1, options=options) + t.enhanced(0, ticks, b"x" * 60, 60)
    rows, files = read(write(tmp_path / "x", data))
    assert rows[0][1] == nanoseconds
    assert files.interfaces[0].digits == digits


def test_pcapng_simple_and_obsolete_packet_blocks(tmp_path: Path) -> None:
    frame = bytes(range(61))
    old = struct.pack("<HHIIII", 1, 7, 0, 5_000_000, len(frame), 80) + frame + bytes(3)
    data = (
        t.section()
        + t.interface(1)
        + t.interface(101, options=t.option(9, b"\x09"))
        + t.block(2, old)
        + t.block(3, struct.pack("<I", 61) + frame)
        + t.block(3, struct.pack("<I", 1000) + frame + b"xyz")
    )
    rows, files = read(write(tmp_path / "x", data))
    assert rows == [
        (1, 5_000_000, frame, 80),
        (2, 5_000_000, frame, 61),  # no time of its own: that of the packet before
        (3, 5_000_000, frame + b"xyz", 1000),
    ]
    assert not files.findings


def test_pcapng_simple_packet_block_under_a_snap_length(tmp_path: Path) -> None:
    body = struct.pack("<I", 90) + b"s" * 52  # 50 bytes captured, 2 of padding
    data = t.section() + t.interface(1, snaplen=50) + t.block(3, body)
    rows, _ = read(write(tmp_path / "x", data))
    assert (rows[0][2], rows[0][3]) == (b"s" * 50, 90)


def test_pcapng_other_blocks_are_kept_or_skipped(tmp_path: Path) -> None:
    keylog = b"CLIENT_RANDOM 00 11\n"
    data = (
        t.section(options=t.option(1, b"a section") + t.option(4, b"me"))
        + t.interface(1, options=t.option(1, "eine Schnittstelle ✓".encode()))
        + t.block(4, t.option(1, b"\x7f\0\0\1home\0loop\0") + t.option(2, b"\xfd" * 16 + b"six\0"))
        + t.block(10, struct.pack("<II", 0x544C534B, len(keylog)) + keylog)
        + t.enhanced(0, 1, b"x" * 60, 60, options=t.option(1, b"one") + t.option(1, b"two"))
        + t.block(0xBAD, struct.pack("<I", 32473) + b"custom data!")
        + t.block(0x80000123, b"nobody knows")
        + t.block(5, struct.pack("<III", 0, 0, 0) + t.option(5, struct.pack("<Q", 12)))
        + t.enhanced(0, 2, b"y" * 60, 60, options=t.option(2, bytes(4)) + t.option(0, b""))
    )
    rows, files = read(write(tmp_path / "x", data))
    assert [r[2][:1] for r in rows] == [b"x", b"y"]
    assert files.comments == {0: ["a section", "eine Schnittstelle ✓"], 1: ["one", "two"]}
    assert files.secrets == [(0x544C534B, keylog)]
    assert files.names == {"127.0.0.1": ["home", "loop"], ":".join(["fdfd"] * 8): ["six"]}
    assert files.notes.dropped == {0: 12}
    assert not files.findings


def test_pcapng_packet_of_an_unknown_interface(tmp_path: Path) -> None:
    data = t.section() + t.interface(1) + t.enhanced(3, 1, b"x" * 60, 60)
    data += t.enhanced(0, 1, b"y" * 60, 60)
    rows, files = read(write(tmp_path / "x", data))
    assert [r[2][:1] for r in rows] == [b"y"]
    assert [f.code for f in files.findings] == ["file-damaged"]


# packed


@pytest.mark.parametrize("plain", [t.pcap(made(), nano=True), t.pcapng(made())])
@pytest.mark.parametrize("pack", ["gzip", "gzip twice", "zstd", "zstd twice", "lz4"])
def test_packed_by_content_not_name(tmp_path: Path, plain: bytes, pack: str) -> None:
    path = write(tmp_path / "x.pcap", packed(plain, pack))
    rows, files = read(path)
    assert rows == expected(made()[1])
    assert files.sources[0].compression == pack.split(maxsplit=1)[0]
    assert not files.findings


def packed(plain: bytes, pack: str) -> bytes:
    if pack == "gzip twice":  # members one after the other, and padding
        return gzip.compress(plain[:100]) + gzip.compress(plain[100:]) + bytes(512)
    if pack == "gzip":
        return gzip.compress(plain)
    if pack.startswith("zstd"):
        import zstandard

        make = zstandard.ZstdCompressor()
        half = len(plain) // 2 if pack == "zstd twice" else 0
        return make.compress(plain[:half]) + make.compress(plain[half:])
    import lz4.frame

    return lz4.frame.compress(plain)


@pytest.mark.parametrize("pack", ["gzip", "zstd", "lz4"])
def test_packed_and_cut_anywhere(tmp_path: Path, pack: str) -> None:
    whole = expected(made()[1])
    data = packed(t.pcap(made(), nano=True), pack)
    for cut in range(5, len(data), 3):
        path = write(tmp_path / "x", data[:cut])
        try:
            rows, files = read(path)
        except CaptureError as error:  # not a byte came out
            assert "nothing inside" in str(error)
            continue
        assert rows == whole[: len(rows)]
        assert [f.code for f in files.findings] == ["file-cut"]
        assert pack in files.findings[0].text


def test_unpacking_has_a_limit(tmp_path: Path) -> None:
    path = write(tmp_path / "x", gzip.compress(t.pcap(made()) + bytes(1 << 27)))
    rows, files = read(path, spool_limit=1 << 20)
    assert rows == expected(made()[1], 1000)
    assert "file-cut" in [f.code for f in files.findings]
    assert files.sources[0].size <= 65 << 20


# damage


@pytest.mark.parametrize("form", ["pcap", "modified", "pcapng", "big pcapng"])
def test_cut_at_every_byte(tmp_path: Path, form: str) -> None:
    given = t.frames(conversation([(1, b"abc"), (0, b"defgh")], handshake=False, fin=False))
    data = {
        "pcap": t.pcap(given, nano=True),
        "modified": t.pcap(given, order=">", modified=True),
        "pcapng": t.pcapng(given),
        "big pcapng": t.pcapng(given, order=">"),
    }[form]
    whole = expected(given[1])
    head, block = {"pcap": (24, 16), "modified": (24, 24)}.get(form, (28 + 28, 32))
    ends, pos = [], head
    for _, frame, _ in given[1]:
        pos += block + len(frame) + (-len(frame) % 4 if block == 32 else 0)
        ends.append(pos)
    assert pos == len(data)
    whole_parts = {head, *ends} | ({28} if block == 32 else set())
    for cut in range(1, len(data) + 1):
        rows, files = read(write(tmp_path / "x", data[:cut]))
        assert rows == whole[: sum(end <= cut for end in ends)], cut
        codes = [f.code for f in files.findings]
        assert codes == ([] if cut in whole_parts else ["file-cut"]), cut


def test_impossible_record_length(tmp_path: Path) -> None:
    data = bytearray(t.pcap(made()))
    second = 24 + 16 + len(made()[1][0][1])
    data[second + 8 : second + 12] = b"\xff\xff\xff\x7f"
    rows, files = read(write(tmp_path / "x", bytes(data)))
    assert len(rows) == 1
    (found,) = files.findings
    assert found.code == "file-damaged"
    assert f"at byte {second}" in found.text
    assert "2147483647" in found.text


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize(
    ("place", "value"), [(-4, b"\x07\0\0\0"), (4, b"\x09\0\0\0"), (4, bytes(4)), (20, b"\xff" * 4)]
)
def test_damaged_block(tmp_path: Path, place: int, value: bytes, batch: int) -> None:
    blocks = [t.section(), t.interface(1)]
    blocks += [t.enhanced(0, i, bytes([i]) * 60, 60) for i in range(5)]
    third = bytearray(blocks[4])
    place %= len(third)
    third[place : place + 4] = value
    start = sum(len(b) for b in blocks[:4])
    data = b"".join([*blocks[:4], bytes(third), *blocks[5:]])
    rows, files = read(write(tmp_path / "x", data), batch_frames=batch)
    assert [r[2][0] for r in rows] == [0, 1]
    (found,) = files.findings
    assert found.code == "file-damaged"
    assert f"at byte {start}" in found.text


def test_zeros_at_the_end_are_no_frames(tmp_path: Path) -> None:
    data = t.pcap(made())
    rows, files = read(write(tmp_path / "x", data + bytes(5000)))
    assert rows == expected(made()[1], 1000)
    (found,) = files.findings
    assert "zeros" in found.text
    assert f"at byte {len(data)}" in found.text


def test_any_byte_flipped_never_raises(tmp_path: Path) -> None:
    for data in (t.pcap(made()), t.pcapng(made())):
        for at in range(4, 300, 1):
            for flip in (0xFF, 0x01):
                bad = bytearray(data)
                bad[at] ^= flip
                rows, _ = read(write(tmp_path / "x", bytes(bad)))
                assert len(rows) <= len(made()[1]) + 1


# several files, other sources


@pytest.mark.parametrize("batch", [2, 1000])
def test_rotated_files_in_any_order(tmp_path: Path, batch: int) -> None:
    parts = t.split(made(), 4)
    paths = [write(tmp_path / f"{i}", t.pcap(p, nano=True)) for i, p in enumerate(parts)]
    rows, files = read(*[paths[i] for i in (2, 0, 3, 1)], batch_frames=batch)
    assert rows == expected(made()[1])
    assert not files.findings


@pytest.mark.parametrize("batch", [1, 4, 1000])
def test_interleaved_files_are_merged_by_time(tmp_path: Path, batch: int) -> None:
    number, given = made()
    parts = [given[0::3], given[1::3], given[2::3]]
    paths = [
        write(tmp_path / "a", t.pcap((number, parts[0]), nano=True)),
        write(tmp_path / "b", t.pcapng((number, parts[1]))),
        write(tmp_path / "c", gzip.compress(t.pcapng((number, parts[2]), order=">"))),
    ]
    rows, _ = read(*paths, batch_frames=batch)
    assert rows == expected(given)


def test_order_inside_a_file_is_kept_when_its_clock_goes_back(tmp_path: Path) -> None:
    a = [(t_, bytes([i]) * 60, 60) for i, t_ in enumerate([1000, 5000, 2000, 6000])]
    b = [(t_, bytes([i + 10]) * 60, 60) for i, t_ in enumerate([3000, 5500])]
    paths = [write(tmp_path / n, t.pcap((1, rows), nano=True)) for n, rows in (("a", a), ("b", b))]
    rows, _ = read(*paths)
    assert [r[2][0] for r in rows] == [0, 10, 1, 2, 11, 3]


def test_a_file_without_frames_among_others(tmp_path: Path) -> None:
    empty = write(tmp_path / "a", t.pcap((1, [])))
    full = write(tmp_path / "b", t.pcap(made(), nano=True))
    rows, files = read(empty, full)
    assert rows == expected(made()[1])
    assert not files.findings


def test_standard_input_without_seeking() -> None:
    code = (
        "from dissector.capture import open_capture_files\n"
        "files = open_capture_files(['-'])\n"
        "print(sum(len(b.columns.time) for b in files.batches()), files.findings)"
    )
    for data in (t.pcapng(made()), gzip.compress(t.pcap(made()))):
        done = subprocess.run(
            [sys.executable, "-c", code], input=data, capture_output=True, check=True
        )
        assert done.stdout.decode().strip() == f"{len(made()[1])} []"


def test_named_pipe(tmp_path: Path) -> None:
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    child = subprocess.Popen(
        [sys.executable, "-c", f"open({str(fifo)!r}, 'wb').write({t.pcap(made(), nano=True)!r})"]
    )
    rows, _ = read(fifo)
    assert child.wait() == 0
    assert rows == expected(made()[1])


@pytest.mark.parametrize("name", ["pg18-proto4.pcap", "tour.pcapng", "pg15-proto3.pcap"])
def test_shipped_files(name: str) -> None:
    rows, files = read(CAPTURES / name)
    given = t.records(CAPTURES / name)
    assert [(time, data) for _, time, data, _ in rows] == [(time, f) for time, _, f in given]
    assert not files.findings


# what cannot be opened


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b"Hello, this is no capture", 'not a capture (it begins with "Hello, this is n")'),
        (b"\x00\x01\x02\x03\x04\x05\x06\x07\x08", "it begins with 00 01 02 03"),
        (b"snoop\0\0\0" + bytes(20), "editcap"),
        (b"\xfd7zXZ\0" + bytes(20), "xz -d"),
        (b"PK\x03\x04" + bytes(20), "zip archive"),
        (gzip.compress(b"text", mtime=0), "not a capture"),
        (gzip.compress(b"", mtime=0), "nothing inside"),
        (b"\x1f\x8b garbage", "nothing inside"),
        (b"\x1b[31m red\x07", "it begins with 1b 5b"),
    ],
)
def test_what_is_not_a_capture_is_refused_in_one_line(
    tmp_path: Path, content: bytes, words: str
) -> None:
    with pytest.raises(CaptureError) as caught:
        open_capture_files([write(tmp_path / "x", content)])
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    assert "\x1b" not in text


def test_missing_directory_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        open_capture_files([tmp_path / "none"])
    with pytest.raises(CaptureError, match="a directory"):
        open_capture_files([tmp_path])
    with pytest.raises(CaptureError, match="name is empty"):
        open_capture_files([""])
    with pytest.raises(CaptureError, match="no such file"):
        open_capture_files([write(tmp_path / "x", t.pcap(made())), tmp_path / "none"])
    with pytest.raises(CaptureError, match="no capture named"):
        open_capture_files([])
    with pytest.raises(CaptureError, match=r"no such file"):
        open_capture_files([tmp_path / "\x1b[2Jname"])

    def refuse(*_: object, **__: object) -> io.BytesIO:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(CaptureError, match="no permission"):
        open_capture_files([tmp_path / "x"])


def test_hostile_file_name_is_shown_not_obeyed(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        open_capture_files([str(tmp_path / "\x1b[2J")])
    assert "\x1b" not in str(caught.value)
