"""captures/contents.json, by which reference pages name captures that hold an example.

``python tests/test_contents.py`` writes it anew after a recording.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissector import catalogue, reference
from dissector.stats import statistics
from dissector.view import open_capture

CAPTURES = Path(__file__).parent.parent / "captures"
CONTENTS = CAPTURES / "contents.json"
LISTED: dict[str, list[str]] = json.loads(CONTENTS.read_text(encoding="utf-8"))
OUTSIDE = {m.name for m in catalogue.OUTSIDE}
"""Answers, TLS records and the like, which have no page."""

QUICK = 400_000
"""Bytes of a capture up to which its contents are counted again here."""


def held(path: Path) -> list[str]:
    """Names of all messages in a capture, by the newest names."""
    with open_capture([str(path)]) as capture:
        capture.read()
        kinds = statistics(capture)["kinds"]
    found = {name for kind in kinds for name in kind["message"]} - OUTSIDE
    return sorted("WALData" if name == "XLogData" else name for name in found)


@pytest.mark.parametrize("name", LISTED)
def test_what_is_listed_is_there(name: str) -> None:
    path = CAPTURES / name
    assert path.is_file(), "run python tests/test_contents.py"
    if path.stat().st_size <= QUICK:
        assert held(path) == LISTED[name], "run python tests/test_contents.py"


@pytest.mark.parametrize("name", [n for n in LISTED if "/" not in n])
def test_pgoutput_messages_are_those_of_the_truth(name: str) -> None:
    stem = name.partition(".pcap")[0]
    truth = json.loads((CAPTURES / f"{stem}.json").read_text(encoding="utf-8"))
    pgoutput = {m.name for m in reference.PAGES if m.layer == "pgoutput"}
    assert pgoutput & set(LISTED[name]) == pgoutput & set(truth["messages"])


def test_most_messages_have_an_example() -> None:
    without = {m.name for m in reference.PAGES if not reference.examples(m)}
    asked_by_no_server_here = {
        "AuthenticationKerberosV5",
        "AuthenticationSCMCredential",
        "AuthenticationGSS",
        "AuthenticationGSSContinue",
        "AuthenticationSSPI",
        "GSSResponse",
        "GSSENCRequest",
        "Primary status update",  # 19 only
        "Request primary status update",
        "Error fields",
    }
    assert asked_by_no_server_here >= without


def write() -> None:
    """Write the file anew from the captures that are there."""
    paths = sorted(p for p in CAPTURES.rglob("*.pcap*") if p.suffix in (".pcap", ".pcapng"))
    contents = {p.relative_to(CAPTURES).as_posix(): held(p) for p in paths}
    lines = (f"{json.dumps(name)}: {json.dumps(names)}" for name, names in contents.items())
    CONTENTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
