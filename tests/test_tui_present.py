"""Strings of the interface, against values worked out by hand."""

from __future__ import annotations

import pytest
import tui_fake
from rich.cells import cell_len

from tui import actions, present, present_fields
from tui.model import chain_at, path_to
from tui.opened import Opened


def test_lsn_is_two_hexadecimal_halves():
    assert present.lsn_text(0x1A2B3C4) == "0/1A2B3C4"
    assert present.lsn_text(0x16_B374D848) == "16/B374D848"
    assert present.lsn_text(0) == "0/0"


def test_seconds_are_cut_not_rounded_and_keep_their_sign():
    assert present.seconds(1_999_999_999) == "1.999999"
    assert present.seconds(-1_500) == "-0.000001"
    assert present.seconds(3_600_000_000_000) == "3600.000000"


def test_time_of_day_is_utc():
    # 2025-11-29 18:53:12 UTC is 1764442392 seconds after the epoch.
    assert present.time_of_day(1_764_442_392_831_399_999) == "18:53:12.831399"


def test_clock_counts_from_the_first_message_or_from_the_one_before():
    clock = present.Clock(first=1_000_000_000)
    assert clock.text(1_250_000_000, 1_100_000_000) == "0.250000"
    clock.next_mode()
    assert clock.text(1_250_000_000, 1_100_000_000) == "0.150000"
    assert clock.text(1_250_000_000, None) == "0.000000"
    clock.next_mode()
    assert clock.text(1_250_000_000, None) == "00:00:01.250000"


@pytest.mark.parametrize(
    "text", ["", "abc", "a" * 30, "漢字漢字漢字", "e\u0301e\u0301", "🎉🎉🎉🎉🎉🎉"]
)
def test_fit_gives_exactly_the_width(text):
    for width in (1, 2, 5, 9):
        assert cell_len(present.fit(text, width)) == width


def test_fit_shows_that_something_was_cut():
    assert present.fit("abcdef", 4) == "abc…"
    assert present.fit("abcd", 4) == "abcd"
    assert present.fit("7", 3, right=True) == "  7"
    assert present.fit("é", 3, right=True) == "  é"


@pytest.mark.parametrize("down", [False, True])
def test_the_sign_of_the_order_is_seen_in_every_column(down):
    for column in present.COLUMNS:
        placed = present.place_columns(120, 1000, present.Clock(), (column.name, down))
        headings = present.headings(placed)
        assert sum(map(cell_len, headings)) == 120
        signs = [text.count("▼" if down else "▲") for text in headings[1:]]
        assert signs == [c is column for c in present.COLUMNS]


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 250])
@pytest.mark.parametrize("count", [1, 10_000_000])
def test_columns_fill_the_width_and_keep_what_is_worth_most(width, count):
    placed = present.place_columns(width, count, present.Clock())
    names = [p.column.name for p in placed]
    assert {"number", "summary"} <= set(names)
    assert names == [c.name for c in present.COLUMNS if c.name in names]
    assert placed[0].width >= len(str(count))
    total = present.SIGNS + sum(p.width + 1 for p in placed)
    assert total == width or len(placed) == 2


def test_all_columns_stand_on_a_wide_screen():
    assert len(present.place_columns(120, 1000, present.Clock())) == len(present.COLUMNS)


def test_bytes_in_a_row_fit_the_pane():
    for width in range(40, 300):
        shape = present_fields.hex_shape(width, 70_000)
        assert shape.digits == 6
        assert shape.text_column + shape.per_row <= width
    assert present_fields.hex_shape(40, 100).per_row == 8
    assert present_fields.hex_shape(75, 100).per_row == 16
    assert present_fields.hex_shape(143, 100).per_row == 32


def test_every_digit_and_character_finds_its_byte():
    shape = present_fields.hex_shape(75, 100)
    line = "".join(
        text for text, _ in present_fields.hex_pieces(b"0123456789abcdef", 16, shape, [])
    )
    assert line.startswith("0010  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66")
    for index in range(16):
        at = shape.column_of(index)
        assert line[at : at + 2] == f"{ord('0123456789abcdef'[index]):02x}"
        assert shape.byte_at(at) == shape.byte_at(at + 1) == index
        assert shape.byte_at(at + 2) is None
        assert line[shape.text_column + index] == "0123456789abcdef"[index]
        assert shape.byte_at(shape.text_column + index) == index


def test_path_to_a_byte_leads_to_the_leaf_that_holds_it():
    view = tui_fake.small().message(4)  # CopyData 5, XLogData 25, Insert: tag 30, oid 31 to 34
    root = view.tree
    for offset in range(len(view.data)):
        leaf = chain_at(root, path_to(root, offset))[-1]
        assert leaf.start <= offset < leaf.end
        assert not leaf.children
    assert chain_at(root, path_to(root, 31))[-1].name == "relation_oid"
    assert path_to(root, len(view.data)) == ()


def test_facts_of_a_field_tell_all_that_is_known():
    view = tui_fake.small().message(4)
    chain = chain_at(view.tree, path_to(view.tree, 33))
    told = present_fields.facts(Opened(view), chain[-1], chain[:-1])
    lines = ["".join(t for t, _ in line) for line in present_fields.wrap_facts(told, 78)]
    assert lines[0] == "CopyData.XLogData.Insert.relation_oid"
    text = " ".join(lines)
    for fact in (
        "offset 31 (0x1f), 1 in Insert",
        "length 4",
        "format Int32 (Oid)",
        "position 3",
        "16384",
        "meaning ",
    ):
        assert fact in text
    for width in (40, 80):
        for line in present_fields.wrap_facts(told, width):
            assert cell_len("".join(t for t, _ in line)) <= width


def test_path_of_an_array_element_has_its_index():
    view = tui_fake.small().message(4)
    chain = chain_at(view.tree, path_to(view.tree, len(view.data) - 1))
    path = present_fields.path_text(chain)
    assert path == "CopyData.XLogData.Insert.new.columns[1].value"


def test_every_action_has_keys_that_are_its_own_in_its_place():
    for where in actions.PLACES:
        keys = [key for a in actions.ACTIONS if a.where == where for key in a.keys.split(",")]
        assert keys
        assert len(keys) == len(set(keys))
        assert len(actions.bindings(where)) == sum(a.where == where for a in actions.ACTIONS)
    assert {a.where for a in actions.ACTIONS} == set(actions.PLACES)


def test_keys_are_named_as_on_a_keyboard():
    assert actions.key_names("question_mark,f1") == "?  F1"
    assert actions.key_names("ctrl+f,G,shift+tab") == "Ctrl+F  G  Shift+Tab"


def test_marked_bytes_keep_their_places():
    data = bytes(range(48, 64))
    shape = present_fields.hex_shape(75, 100)
    plain = "".join(text for text, _ in present_fields.hex_pieces(data, 16, shape, []))
    for first in range(10, 34):
        for last in range(first, 34):
            marks = [(first - 3, last + 3, "around"), (first, last, "field"), (20, 21, "at")]
            pieces = present_fields.hex_pieces(data, 16, shape, marks)
            assert "".join(text for text, _ in pieces) == plain
            styles = "".join(style[:1].ljust(1) * len(text) for text, style in pieces)
            for index in range(16):
                offset = 16 + index
                expected = (
                    "a" if offset == 20 else "f" if first <= offset < last
                    else "a" if first - 3 <= offset < last + 3 else " "
                )  # fmt: skip
                assert styles[shape.column_of(index)] == expected
                assert styles[shape.text_column + index] == expected
