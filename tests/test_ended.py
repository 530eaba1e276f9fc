"""Streamed and prepared transactions against a receiver that follows them message by message."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_transactions import made_index, summary

from dissector.transactions import transactions


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("Stream Commit", "COMMITTED"), ("Stream Abort", "ABORTED"), ("Stream Prepare", "PREPARED"),
    ],
)  # fmt: skip
def test_an_end_of_which_nothing_else_is_there(name, state) -> None:
    assert summary(made_index([(0, name, 5)])) == [(5, state, 0, 1, 0)]


@pytest.mark.parametrize("name", ["Commit Prepared", "Rollback Prepared"])
def test_a_decision_of_which_nothing_else_is_there(name) -> None:
    table = transactions(made_index([(0, name, 5)]), lambda number: None)
    assert [(t.xid, t.begin, t.end, t.decided) for t in table] == [(5, 0, 0, 1)]


NAMES = (
    "Stream Commit", "Stream Abort", "Stream Prepare", "Commit Prepared", "Rollback Prepared",
    "CopyBothResponse", "whole prepared", "segment",
)  # fmt: skip


def followed(parts, subs):
    """Streamed and prepared transactions as a receiver would keep them, message by message: (stream,
    xid, state, first messages of the pieces, end, decided, rolled back subtransactions)."""
    done, streamed, prepared = [], {}, {}

    def one(stream, xid):
        found = {"of": (stream, xid), "state": "OPEN", "at": [], "end": 0, "decided": 0, "subs": []}
        done.append(found)
        return found

    for number, (stream, name, xid) in enumerate(parts, 1):
        key = (stream, xid)
        if name == "CopyBothResponse":
            streamed = {k: v for k, v in streamed.items() if k[0] != stream}
        elif name == "Stream Start":
            if key not in streamed:
                streamed[key] = one(*key)
            streamed[key]["at"].append(number)
        elif name == "Begin Prepare":
            prepared[key] = one(*key)
            prepared[key].update(at=[number], state="PREPARED", end=number + 1)
        elif name in ("Commit Prepared", "Rollback Prepared"):
            found = prepared.pop(key, None) or one(*key)
            state = "COMMIT_PREPARED" if name == "Commit Prepared" else "ROLLED_BACK"
            found.update(decided=number, state=state)
        elif name == "Stream Abort" and subs[number] not in (None, xid) and key in streamed:
            streamed[key]["subs"].append((number, subs[number]))
        elif name in ("Stream Commit", "Stream Abort", "Stream Prepare"):
            found = streamed.pop(key, None) or one(*key)
            states = {"Commit": "COMMITTED", "Abort": "ABORTED", "Prepare": "PREPARED"}
            found.update(end=number, state=states[name.split()[1]])
            if name == "Stream Prepare":
                prepared[key] = found
    return sorted(
        (*t["of"], t["state"], tuple(t["at"]), t["end"], t["decided"], tuple(t["subs"]))
        for t in done
    )


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.sampled_from(NAMES), st.integers(1, 3),
                  st.sampled_from([None, 1, 2, 3])),
        max_size=40,
    )
)  # fmt: skip
def test_transactions_are_put_together_as_a_receiver_would(told) -> None:
    parts, subs = [], {}
    for stream, name, xid, sub in told:
        if name == "segment":
            parts += [(stream, "Stream Start", xid), (stream, "Stream Stop", xid)]
        elif name == "whole prepared":
            parts += [(stream, "Begin Prepare", xid), (stream, "Prepare", xid)]
        else:
            parts.append((stream, name, xid))
        subs[len(parts)] = sub
    table = transactions(made_index(parts), subs.get)
    assert followed(parts, subs) == sorted(
        (t.stream, t.xid, t.state.name, tuple(a for a, _ in t.segments), t.end, t.decided,
         t.subaborts)
        for t in table
    )  # fmt: skip


@pytest.mark.parametrize(
    ("opening", "end"),
    [("Stream Start", "Stream Commit"), ("Stream Start", "Stream Abort"), ("Begin", "Stream Commit"),
     ("Begin Prepare", "Rollback Prepared")],
)  # fmt: skip
def test_an_end_stands_in_no_piece_whose_own_end_was_lost(opening, end) -> None:
    parts = [(0, opening, 5), (0, "Insert", 5), (0, end, 6), (0, "Insert", 0)]
    table = transactions(made_index(parts), lambda number: None)
    assert [(t.xid, t.segments) for t in table] == [(5, ((1, 2),)), (6, ()), (0, ((4, 4),))]
    assert [table.rows(i).tolist() for i in range(3)] == [[1, 2], [3], [4]]


LOSSY = (*NAMES[:6], "Begin", "Insert", "Commit", "Begin Prepare", "Prepare", "Stream Start",
         "Stream Stop", "Message", "Relation")  # fmt: skip


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.sampled_from(LOSSY), st.integers(1, 3)), max_size=30)
)
def test_whatever_is_lost_a_message_belongs_to_one_transaction_at_most(parts) -> None:
    table = transactions(made_index(parts), lambda number: None)
    owners = [(n, i) for i in range(len(table)) for n in table.rows(i).tolist()]
    assert len(owners) == len(dict(owners))
    assert all(table.of(n) == i for n, i in owners)
    assert all(t.messages == len(table.rows(i)) for i, t in enumerate(table))
