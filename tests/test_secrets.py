"""No secret of the recorded conversations leaves the program unless the user asks for it.

Passwords, digests, SCRAM's proofs, bearer tokens and cancel keys: they are taken from the raw streams, not
from the dissector's reading.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import recorded
import transforms
from click.testing import CliRunner

from dissector.cli import pgdissect
from dissector.index import Options
from dissector.rows import DECRYPTED
from dissector.view import Capture
from tui.opened import Opened

NAMES = ("login-cleartext", "login-md5", "login-scram", "protocol-3.2", "cancel", "tls13",
         "tls-direct")  # fmt: skip
WRITTEN = ("list", "show", "ndjson", "csv")


@cache
def secrets(name: str) -> frozenset[bytes]:
    """The secrets that stand in the streams of a capture (decrypted where they are encrypted)."""
    streams = list(transforms.streams(transforms.packets(recorded.path_of(name))).values())
    if name.startswith("tls"):
        plain = [v for v in recorded.views(name) if v.row.flags & DECRYPTED]
        streams = [b"".join(v.data for v in plain if v.direction == d) for d in "FB"]
    return frozenset(secret for stream in streams for secret in walked(stream))


def walked(stream: bytes) -> Iterator[bytes]:
    """The secrets of one side's stream, read message by message."""
    at = 0
    while stream[:1] == b"\0" and at + 8 <= len(stream):  # packets without a type byte
        length, code = struct.unpack_from("!ii", stream, at)
        if code == 80877102:
            yield stream[at + 12 : at + length]
        at += length
        if code >> 16 == 3:
            break
    while at + 5 <= len(stream):
        tag, length = struct.unpack_from("!ci", stream, at)
        body = stream[at + 5 : at + 1 + length]
        at += 1 + length
        if tag == b"K":
            yield body[4:]
        elif tag == b"p" and body[-1:] == b"\0":
            yield body[:-1]
        elif tag == b"p" and b",p=" in body:
            yield body.rpartition(b",p=")[2]
        elif tag == b"R" and body[:6] == b"\0\0\0\x0cv=":
            yield body[6:]


def forms(secret: bytes) -> set[bytes]:
    """How a secret could stand in an output."""
    made = {secret, secret.hex().encode(), secret.hex(" ").encode()}
    text = secret.decode("utf-8", "backslashreplace")
    return made | {text.encode(), ascii(text)[1:-1].encode()}


def written(name: str, how: str, *more: str) -> bytes:
    """What a command prints for a whole capture."""
    path = recorded.path_of(name)
    log = path.with_suffix(".keylog")
    options = [*more, *(("--keylog", str(log)) if log.exists() else ())]
    if how == "show":
        count = recorded.capture(name).count
        return b"".join(
            run(["show", str(path), "--number", str(n), *options, *as_json])
            for n in range(1, count + 1)
            if recorded.views(name)[n - 1].path[0] in SHOWN
            for as_json in ((), ("--json",))
        )
    if how == "list":
        return run(["list", str(path), *options])
    fields = ["--fields", "--payload"] if how == "ndjson" else []
    return run(["export", str(path), "--format", how, *fields, *options])


SHOWN = ("PasswordMessage", "SASLInitialResponse", "SASLResponse", "AuthenticationSASLFinal",
         "BackendKeyData", "CancelRequest")  # fmt: skip


