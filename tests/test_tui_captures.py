"""The interface on shipped captures, and the program as a user starts it."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tui import opened, picture, press
from test_tui_hostile import unsafe
from test_tui_pty import Terminal

from dissector.node import leaves
from dissector.view import open_capture
from tui import present_fields
from tui.model import chain_at, path_to
from tui.opened import Opened
from tui.source import CaptureSource

CAPTURES = Path(__file__).parent.parent / "captures"
TOUR = CAPTURES / "tour.pcapng"


@pytest.fixture(scope="module")
def capture():
    with open_capture([str(TOUR)]) as found:
        yield found.read()


def test_every_row_of_the_list_says_what_the_capture_holds(capture):
    source = CaptureSource(capture)
    assert source.count == capture.count > 50
    names = set()
    for number in range(1, source.count + 1):
        row = source.row(number)
        assert row.number == number
        assert row.direction in "FB"
        assert unsafe(row.summary) == []
        names.add(row.path[-1])
    assert {"Begin", "Relation", "Insert", "Update", "Delete", "Truncate", "Commit"} <= names
    assert {"Stream Start", "Stream Abort", "Begin Prepare", "Rollback Prepared"} <= names


def test_every_field_of_every_message_can_be_shown(capture):
    source = CaptureSource(capture)
    for number in range(1, source.count + 1):
        message = Opened(source.message(number))
        for leaf in leaves(message.tree):
            if not leaf.length:
                continue
            chain = chain_at(message.tree, path_to(message.tree, leaf.start))
            assert chain[-1] is leaf
            told = present_fields.facts(message, leaf, chain[:-1])
            place = told[1].text.replace("\u00a0", " ")
            if leaf.finding is None:
                assert f"offset {leaf.start} (0x{leaf.start:x})" in place
                assert f"length {leaf.length}" in place
                assert not leaf.position or f"position {leaf.position}" in place
            for line in present_fields.wrap_facts(told, 80):
                assert unsafe("".join(text for text, _ in line)) == []
            pieces = present_fields.tree_pieces(message, leaf, 3, False, 0, 60)
            assert unsafe("".join(text for text, _ in pieces)) == []


async def test_an_insert_shows_its_columns_by_name(capture):
    source = CaptureSource(capture)
    number = next(
        n for n in range(1, source.count + 1)
        if source.row(n).path[-1] == "Insert"
        and len(source.message(n).schema.columns) > 1
    )  # fmt: skip
    columns = source.message(number).schema.columns
    async with opened(source, (120, 60)) as (pilot, screen):
        screen.messages.go_to(number)
        await pilot.pause()
        text = "\n".join(picture(pilot.app))
        assert f"[0] {columns[0].name}" in text
        assert f"[1] {columns[1].name}" in text
        await press(pilot, "tab")
        while screen.fields.node.index != 0:
            await press(pilot, "down")
        text = "\n".join(picture(pilot.app))
        assert f"column {columns[0].name}" in text


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("login-cleartext", {"PasswordMessage", "BackendKeyData"}),
        ("login-scram", {"AuthenticationSASLFinal", "SASLResponse", "BackendKeyData"}),
        ("cancel", {"CancelRequest", "BackendKeyData"}),
    ],
)
def test_secrets_are_masked_unless_asked_for(name, messages):
    seen = set()
    with open_capture([str(CAPTURES / "conversation" / f"{name}.pcap")]) as found:
        found.read()
        for number in range(1, found.count + 1):
            view = found.message(number)
            hidden, shown = Opened(view), Opened(view, show_secrets=True)
            assert shown.data == view.data
            for leaf in leaves(view.tree):
                if not getattr(leaf.declaration, "secret", False) or not leaf.length:
                    continue
                seen.add(view.path[-1])
                assert hidden.data[leaf.start : leaf.end] == b"*" * leaf.length
                assert "masked" in hidden.text(leaf, 100)
                assert "masked" not in shown.text(leaf, 100)
    assert messages <= seen


def test_what_is_no_capture_ends_with_1_and_a_line_before_any_screen(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are only some notes, no packets\n" * 10)
    tty = Terminal(f"import sys; sys.argv = ['pgdissect', {str(path)!r}]; "
                   "from dissector.cli import main; sys.exit(main())")  # fmt: skip
    try:
        assert tty.leave() == 1
        assert b"notes.txt" in tty.output
        assert b"\x1b[?1049h" not in tty.output
        assert len(tty.output.decode().strip().splitlines()) == 1
    finally:
        tty.stop()
