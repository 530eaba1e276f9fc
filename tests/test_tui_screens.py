"""User stories of the screens beside the viewer: there, into the list, and back."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import tui_fake
import tui_fake_capture
from test_tui import picture, press
from test_tui_hostile import unsafe
from test_tui_pty import Terminal
from textual import events

from dissector.errors import UsageProblem
from dissector.health import commits, delay, lag, traffic
from dissector.node import walk
from dissector.reference import PAGES, compare, compare_all
from dissector.view import open_capture
from tui import present_reference
from tui.app import DissectApp
from tui.main_screen import MainScreen
from tui.screens.reference import definition_of, users
from tui.screens.relations import Relations
from tui.screens.sessions import Sessions
from tui.screens.transactions import TransactionList
from tui.screens.workbench import parsed_call
from tui.source import CaptureSource
from tui.table import TableColumn, placed

FOLDER = Path(__file__).parent.parent / "captures"
TABLES = {"f2": "sessions", "f3": "transactions", "f4": "relations", "f5": "findings"}


@pytest.fixture(scope="module")
def tour():
    with open_capture([str(FOLDER / "tour.pcapng")]) as capture:
        yield capture.read()


@asynccontextmanager
async def opened(source, size=(90, 24), title="tour.pcapng"):
    app = DissectApp(source, title)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield pilot


async def settle(pilot):
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


def shown(pilot) -> str:
    return "\n".join(picture(pilot.app))


# Tables.


@pytest.mark.parametrize(
    ("keys", "size"), [(tuple(TABLES), (80, 24)), (("f3",), (120, 40)), (("f5",), (60, 20))]
)
async def test_each_table_opens_leads_into_the_list_and_is_there_again(tour, keys, size):
    async with opened(CaptureSource(tour), size) as pilot:
        for key in keys:
            await press(pilot, key)
            screen = pilot.app.screen
            assert screen.name == TABLES[key]
            assert shown(pilot).lstrip().startswith(TABLES[key].capitalize())
            await press(pilot, "end")
            place = screen.table.cursor
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, MainScreen) or not screen.table.line_count
            if screen.table.line_count:
                await press(pilot, "backspace")
                assert pilot.app.screen is screen
                assert screen.table.cursor == place
            await press(pilot, "escape")
            assert isinstance(pilot.app.screen, MainScreen)


@pytest.mark.parametrize("key", TABLES)
async def test_every_line_of_a_table_can_be_told_of(tour, key):
    async with opened(CaptureSource(tour), (140, 90)) as pilot:
        await press(pilot, key)
        table, told = pilot.app.screen.table, set()
        for _ in range(table.line_count):
            told.add(shown(pilot))
            await press(pilot, "down")
        assert len(told) >= table.line_count


async def test_a_transaction_leads_to_its_messages_alone(tour):
    """By the recorder's list the last transaction of the tour is a streamed prepared one."""
    async with opened(CaptureSource(tour)) as pilot:
        await press(pilot, "f3", "end")
        text = shown(pilot)
        assert "prepared, committ" in text
        assert "gid" in text
        await press(pilot, "enter")
        main = pilot.app.screen
        numbers = list(main.messages.numbers)
        paths = [tour.path(tour.row(int(n)))[-1] for n in numbers]
        assert paths[0] == "Stream Start"
        assert paths[-2:] == ["Stream Prepare", "Commit Prepared"]
        assert main.messages.number == numbers[0]
        await press(pilot, "backspace", "escape")
        assert len(main.messages.numbers) == tour.count


async def test_a_subtransaction_that_was_rolled_back_is_told(tour):
    table = TransactionList(tour)
    line = next(i for i in range(len(table)) if "rolled back" in table.cells(i)[-1]
                and "streamed" in table.cells(i)[-1])  # fmt: skip
    told = "\n".join(f"{fact.label} {fact.text}" for fact in table.facts(line))
    assert "rolled back subtransaction" in told
    assert "(rolled back)" in told


def test_sessions_tell_what_the_recorder_set(tour):
    facts = json.loads((FOLDER / "tour.json").read_text())
    table = Sessions(tour)
    assert len(table) == len(facts["options"])
    for line, options in enumerate(facts["options"]):
        told = {fact.label: fact.text for fact in table.facts(line)}
        assert told["release"] == facts["server_version"]
        assert told["proto version"] == options["proto_version"]
        assert told["publications"] == options["publication_names"]
        lead = table.lead(line)
        assert lead.expression == f"stream == {line}"
        assert tour.row(lead.number).stream == line


