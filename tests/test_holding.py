"""A filter on values opens only messages whose bytes can pass, and finds what it finds without that."""

from __future__ import annotations

import random
import string
import struct
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from transforms import conversation, frames, pcap

from dissector import encodings, query
from dissector.holding import holder
from dissector.node import leaves
from dissector.query.columns import COLUMNS
from dissector.query.needs import _SURE, needed
from dissector.query.patterns import literals
from dissector.query.values import Literal
from dissector.view import Capture, open_capture

CAPTURES = Path(__file__).parent.parent / "captures"
NAMES = [
    "pg18-proto4.pcap", "pg12-latin1.pcap", "pg17-proto4-binary.pcap", "tour.pcapng",
    "conversation/query-extended.pcap", "conversation/copy.pcap",
]  # fmt: skip
MOST = 300
"""Rows of each that are looked at: opening every one takes its time."""

FEWER = 120
"""The same where many filters are tried."""

SHOWN = {"int", "lsn", "xid", "full_xid", "oid", "bool", "protocol"}
"""Kinds of numbers, see `dissector.spec.Kind`."""


@pytest.fixture(scope="module", params=NAMES)
def capture(request: pytest.FixtureRequest) -> Capture:
    return open_capture([str(CAPTURES / request.param)]).read()


def found(
    capture: Capture, expression: str, quick: bool, most: int = MOST
) -> tuple[list[int], int]:
    """(rows that pass, messages opened)."""
    opened = []

    def open_message(number: int):
        opened.append(number)
        return capture.message(number)

    steps = query.compile(expression).search(
        capture.index, open_message, 0, most, holder(capture) if quick else None
    )
    return np.concatenate([step.rows for step in steps]).tolist(), len(opened)


