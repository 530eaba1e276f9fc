"""Captures that another process indexes: the same as reading them here, also while they grow."""

from __future__ import annotations

import gzip
import itertools
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from dissector.errors import CaptureError
from dissector.export import write_export
from dissector.fed import FedCapture
from dissector.rows import COLUMNS
from dissector.view import open_capture
from tui.still import still

CAPTURES = Path(__file__).parent.parent / "captures"
TOUR = CAPTURES / "tour.pcapng"
PCAP = CAPTURES / "pg18-proto4.pcap"


def same(fed: FedCapture, path: Path) -> None:
    """Assert that `fed` holds what reading `path` in this process gives."""
    with open_capture([str(path)]) as here:
        here.read()
        assert fed.count == here.count > 50
        tables = {"path": "paths", "dialect": "dialects", "relation": "schemas"}
        for name, _ in COLUMNS:
            theirs, ours = fed.index.rows.column(name), here.index.rows.column(name)
            if name in tables:  # numbers into tables, whose order batches may change
                a, b = (getattr(x.index.tables, tables[name]) for x in (fed, here))
                pairs = zip(theirs.tolist(), ours.tolist(), strict=True)
                assert all(str(a[i]) == str(b[k]) for i, k in pairs), name
            else:
                assert np.array_equal(theirs, ours), name
        for number in range(1, here.count + 1, 7):
            theirs, ours = fed.message(number), here.message(number)
            assert theirs.data == ours.data
            assert theirs.extents == ours.extents
            assert theirs.found == ours.found
            assert theirs.path == ours.path
            assert fed.digits(theirs.row) == here.digits(ours.row)
            assert fed.frame(ours.extents[0].record).data == here.frame(ours.extents[0].record).data


@pytest.mark.parametrize("path", [TOUR, PCAP], ids=lambda path: path.name)
def test_what_another_process_indexed_is_the_same(path):
    with FedCapture([str(path)]) as fed:
        fed.wait()
        assert not fed.failed
        assert fed.index.complete
        assert fed.index.read == fed.index.size == path.stat().st_size
        same(fed, path)


def test_a_packed_capture_is_unpacked_beside(tmp_path):
    packed = tmp_path / "tour.pcapng.gz"
    packed.write_bytes(gzip.compress(TOUR.read_bytes()))
    with FedCapture([str(packed)]) as fed:
        fed.wait()
        same(fed, TOUR)


def test_a_packed_capture_that_ends_early_shows_what_came(tmp_path):
    packed = tmp_path / "cut.gz"
    packed.write_bytes(gzip.compress(PCAP.read_bytes())[:-5000])
    with FedCapture([str(packed)]) as fed:
        fed.wait()
        assert fed.count > 10
        assert fed.message(1).data
        texts = [each.text for each in fed.index.file_findings]
        assert any("ends early" in text for text in texts)


@pytest.mark.parametrize("path", [TOUR, PCAP], ids=lambda path: path.name)
def test_a_capture_that_is_still_written_is_followed(path, tmp_path):
    whole = path.read_bytes()
    grown = tmp_path / path.name
    grown.write_bytes(b"")
    seen: list[int] = []
    with FedCapture([str(grown)], follow=True) as fed:
        # Cut anywhere: inside the file header, inside records, between them.
        cuts = [0, 9, 40, len(whole) // 3, len(whole) // 3 + 1, len(whole) // 2, len(whole)]
        for start, stop in itertools.pairwise(cuts):
            with grown.open("ab") as file:
                file.write(whole[start:stop])
            end = time.monotonic() + (20 if stop > 100 else 0.3)
            before = fed.count
            while time.monotonic() < end and (fed.count == before or stop < 100):
                fed.take()
                time.sleep(0.01)
                if stop == cuts[4]:
                    break
            seen.append(fed.count)
        assert seen[3] > 0
        assert seen[5] > seen[3]
        assert fed.busy
        fed.finish()
        fed.wait()
        assert fed.index.complete
        same(fed, path)


def test_reading_can_be_paused_and_goes_on():
    with FedCapture([str(PCAP)]) as fed:
        fed.pause()
        assert fed.paused
        fed.resume()
        fed.wait()
        same(fed, PCAP)


def test_a_process_that_dies_is_told():
    with FedCapture([str(PCAP)], follow=True) as fed:
        while not fed.count:
            fed.take()
            time.sleep(0.01)
        fed._process.kill()
        fed.wait()
        assert "ended early" in fed.failed
        assert fed.message(1).data  # what is there still works


def test_what_cannot_be_opened_is_told_at_once(tmp_path):
    with pytest.raises(CaptureError, match="no such file"):
        FedCapture([str(tmp_path / "none.pcap")])
    notes = tmp_path / "notes.txt"
    notes.write_text("only notes, no packets\n" * 9)
    with pytest.raises(CaptureError, match="not a capture"):
        FedCapture([str(notes)])
    with pytest.raises(CaptureError, match="one capture"):
        FedCapture([str(TOUR), str(PCAP)], follow=True)


def test_a_packed_file_that_is_no_capture_fails_with_a_word(tmp_path):
    packed = tmp_path / "notes.gz"
    packed.write_bytes(gzip.compress(b"only notes, no packets\n" * 9))
    with FedCapture([str(packed)]) as fed:
        fed.wait()
        assert "not a capture" in fed.failed


def test_columns_that_were_taken_stay_while_another_thread_adds():
    """What a search in a thread relies on."""
    with FedCapture([str(PCAP)]) as fed:
        problems: list[str] = []
        done = threading.Event()

        def look() -> None:
            while not done.is_set():
                count = len(fed.index)
                frames = fed.index.rows.column("frame")[:count]
                if count and (len(frames) != count or int(frames.min()) < 1):
                    problems.append(f"{count} rows, {len(frames)} frames")

        thread = threading.Thread(target=look)
        thread.start()
        fed.wait()
        done.set()
        thread.join()
        assert problems == []
        assert fed.count > 50


@pytest.mark.parametrize("form", ["ndjson", "csv", "pcap"])
@pytest.mark.parametrize("whole", [True, False])
def test_an_export_takes_what_came_and_reads_nothing_itself(form, whole, tmp_path):
    with FedCapture([str(PCAP)], follow=not whole) as fed:
        while fed.busy if whole else not fed.count:
            fed.take()
            time.sleep(0.01)
        then, out = still(fed), tmp_path / "out"
        count = fed.count
        write_export(then, form, str(out), range(1, count + 1))
        if form != "pcap":
            assert len(out.read_text().splitlines()) == count + (form == "csv")
        assert fed.count == then.count == count
        fed.finish()
        fed.wait()
        same(fed, PCAP)