def test_who_cancels_whom_is_told() -> None:
    with open_capture([str(FOLDER / "conversation" / "cancel.pcap")]) as capture:
        capture.read()
        table = Sessions(capture)
        told = [table.cells(line)[-1] for line in range(len(table))]
    # the recorder cancelled its own session, then sent a key that is nobody's, with process 4242
    assert told == ["cancelled by 1, talk", "cancels connection 0", "cancels process 4242"]


def test_relations_tell_the_columns_of_the_servers_catalog(tour):
    facts = json.loads((FOLDER / "tour.json").read_text())
    table = Relations(tour)
    told = {}
    for line in range(len(table)):
        name = table.cells(line)[0]
        told.setdefault(name, []).append([f.text for f in table.facts(line)])
    for relation in facts["relations"]:
        versions = told[f"{relation['schema']}.{relation['name']}"]
        names = [column["name"] for column in relation["columns"]]
        assert any(
            [text.partition("  ·  ")[0] for text in texts if "(OID" in text] == names
            for texts in versions
        )
        assert any(all(c["type"] in str(texts) for c in relation["columns"]) for texts in versions)


def test_relations_tell_what_changed_between_versions():
    with open_capture([str(FOLDER / "pg18-proto4.pcap")]) as capture:
        table = Relations(capture.read())
        changed = [
            fact.text
            for line in range(len(table))
            for fact in table.facts(line)
            if fact.label == "changed"
        ]
    assert any(text.startswith("renamed from public.alter_me") for text in changed)
    assert any("added" in text for text in changed)


async def test_tables_sort_by_key_and_by_click(tour):
    async with opened(CaptureSource(tour)) as pilot:
        await press(pilot, "f3")
        table = pilot.app.screen.table
        first = table.line
        heading = next(line for line in picture(pilot.app) if "Changes" in line)
        await pilot.click(offset=(heading.index("Changes") + 1, 2))
        await pilot.pause()
        counts = [int(table.model.cells(int(i))[3]) for i in table._order]
        assert counts == sorted(counts)
        assert table.line == first  # the cursor stays on its transaction
        await pilot.click(offset=(heading.index("Changes") + 1, 2))
        await pilot.pause()
        counts = [int(table.model.cells(int(i))[3]) for i in table._order]
        assert counts == sorted(counts, reverse=True)
        await press(pilot, "s")
        assert "▲" in shown(pilot)


async def test_findings_are_sorted_by_severity_and_lead_to_their_message():
    with open_capture([str(FOLDER / "conversation" / "base-backup-15.pcap")]) as capture:
        capture.read()
        async with opened(CaptureSource(capture)) as pilot:
            await press(pilot, "f5")
            table = pilot.app.screen.table
            assert table.line_count
            worst = [table.model.severity(i) for i in range(table.line_count)]
            assert sorted(worst, reverse=True) == worst or capture.index.file_findings
            await press(pilot, "end")
            number = table.model.lead(table.line).number
            if number:
                await press(pilot, "enter")
                assert pilot.app.screen.messages.number == number


async def test_without_a_capture_the_screens_say_so():
    async with opened(tui_fake.small()) as pilot:
        for key in ("f2", "f6"):
            await press(pilot, key)
            assert "There is no capture" in shown(pilot)
            await press(pilot, "escape")
        assert isinstance(pilot.app.screen, MainScreen)


@pytest.mark.parametrize("key", TABLES)
async def test_hostile_text_is_shown_in_no_table_as_it_is(key):
    capture = tui_fake_capture.HostileCapture()
    async with opened(CaptureSource(capture), (120, 40)) as pilot:
        await press(pilot, key)
        table = pilot.app.screen.table
        model = table.model
        assert len(model)
        told = []
        for line in range(len(model)):
            told += model.cells(line)
            told += [text for fact in model.facts(line) for text in (fact.label, fact.text)]
            lead = model.lead(line)
            told.append(lead.expression)
        assert unsafe("".join(told)) == []
        assert any("[red]X[/red]" in text for text in told)
        assert any("\\x1b]2;title" in text for text in told)
        assert unsafe(shown(pilot).replace("\n", "")) == []
        await press(pilot, "pagedown", "enter")
        assert unsafe(shown(pilot).replace("\n", "")) == []