def texts(capture: Capture) -> list[str]:
    """Values of rows, as far apart as the capture has them."""
    seen = {}
    last = min(MOST, capture.count)
    for number in range(1, last + 1, max(1, last // 200)):
        for leaf in leaves(capture.message(number).tree):
            if isinstance(leaf.value, bytes) and 0 < len(leaf.value) < 40:
                seen[leaf.value.decode("utf-8", "surrogateescape")] = None
    return list(seen)[:: max(1, len(seen) // 5)]


def test_what_is_found_is_the_same(capture: Capture) -> None:
    expressions = ["value == 1", "value == 0.5", "value in {1, 2, 30}", 'value == "nowhere"',
                   "value contains e", "not value == 2", "value != 1", "value in {1..3}",
                   'query contains "select" or value contains "a"', "gid or value == 7",
                   'value ~ "a|1"', 'value matches "^[a-z]+e"', 'value ~* "E.?|0$"', 'value ~ "."',
                   'query ~* "SELECT|insert +into" or value ~ "\\d1"', 'not value ~ "a"',
                   "xid > 0 and not (value contains 1 and column.name contains i)"]  # fmt: skip
    for text in texts(capture):
        if '"' in text or "\\" in text or not text.isprintable():
            continue
        expressions += [f'value == "{text}"', f'value contains "{text[1:]}"', f'query == "{text}"']
        if text.isdecimal():
            expressions += [f"value == {text}", f"value in {{{text}.0, 00{text}}}"]
    total = 0
    for expression in expressions:
        slow, _ = found(capture, expression, quick=False)
        assert found(capture, expression, quick=True)[0] == slow, expression
        total += len(slow)
    assert total


def test_messages_without_the_bytes_are_not_opened() -> None:
    capture = open_capture([str(CAPTURES / "pg18-proto4.pcap")]).read()
    for expression in (
        'value == "no such text"',
        'value ~ "^no such.*text|nothing [a-z]+ at all$"',
        'value ~* "NO suCH.*"',
        "start_lsn == 1/2345678",
        "relation_oid == 987654",
    ):
        rows, opened = found(capture, expression, quick=True)
        assert not rows
        assert opened * 20 < found(capture, expression, quick=False)[1], expression


def test_numbers_are_looked_for_as_they_are_sent(capture: Capture) -> None:
    seen: dict[str, str] = {}
    for number in range(1, min(FEWER, capture.count) + 1):
        for leaf in leaves(capture.message(number).tree):
            kind = getattr(leaf.declaration, "kind", None)
            if leaf.position and isinstance(leaf.value, int) and kind and kind.show in SHOWN:
                whole = leaf.value
                lsn = f"{whole >> 32:X}/{whole & 0xFFFFFFFF:X}"
                seen[leaf.name] = lsn if kind.show == "lsn" else str(whole)
    assert seen
    for name, value in seen.items():
        for expression in (f"{name} in {{{value}}}", f"not {name} == {value}",
                           f"{name} == {value} or value == 1"):  # fmt: skip
            slow, _ = found(capture, expression, quick=False, most=FEWER)
            assert found(capture, expression, quick=True, most=FEWER)[0] == slow, expression
        if name not in COLUMNS:
            assert found(capture, f"{name} == {value}", quick=True)[0], name


@settings(max_examples=500)
@given(
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-999, max_value=999),
    st.sampled_from(["{}", "+{}", "0{}", "00{}", "{}0", "{}00"]),
    st.sampled_from(["{}", "{}0", "0{}"]),
)
def test_numbers_that_are_equal_hold_the_same_digits(number, written, literal) -> None:
    text, wanted = written.format(number).replace("+-", "-"), literal.format(number)
    try:
        same = Decimal(text) == Decimal(wanted)
    except ArithmeticError:  # 0-5
        return
    needs = needed("==", [Literal(wanted, 0)], True)
    if same and needs is not None:
        assert any(part in text.encode() for part in needs.parts)


@pytest.mark.parametrize("codec", sorted({*encodings._CODECS.values(), "utf-8"}))
def test_ascii_in_a_text_is_in_its_bytes(codec: str) -> None:
    for first in range(256):
        for second in range(128) if first > 127 else (0,):  # ASCII as a second byte
            data = bytes((first, second))
            for run in _SURE.findall(data.decode(codec, "surrogateescape")):
                assert run.encode() in data


TOKENS = ["a", "b", "c", "1", " ", ".", "*", "+", "?", "|", "(", "(?:", ")", "[ab]", "[^a]", "[]a]",
          "{0}", "{2}", "{1,}", "{,2}", "{", "}", "^", "$", "\\b", "\\d", "\\.", "\\ ", "é",
          "(?i)", "(?=", "\\1", "\\x61", "[[:alpha:]]", "(?P<n>",
          "{e<=1:[}]}", "{s<=1}"]  # fmt: skip
"""Of which expressions are made."""


@pytest.mark.parametrize("seed", range(4))
def test_what_an_expression_finds_has_its_texts_in_it(seed: int) -> None:
    """For expressions of all kinds of signs, against all short texts."""
    dice = random.Random(seed)
    words = ["".join(w) for n in range(5) for w in product("abC1 ", repeat=n)]
    told = tried = 0
    while told < 300:
        source = "".join(dice.choices(TOKENS, k=dice.randrange(1, 7)))
        ignore_case = dice.random() < 0.3
        try:
            compiled = regex.compile(source, regex.IGNORECASE if ignore_case else 0)
        except regex.error:
            continue
        parts = literals(source, ignore_case)
        tried += 1
        if parts is None:
            continue
        told += 1
        for word in words:
            if compiled.search(word):
                seen = word.lower() if ignore_case else word
                wanted = [p.lower() if ignore_case else p for p in parts]
                assert any(part in seen for part in wanted), (source, word)
    assert told * 10 > tried


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("no such .*", ["no such "]),
        ("^abc$", ["abc"]),
        ("ab+c", ["ab"]),
        ("ab?cd", ["cd"]),
        ("abc|de[fg]hi|x", ["abc", "de", "x"]),
        ("a(b|c)def", ["def"]),
        (r"1\.5\d", ["1.5"]),
        ("(abc)", None),
        ("abc|.", None),
        ("(?i)abc", None),
        (r"abc\x41", None),
        ("[a[:digit:]]bc", None),
        ("", None),
        ("((", None),
        ("ab{2}c", ["a"]),
        ("abc{e<=1}d", None),  # errors that are allowed
        ("a{s<=1:[}]}b", None),
    ],
)
def test_texts_of_expressions(source: str, wanted: list[str] | None) -> None:
    assert literals(source) == wanted


def test_letters_that_have_another_case_beyond_ascii_are_not_looked_for() -> None:
    beyond = "".join(map(chr, range(128, 0x3000)))
    for letter in string.ascii_letters:
        also = regex.compile(letter, regex.IGNORECASE).search(beyond)
        assert (literals(letter, ignore_case=True) is None) == bool(also), letter


def message(kind: bytes, body: bytes = b"") -> bytes:
    return kind + struct.pack(">I", len(body) + 4) + body


def test_a_number_may_end_where_a_message_begins_with_a_digit(tmp_path: Path) -> None:
    """BindComplete is "2": the bytes around it read 1e22."""
    head = b"user\0u\0\0"
    start = struct.pack(">II", len(head) + 8, 3 << 16) + head
    ready = message(b"R", bytes(4)) + message(b"Z", b"I")
    one = message(b"B", bytes(8)) + message(b"D", b"P\0") + message(b"E", bytes(5))
    described = message(
        b"T", struct.pack(">H", 1) + b"c\0" + struct.pack(">IHIhiH", 0, 0, 25, -1, -1, 0)
    )
    rows = [
        message(b"D", struct.pack(">HI", 1, len(value)) + value)
        for value in (b"1e2", b"7", b"1.e+2", b"100", b"+1E02", b"1e-2", b"7")
    ]
    answers = b"".join(message(b"2") + described + row for row in rows)
    sent = [(0, start), (1, ready), (0, one * len(rows) + message(b"S")), (1, answers)]
    path = tmp_path / "digits.pcap"
    path.write_bytes(pcap(frames(conversation(sent))))
    capture = open_capture([str(path)]).read()
    rows_of = [r for r in range(capture.count) if capture.path(capture.row(r + 1)) == ("DataRow",)]
    equal = [rows_of[i] for i in (0, 2, 3, 4)]
    assert found(capture, "value == 100", quick=True)[0] == equal