def run(arguments: list[str]) -> bytes:
    result = CliRunner().invoke(pgdissect, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def leaked(name: str, output: bytes) -> set[bytes]:
    return {s for s in secrets(name) if any(form in output for form in forms(s))}


@pytest.mark.parametrize(
    ("name", "count"),
    [("login-cleartext", 3), ("login-md5", 3), ("login-scram", 4), ("protocol-3.2", 2),
     ("cancel", 2), ("tls13", 3), ("tls-direct", 3)],
)  # fmt: skip
def test_the_secrets_are_known(name: str, count: int) -> None:
    assert len(secrets(name)) == count
    if name == "login-cleartext":
        assert {"Geheim ü1".encode(), b"not it"} <= secrets(name)


@pytest.mark.parametrize("how", WRITTEN)
@pytest.mark.parametrize("name", NAMES)
def test_no_secret_is_written(name: str, how: str) -> None:
    assert leaked(name, written(name, how)) == set()


@pytest.mark.parametrize("how", ["show", "ndjson"])
@pytest.mark.parametrize("name", NAMES)
def test_secrets_are_written_when_asked_for(name: str, how: str) -> None:
    assert leaked(name, written(name, how, "--show-secrets")) == secrets(name)


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_in_a_slice_of_the_capture(name: str, tmp_path: Path) -> None:
    slices = []
    for more in ((), ("--show-secrets",)):
        target = tmp_path / f"slice{len(slices)}"
        path = recorded.path_of(name)
        log = path.with_suffix(".keylog")
        keys = ("--keylog", str(log)) if log.exists() else ()
        run(["export", str(path), "--format", "pcap", "--output", str(target), *more, *keys])
        slices.append(target.read_bytes())
    masked, plain = slices
    assert leaked(name, masked) == set()
    if not name.startswith("tls"):
        assert len(masked) == len(plain)
        assert leaked(name, plain) == secrets(name)
        with Capture([str(tmp_path / "slice0")]) as opened:  # offsets and lengths stay
            opened.read()
            lengths = [view.row.length for view in recorded.views(name)]
            assert opened.index.rows.column("length").tolist() == lengths
    else:  # nothing in it opens the records
        with Capture([str(tmp_path / "slice0")]) as opened:
            opened.read()
            paths = {opened.path(opened.row(n))[0] for n in range(1, opened.count + 1)}
            assert paths <= {"TLSRecord", "SSLRequest", "SSLResponse"}


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_in_the_interface(name: str) -> None:
    for view in recorded.views(name):
        opened = Opened(view)
        shown = opened.data + "\n".join(
            opened.text(node, 1000) for node in recorded.nodes(view)
        ).encode("utf-8", "surrogateescape")
        assert leaked(name, shown) == set(), view.path


def test_passwords_in_statements(tmp_path: Path) -> None:
    """They are found by the text around them, in every output."""
    statement = b"ALTER ROLE ada PASSWORD 'vertraulich'; SELECT 'public'\0"
    startup = struct.pack("!ii", 18, 196608) + b"user\0ada\0\0"
    sent = [(0, startup), (1, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I"),
            (0, b"Q" + struct.pack("!i", len(statement) + 4) + statement)]  # fmt: skip
    path = tmp_path / "made.pcap"
    path.write_bytes(transforms.pcap(transforms.frames(transforms.conversation(sent))))
    target = tmp_path / "slice.pcap"
    run(["export", str(path), "--format", "pcap", "--output", str(target)])
    outputs = [
        run(["list", str(path)]), run(["show", str(path), "--number", "4"]), target.read_bytes(),
        run(["export", str(path), "--format", "ndjson", "--fields", "--payload"]),
    ]  # fmt: skip
    for output in outputs:
        assert not any(form in output for form in forms(b"vertraulich"))
        assert any(form in output for form in forms(b"public"))
    assert b"vertraulich" in run(["list", str(path), "--show-secrets"])


def test_masking_keeps_offsets_and_lengths() -> None:
    for view in recorded.of("login-scram", "SASLResponse"):
        data = Opened(view).data
        assert len(data) == len(view.data)
        assert re.fullmatch(rb"p....c=biws,r=[^,*]{40,},p=\*{44}", data, re.DOTALL)


def test_what_does_not_read_as_its_mechanism_stays_masked() -> None:
    from dissector.annotate import annotate, leaves
    from dissector.contents import open_contents
    from dissector.display import display
    from dissector.schemas import Schema
    from dissector.spec import Dialect

    for data in (b"c=biws,r=abc,p=topsecret", b"topsecret", b"c=biws;topsecret", b"\x01topsecret",
                 b"r=x,p=topsecret", b"c=biws,z=topsecret"):  # fmt: skip
        message = b"p" + (len(data) + 4).to_bytes(4, "big") + data
        dialect = Dialect(auth="AuthenticationSASLContinue")
        tree = open_contents(annotate(message, "frontend", dialect), message, dialect, Schema(""))
        assert b"".join(message[n.start : n.end] for n in leaves(tree)) == message
        assert not any("topsecret" in display(node) for node in leaves(tree))


def test_options_default_to_masking() -> None:
    assert Options().show_secrets is False