def test_columns_fit_into_any_width():
    columns = [TableColumn("a", 5, 1), TableColumn("b", 8, 9), TableColumn("c", 10, 5, grow=10)]
    for width in range(1, 60):
        found = placed(columns, width)
        assert found
        if len(found) > 1:
            assert 1 + sum(wide + 1 for _, wide in found) <= width
    assert [i for i, _ in placed(columns, 60)] == [0, 1, 2]
    assert [i for i, _ in placed(columns, 22)] == [1, 2]


# Health.


async def test_health_plots_or_says_what_is_missing(tour, monkeypatch):
    pytest.importorskip("textual_plotext")
    async with opened(CaptureSource(tour), (80, 24)) as pilot:
        await press(pilot, "f6")
        await settle(pilot)
        assert "Traffic (bytes/s)" in shown(pilot)
        await press(pilot, "tab")
        assert "Transactions (a second)" in shown(pilot)
        await pilot.resize_terminal(140, 40)
        await pilot.pause()
        for title in ("Traffic", "Transactions", "Lag", "Delay"):
            assert title in shown(pilot)
        await press(pilot, "escape")
    with open_capture([str(FOLDER / "conversation" / "login-scram.pcap")]) as login:
        async with opened(CaptureSource(login), (110, 40)) as pilot:
            await press(pilot, "f6")
            await settle(pilot)
            for title in ("Lag", "Delay"):
                assert f"{title}: nothing here tells it" in shown(pilot)
    monkeypatch.setattr("tui.screens.health.find_spec", lambda name: None)
    async with opened(CaptureSource(tour), (80, 24)) as pilot:
        await press(pilot, "f6")
        assert f"{sys.executable} -m pip install textual-plotext" in shown(pilot).replace("\n", "")


def test_health_counts_what_the_capture_holds(tour):
    facts = json.loads((FOLDER / "tour.json").read_text())["messages"]
    times = tour.index.rows.column("time")
    span = (int(times.max()) - int(times.min())) / 1e9
    lines = traffic(tour.index, 50).lines
    sums = {name: float(values.sum()) for name, (_, values) in lines.items()}
    sent = {"client": 0, "server": 0}
    for number in range(1, tour.count + 1):
        row = tour.row(number)
        sent["server" if row.direction else "client"] += row.length
    for name, total in sent.items():
        assert sums[name] * span / 50 == pytest.approx(total, rel=0.001)
    at, values = commits(tour.index, 50).lines["committed"]
    wanted = facts["Commit"] + facts["Stream Commit"] + facts["Commit Prepared"]
    assert float(values.sum()) * span / 50 == pytest.approx(wanted, rel=0.001)
    assert len(at) == 50
    assert lag(tour).total == lag(tour).sampled >= 2
    assert (lag(tour).lines["lag"][1] >= 0).all()
    waited = delay(tour).lines
    assert set(waited) == {"server", "client"}
    assert all(
        (abs(values) < 1000).all() for _, values in waited.values()
    )  # one machine, one clock


# Reference.


async def test_one_key_goes_from_a_field_to_its_position_and_back_to_the_messages(tour):
    async with opened(CaptureSource(tour), (120, 50)) as pilot:
        main = pilot.app.screen
        number = next(n for n in range(1, tour.count + 1)
                      if tour.path(tour.row(n))[-1] == "Relation")  # fmt: skip
        main.messages.go_to(number)
        await pilot.pause()
        field = next(n for n in walk(tour.message(number).tree) if n.name == "type_modifier")
        main._select_byte(field.start)
        await press(pilot, "d")
        screen = pilot.app.screen
        assert screen.name == "reference"
        assert "Modifier" in shown(pilot) or "modifier" in shown(pilot)
        assert screen.page.path == "columns[].type_modifier"  # documented position 11 of Relation
        await press(pilot, "m")
        assert pilot.app.screen is main
        paths = {tour.path(tour.row(int(n)))[-1] for n in main.messages.numbers}
        assert paths == {"Relation"}
        await press(pilot, "backspace")
        assert pilot.app.screen is screen


def test_every_field_of_the_tour_has_its_position_in_the_reference(tour):
    """The page of the definition has the format and the meaning that the field shows."""
    from dissector.reference import page

    for number in range(1, tour.count + 1, 3):
        tree = tour.message(number).tree
        parents = {id(child): node for node in walk(tree) for child in node.children or ()}
        for node in walk(tree):
            if not node.position:
                continue
            chain, at = [], node
            while id(at) in parents:
                at = parents[id(at)]
                chain.append(at)
            name, release, position = definition_of(node, chain[::-1])
            row = page(name, release).rows[position - 1]
            assert (row.format, row.meaning) == (node.format, node.meaning), (number, node)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_releases_and_comparison(size):
    async with opened(tui_fake.small(), size) as pilot:
        await press(pilot, "f7")
        screen = pilot.app.screen
        screen.open_at("Stream Abort", 18, 3)
        await press(pilot, "left_square_bracket", "left_square_bracket", "c")
        text = shown(pilot)
        assert "PostgreSQL 16 beside 15" in text
        added = [line for line in picture(pilot.app) if " + " in line]
        assert any("abort_lsn" in line or "Int64" in line for line in added)
        while screen._release > 10:
            await press(pilot, "left_square_bracket")
        await press(pilot, "left_square_bracket", "c")
        assert "PostgreSQL 10 does not have Stream Abort" in " ".join(shown(pilot).split())


def test_marks_of_a_comparison_are_the_comparisons_changes():
    for old, new in ((10, 14), (14, 15), (15, 16), (17, 18), (18, 19)):
        for shown_one in compare_all(old, new):
            kinds = {}
            for kind, before, after in present_reference.pairs(shown_one):
                kinds.setdefault(kind, set()).add((after or before).path)
            changes = {}
            for change in shown_one.changes:
                changes.setdefault(change.kind, set()).add(change.name)
            assert kinds.get("added", set()) == changes.get("added", set())
            assert kinds.get("removed", set()) == changes.get("removed", set())
            differs = changes.get("format", set()) | changes.get("meaning", set())
            assert kinds.get("changed", set()) == differs
            assert kinds.get("moved", set()) == changes.get("moved", set()) - differs
            for line in present_reference.comparison_lines(shown_one, 100):
                assert sum(len(text) for text, _ in line.pieces) <= 100
    same = compare("Begin", 17, 18)
    assert {kind for kind, _, _ in present_reference.pairs(same)} == {"same"}


def test_every_page_has_lines_that_fit_and_a_filter_that_is_understood():
    from dissector.query import compile as understood
    from dissector.reference import page

    for message in PAGES:
        understood(users(message.name))
        shown_page = page(message.name, max(message.since, min(18, message.until)))
        for width in (40, 100):
            lines = present_reference.page_lines(shown_page, width)
            paths = [line.path for line in lines if line.path]
            assert list(dict.fromkeys(paths)) == [row.path for row in shown_page.rows]
        assert all(sum(len(text) for text, _ in line.pieces) <= 110 for line in lines)


# Workbench.


async def typed(pilot, text):
    pilot.app.screen.given.text = text
    await pilot.pause()


async def test_bytes_that_are_pasted_become_a_tree_and_errors_stand_where_they_are():
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8")
        assert "801" in shown(pilot)
        await typed(pilot, "43 00 0000000001a2b3c4 0000000001a2b400 0002e8f1a2b3c4d5")
        text = shown(pilot)
        assert "commit_lsn" in text
        assert "0/1A2B3C4" in text
        await typed(pilot, "43 00 zz")
        assert "line 1, column 7" in shown(pilot)
        assert "commit_lsn" in shown(pilot)  # the last thing that could be read stays
        await typed(pilot, "4300000000")
        assert "error: " in shown(pilot)
        await typed(
            pilot, r"b'B\x00\x00\x00\x00\x01\xe9\xd4P\x00\x03\x04m\x92\xe9%\xa7\x00\x00\x03!'"
        )
        assert "final_lsn" in shown(pilot)
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_a_byte_that_is_changed_changes_tree_and_text():
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8", "tab", "tab", "end", "2", "2")
        screen = pilot.app.screen
        assert screen.given.text.endswith("00000322")
        assert "802" in shown(pilot)
        await press(pilot, "end", "delete")
        assert screen.given.text.endswith("000003")
        assert "error: " in shown(pilot)
        await press(pilot, "plus")
        assert screen.shown.found == []


async def test_digits_that_come_at_once_are_all_taken():
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8", "tab", "tab", "home", "right")
        for digit in "0123456789abcdef":
            pilot.app.screen.octets.post_message(events.Key(digit, digit))
        await pilot.pause()
        await pilot.pause()
        screen = pilot.app.screen
        assert screen.given.text.startswith("42" + "0123456789abcdef")
        assert screen.shown.data[1:9].hex() == "0123456789abcdef"


async def test_what_the_bytes_are_taken_for_can_be_changed():
    delete = "44 00000321 00004001 4b 0001 74 00000001 31"
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8")
        await typed(pilot, delete)
        assert "I (in a stream)" in shown(pilot)
        await press(pilot, "tab", "I")
        screen = pilot.app.screen
        assert screen.shown.found == []
        xid = next(n for n in walk(screen.shown.tree) if n.name == "xid")
        assert xid.value == 0x321
        await press(pilot, "L")
        assert "layer replication" in shown(pilot)
        for _ in range(12):
            await press(pilot, "R")
        assert "PostgreSQL 10" in shown(pilot)


async def test_several_messages_are_walked_through_and_edited_together():
    rows = "\\x42000000000 1e9d4500003046d92e925a700000321".replace(" ", "") + "\n\\x4d00"
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8")
        await typed(pilot, rows)
        assert "message 1 of 2" in shown(pilot)
        await press(pilot, "tab", "right_square_bracket")
        assert "message 2 of 2" in shown(pilot)
        await press(pilot, "tab", "end", "0", "1")
        assert pilot.app.screen.given.text.splitlines()[1] == "\\x4d01"
        assert pilot.app.screen.given.text.splitlines()[0] == rows.splitlines()[0]


async def test_a_message_is_built_from_values():
    async with opened(tui_fake.small()) as pilot:
        await press(pilot, "f8", "tab", "B")
        field = pilot.app.screen.query_one("#asked")
        field.value = "Stream Abort(xid=799, subxid=800)"
        await press(pilot, "enter")
        screen = pilot.app.screen
        assert screen.given.text == "41" + "0000031f" + "00000320"
        await press(pilot, "B")
        pilot.app.screen.query_one("#asked").value = "Stream Abort(xyd=799)"
        await press(pilot, "enter")
        assert "xid" in shown(pilot)
        assert screen.given.text == "41" + "0000031f" + "00000320"


UNREADABLE = (
    "", "(", "Begin(", "Begin(1)", "Begin(**{})", "Begin(xid=f())", "Begin(xid=" + "[" * 500,
    "Begin(xid=1", "Begin(xid=__import__('os'))",
)  # fmt: skip


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_cannot_be_read_as_values_is_refused(text):
    if text == "Begin(":
        with pytest.raises(UsageProblem, match="character"):
            parsed_call("Begin(xid=")
        return
    with pytest.raises(UsageProblem):
        parsed_call(text)


async def test_hostile_bytes_in_the_workbench():
    payload = tui_fake.insert([tui_fake.raw(text) for text in tui_fake.HOSTILE])
    async with opened(tui_fake.small(), (100, 60)) as pilot:
        await press(pilot, "f8")
        await typed(pilot, payload.hex())
        await press(pilot, "tab", "asterisk")
        seen = ""
        for _ in range(3):
            seen += shown(pilot)
            await press(pilot, "pagedown")
        assert unsafe(seen.replace("\n", "")) == []
        assert "[red]X[/red]" in seen
        for text in tui_fake.HOSTILE[7:13]:
            await typed(pilot, text)
            assert unsafe(shown(pilot).replace("\n", "")) == []


# Copy and export.


async def test_what_one_stands_on_is_copied():
    async with opened(tui_fake.small()) as pilot:
        copied = []
        pilot.app.copy_to_clipboard = copied.append
        main = pilot.app.screen
        main.messages.go_to(2)
        await pilot.pause()
        main._select_byte(main._view.tree.end - 1)
        for digit in "1235678":
            await pilot.press("y", digit)
        data = tui_fake.xlog(tui_fake.begin())
        assert copied[0] == "771"
        assert copied[1] == "00000303"
        assert copied[2] == repr(b"\x00\x00\x03\x03")
        assert copied[3] == data.hex()
        assert copied[4] == repr(data)
        assert json.loads(copied[5])["path"] == ["CopyData", "XLogData", "Begin"]
        assert copied[6] == tui_fake.begin().hex()
        await press(pilot, "y", "escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_secrets_are_copied_masked():
    with open_capture([str(FOLDER / "conversation" / "login-cleartext.pcap")]) as capture:
        capture.read()
        number = next(n for n in range(1, capture.count + 1)
                      if capture.message(n).path == ("PasswordMessage",))  # fmt: skip
        secret = capture.message(number).data[5:-1]
        async with opened(CaptureSource(capture)) as pilot:
            copied = []
            pilot.app.copy_to_clipboard = copied.append
            pilot.app.screen.messages.go_to(number)
            await press(pilot, "tab")
            for digit in "12345":
                await pilot.press("y", digit)
        assert len(copied) == 5
        assert not any(secret.decode() in text or secret.hex() in text for text in copied)


async def test_the_shown_messages_are_written_to_a_file(tour, tmp_path):
    async with opened(CaptureSource(tour)) as pilot:
        await press(pilot, "f3", "enter")
        numbers = [int(n) for n in pilot.app.screen.messages.numbers]
        await press(pilot, "x")
        assert f"{len(numbers)} messages (transaction" in shown(pilot)
        assert f"All {tour.count} messages" in shown(pilot)
        await press(pilot, "1", "1")
        path = tmp_path / "out.ndjson"
        pilot.app.screen.query_one("#asked").value = str(path)
        await press(pilot, "enter")
        await settle(pilot)
        found = [json.loads(line)["number"] for line in path.read_text().splitlines()]
        assert found == numbers
        assert isinstance(pilot.app.screen, MainScreen)
        await press(pilot, "x", "1", "1")
        pilot.app.screen.query_one("#asked").value = str(path)
        before = path.read_bytes()
        await press(pilot, "enter")
        assert "exists" in shown(pilot)
        await press(pilot, "1")
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]
        await press(pilot, "x", "2", "2")
        pilot.app.screen.query_one("#asked").value = str(path)
        await press(pilot, "enter", "2")
        await settle(pilot)
        only = json.loads(path.read_text())
        assert only["number"] == numbers[0]
        assert only["fields"]


async def test_an_export_that_is_stopped_or_fails_leaves_nothing_behind(tour, tmp_path):
    from tui.exporting import FORMATS, ExportDialog

    async with opened(CaptureSource(tour)) as pilot:
        dialog = ExportDialog(tour, FORMATS[0], tmp_path / "x.ndjson", range(1, tour.count + 1))
        dialog.action_give_up()
        pilot.app.push_screen(dialog)
        await settle(pilot)
        assert list(tmp_path.iterdir()) == []
        missing = tmp_path / "no" / "such" / "x.ndjson"
        pilot.app.push_screen(ExportDialog(tour, FORMATS[0], missing, [1, 2]))
        await settle(pilot)
        assert isinstance(pilot.app.screen, MainScreen)


@pytest.mark.parametrize("stops", [False, True])
async def test_an_export_of_what_is_not_opened_can_be_stopped(tour, stops, tmp_path, monkeypatch):
    """Most messages are written many at a time: it says how many, and looks whether to stop."""
    from tui.exporting import FORMATS, ExportDialog

    paths = enumerate(map(tour.path, map(tour.row, range(1, tour.count + 1))), 1)
    numbers = [number for number, path in paths if path[-1] in ("Insert", "Begin", "Commit")]
    numbers *= 5000 // len(numbers)
    async with opened(CaptureSource(tour)) as pilot:
        dialog = ExportDialog(tour, FORMATS[0], tmp_path / "x.ndjson", numbers)
        if stops:  # when the first ones are written
            stop = partial(setattr, dialog, "_stop", True)
            monkeypatch.setattr("dissector.runs.give_back_freed_memory", stop)
        await pilot.app.push_screen(dialog)
        while pilot.app.screen is dialog:
            await pilot.pause(0.02)
        assert len(list(tmp_path.iterdir())) == (not stops)
        assert dialog._done == (0 if stops else len(numbers))


async def test_an_export_of_a_sorted_list_says_that_it_is_by_number(tour, tmp_path):
    async with opened(CaptureSource(tour), (80, 24)) as pilot:
        await press(pilot, "x")
        assert "by number" not in shown(pilot)
        await press(pilot, "escape")
        main = pilot.app.screen
        main.sort("length", True)
        lines = [main.messages.number_at(line) for line in range(tour.count)]
        await press(pilot, "x")
        assert "Export which messages? They are written by number" in shown(pilot)
        path = tmp_path / "out.csv"
        await press(pilot, "1", "3")
        pilot.app.screen.query_one("#asked").value = str(path)
        await press(pilot, "enter")
        await settle(pilot)
        numbers = [int(line.partition(",")[0]) for line in path.read_text().splitlines()[1:]]
    assert numbers == sorted(lines) != lines


@pytest.mark.parametrize("form", ["csv", "parquet", "pcap"])
async def test_an_export_of_any_format_says_how_far_it_is_and_ends(
    form, tour, tmp_path, monkeypatch
):
    from tui.exporting import FORMATS, ExportDialog

    if form == "parquet":
        pytest.importorskip("pyarrow")
    for name in ("slices.AT_ONCE", "parquet.BLOCK"):
        monkeypatch.setattr(f"dissector.{name}", 16)
    chosen = next(each for each in FORMATS if each[1] == form)
    path, count = tmp_path / "out", tour.count
    path.write_text("before")
    told: list[int] = []
    async with opened(CaptureSource(tour)) as pilot:
        for stops in (True, False):
            dialog = ExportDialog(tour, chosen, path, range(1, count + 1))
            written, seen = dialog._written, threading.Event()

            def tell(done, total, dialog=dialog, stops=stops, written=written, seen=seen):
                seen.wait(10)  # else it may have ended before it is looked at
                written(done, total)
                told.append(dialog._done)
                dialog._stop = stops and len(told) == 3

            monkeypatch.setattr(dialog, "_written", tell)
            await pilot.app.push_screen(dialog)
            assert "Esc stops and leaves no half file" in shown(pilot)
            seen.set()
            while pilot.app.screen is dialog:
                await pilot.pause(0.02)
            assert list(tmp_path.iterdir()) == [path]
            assert (path.read_bytes() == b"before") == stops
            if stops:
                assert 0 < told[0] < told[1] < told[2] < count
                assert len(told) == 3
    assert told[-1] == count


# Tour.


async def test_the_tour_tells_each_stop(tour):
    from tui.screens.tour import open_tour

    app = open_tour(tour)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "Stop 1 of" in shown(pilot)
        assert "The client has connected" in shown(pilot)
        seen = [app.screen.messages.number]
        for _ in range(len(app._stops) - 1):
            app.screen.action_stop(1)
            seen.append(app.screen.messages.number)
        await pilot.pause()
        assert unsafe(shown(pilot).replace("\n", "")) == []
        assert seen == [stop.number for stop in app._stops]
        assert len({tour.path(tour.row(n))[-1] for n in seen}) > 30
        last = app.screen.messages.number
        await press(pilot, "full_stop")
        assert app.screen.messages.number == last
        await press(pilot, "comma")
        assert app.screen.messages.number == seen[-2]
        await press(pilot, "n", "comma")  # from between two stops to the one that lies behind
        assert app.screen.messages.number == seen[-2]


def test_the_tour_as_a_user_starts_it(capsys):
    tty = Terminal("import sys; sys.argv = ['pgdissect', 'tour']; "
                   "from dissector.cli import main; sys.exit(main())")  # fmt: skip
    try:
        assert tty.until(b"The client has connected")
        tty.send(b"q")
        assert tty.leave() == 0
    finally:
        tty.stop()
    from dissector.cli import main

    with pytest.raises(SystemExit) as ended:
        main(["tour", "nowhere.pcap"])
    assert ended.value.code == 1
    assert "nowhere.pcap: no such file" in capsys.readouterr().err


def test_the_tour_says_where_its_capture_was_looked_for(monkeypatch, tmp_path):
    from dissector.errors import UserError
    from tui import tour as command

    assert command.tour_capture().name == "tour.pcapng"
    monkeypatch.setattr(command, "CAPTURE", tmp_path / "none.pcapng")
    with pytest.raises(UserError, match="name a capture"):
        command.tour_capture()
