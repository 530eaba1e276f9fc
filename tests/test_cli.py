"""The command line as processes: exit codes, pipes, standard input, several captures."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from transforms import CAPTURES, conversation, frames, packets, pcap, split

ROOT = Path(__file__).parent.parent
PG = str(CAPTURES / "pg11-small.pcap")


def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "dissector", *words], input=stdin, capture_output=True, cwd=ROOT,
        check=False,
    )  # fmt: skip


def test_list_is_tab_separated_on_a_pipe() -> None:
    done = run("list", PG)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 0
    assert {line.count("\t") for line in lines} == {7}
    assert [line.split("\t")[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert run("list", PG, "--limit", "3").stdout.decode().splitlines() == lines[:3]
    assert run("list", PG, "--limit", "0").stdout == b""


def test_without_a_terminal_what_opens_the_interface_lists() -> None:
    """Not a screen drawn into a pipe that waits for keys which cannot come."""
    tour = str(CAPTURES / "tour.pcapng")
    lines = run("list", tour).stdout
    assert lines.count(b"\n") == 249
    for words in ([tour], ["open", tour], ["tour"], ["tour", tour]):
        done = run(*words)
        assert (done.returncode, done.stdout) == (0, lines)
        assert done.stderr.startswith(b"no terminal for the interface")


def test_a_capture_from_standard_input_and_compressed(tmp_path: Path) -> None:
    whole = run("list", PG).stdout
    assert run("list", "-", stdin=Path(PG).read_bytes()).stdout == whole
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(Path(PG).read_bytes()))
    assert run("list", str(packed)).stdout == whole


def test_several_captures_are_one(tmp_path: Path) -> None:
    made = frames(packets(CAPTURES / "pg11-small.pcap"))
    whole, parts = tmp_path / "whole.pcap", []
    whole.write_bytes(pcap(made))
    for i, each in enumerate(split(made, 3)):
        part = tmp_path / f"part{i}.pcap"
        part.write_bytes(pcap(each))
        parts.append(str(part))
    assert run("list", *parts).stdout == run("list", str(whole)).stdout


def test_a_closed_pipe_ends_quietly() -> None:
    source, sink = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "dissector", "export", str(CAPTURES / "pg18-proto4.pcap"), "--format",
         "ndjson", "--fields"], stdout=sink, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    os.close(sink)
    os.read(source, 10)
    os.close(source)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 0
    assert said == b""


def test_exit_codes(tmp_path: Path) -> None:
    missing = run("list", str(tmp_path / "none.pcap"))
    assert missing.returncode == 1
    assert len(missing.stderr.splitlines()) == 1
    assert run("list", PG, "--port", "99999").returncode == 2
    assert run("export", PG, "--format", "sql").returncode == 2
    assert run("stats", PG, "--strict").returncode == 0
    broken = tmp_path / "cut.pcap"
    broken.write_bytes(Path(PG).read_bytes()[:-7])
    assert run("stats", str(broken)).returncode == 0
    assert run("stats", str(broken), "--strict").returncode == 3


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("list", ""), 1),
        (("stats", PG, ""), 1),
        (("list", PG, "--keylog", ""), 2),
        (("export", PG, "--format", "csv", "--output", ""), 2),
        (("hex", "--file", ""), 2),
    ],
)
def test_an_empty_name_is_told(words: tuple[str, ...], status: int) -> None:
    """It is what "$UNSET" of a shell gives: no directory, and not as if nothing was said."""
    told = run(*words)
    assert told.returncode == status
    assert told.stdout == b""
    assert b"name is empty" in told.stderr
    assert b"a directory" not in told.stderr


def test_standard_input_is_named_once() -> None:
    told = run("list", "-", "-")
    assert told.returncode == 2
    assert told.stdout == b""
    assert b"name it once" in told.stderr


def test_a_capture_of_no_packets_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "none.pcap"
    path.write_bytes((CAPTURES / "pg18-proto1.pcap").read_bytes()[:24])
    done = run("list", str(path))
    assert done.returncode == 0
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "0 packets, 0 TCP connections, ports none" in line
    assert "--port" not in line  # there is none to name
    assert "tcpdump" in line


def test_nothing_of_postgresql_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "other.pcap"
    path.write_bytes(pcap(frames(conversation([(0, b"GET / HTTP/1.1\r\n\r\n" * 9)], server=80))))
    done = run("list", str(path))
    assert done.returncode == 0
    assert done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    assert "no PostgreSQL" in line
    assert "1 TCP connections" in line
    assert "80" in line


@pytest.mark.parametrize("nano, text", [(False, ".000001Z"), (True, ".000001002Z")])
def test_times_of_stats_have_the_resolution_of_the_capture(
    nano: bool, text: str, tmp_path: Path
) -> None:
    path = tmp_path / "one.pcap"
    number, made = frames(packets(CAPTURES / "pg11-small.pcap"))
    at = 86_400_000_001_002
    path.write_bytes(pcap((number, [(at, *rest) for _, *rest in made]), nano=nano))
    told = json.loads(run("stats", str(path), "--json").stdout)["time"]
    assert told["first"] == told["last"] == f"1970-01-02T00:00:00{text}"


@pytest.mark.parametrize(
    "words",
    [["list"], ["export", "--format", "csv"], ["export", "--format", "ndjson"]],
    ids=" ".join,
)
def test_a_filter_that_takes_nothing_says_so(words: list[str]) -> None:
    done = run(*words, PG, "--filter", 'relation == "no.such"')
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == ("csv" in words)  # its head
    (line,) = done.stderr.decode().splitlines()
    count = len(run("list", PG).stdout.splitlines())
    assert line.startswith(f"0 of {count} messages match; pgdissect stats {PG} tells ")
    piped = run(*words, "-", "--filter", 'relation == "no.such"', stdin=Path(PG).read_bytes())
    assert f"0 of {count} messages match; given the same input, " in piped.stderr.decode()
    assert b"match" not in run(*words, PG, "--filter", "message == Begin").stderr


def test_how_many_messages_a_filter_did_not_take() -> None:
    large = str(CAPTURES / "pg18-proto4.pcap")
    said = run("list", large, "--filter", "xid == 1").stderr.decode()
    assert f"0 of {len(run('list', large).stdout.splitlines()):,} messages match" in said
    assert b"match" not in run("list", PG, "--limit", "0", "--filter", "xid == 1").stderr
    assert b"match" not in run("list", PG).stderr


def test_lost_bytes_of_what_is_not_recognised_are_one_note(tmp_path: Path) -> None:
    """They may be the reason why it was not recognised."""
    requests = [(side, bytes([200 + side]) * 1000) for side in (0, 1) * 12]
    whole = conversation(requests, server=8000)
    carrying = [i for i, packet in enumerate(whole) if len(packet.payload) == 1000]
    lost = {carrying[0], carrying[3], carrying[6]}
    path = tmp_path / "lossy.pcap"
    path.write_bytes(pcap(frames(p for i, p in enumerate(whole) if i not in lost)))
    notes = [x for x in run("stats", str(path)).stderr.decode().splitlines() if "missing" in x]
    (note,) = notes
    assert note.startswith("note: connection 0: not recognised as PostgreSQL")
    assert "--port" in note
    assert json.loads(run("stats", str(path), "--json").stdout)["findings"]["note"] == 1
    path.write_bytes(pcap(frames(whole)))
    assert b"missing" not in run("stats", str(path)).stderr


def test_the_hint_at_findings_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "my captures; rm -f"
    folder.mkdir()
    made = frames(packets(CAPTURES / "pg18-proto1.pcap"))
    paths = [folder / "it's.pcap", folder / "b.pcap"]
    for path, part in zip(paths, split(made, 2), strict=True):
        path.write_bytes(pcap(part))
    paths.reverse()
    damaged = bytearray(paths[0].read_bytes())
    at = damaged.rindex(b"C\0\0\0")  # a message's length
    damaged[at + 1] = 0x7F
    paths[0].write_bytes(damaged)
    words = ["--port", "5432", *map(str, paths)]
    said = run("stats", *words).stderr.decode().splitlines()
    (hint,) = [line for line in said if " shows " in line]
    line = hint[hint.index("pgdissect ") : hint.rindex(" shows ")]
    pasted = subprocess.run(
        ["/bin/sh", "-c", f'pgdissect() {{ {shlex.quote(sys.executable)} -m dissector "$@"; }}; {line}'],
        capture_output=True, cwd=ROOT, check=True,
    )  # fmt: skip
    assert pasted.stdout
    assert pasted.stdout == run("list", "--filter", "severity >= note", *words).stdout
    (hint,) = [
        each for each in run("stats", "-", stdin=bytes(damaged)).stderr.decode().splitlines()
        if " shows " in each
    ]  # fmt: skip
    assert "given the same input, pgdissect list --filter 'severity >= note' - shows" in hint


def test_stats_count_what_the_export_holds() -> None:
    path = str(CAPTURES / "pg16-proto4.pcap")
    found = json.loads(run("stats", path, "--json").stdout)
    objects = [json.loads(x) for x in run("export", path, "--format", "ndjson").stdout.splitlines()]
    assert found["messages"] == len(objects)
    assert found["bytes"] == sum(o["length"] for o in objects)
    kinds = {tuple(k["message"]): k["messages"] for k in found["kinds"]}
    assert sum(kinds.values()) == len(objects)
    truncated = [o for o in objects if o["path"][-1] == "Truncate"]
    assert kinds["CopyData", "XLogData", "Truncate"] == len(truncated)
    sides = {d["direction"]: d["messages"] for d in found["directions"]}
    assert sides["F"] == sum(o["direction"] == "F" for o in objects)
    tables = {r["relation"]: r["messages"] for r in found["relations"]}
    one = "public.full_item"
    assert tables[one] == sum(o["relation"] == one or one in (o["relation"] or ()) for o in objects
                              if isinstance(o["relation"], str | list))  # fmt: skip


@pytest.mark.parametrize("verb", [["list"], ["export", "--format", "ndjson", "--fields"]])
def test_several_processes_write_the_same(
    verb: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dissector import runs
    from dissector.view import open_capture

    path = str(CAPTURES / "pg16-proto4.pcap")
    single = run(verb[0], path, *verb[1:]).stdout
    monkeypatch.setattr(runs, "MANY", 100)
    monkeypatch.setattr(runs, "BLOCK", 64)
    monkeypatch.setattr(runs, "MANY_OBJECTS", 100)
    monkeypatch.setattr(runs, "OBJECTS", 16)
    monkeypatch.setattr(runs, "processors", lambda: 3)
    with open_capture([path]) as capture:
        capture.read()
        numbers = range(1, capture.count + 1)
        for out in (io.BytesIO(), (tmp_path / "out").open("w+b")):
            with out:
                runs.Runs(capture).write(out, numbers, fields=len(verb) > 1)
                out.seek(0)
                assert out.read() == single


def test_what_a_process_could_not_write_is_told(tmp_path: Path) -> None:
    from dissector.errors import UserError
    from dissector.parallel import write_in_order

    def work(blocks: Iterable[int]) -> Iterator[bytes]:
        for block in blocks:
            if block == 7:
                raise ValueError("seven")
            yield bytes([block]) * 1000
            yield b""

    blocks = range(20)
    with pytest.raises(OSError, match="space"), Path("/dev/full").open("wb", buffering=0) as full:
        write_in_order(full, [1, 2, 3, 4], work, 2)
    with (
        pytest.raises(UserError, match=r"ended early.*taskset"),
        (tmp_path / "o").open("wb") as file,
    ):
        write_in_order(file, blocks, work, 2)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "words",
    [["export", "--format", "csv"], ["export", "--format", "ndjson"], ["export", "--format", "pcap"],
     ["list"], ["stats"], ["show", "--number", "3"]],
)  # fmt: skip
def test_what_is_written_only_in_part_is_told(words, unbuffered, tmp_path: Path) -> None:
    """A system that has room for a part writes that, and says so in the count alone."""
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "dissector", *words, str(CAPTURES / "tour.pcapng")],
            check=False, stdout=out, stderr=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
        )  # fmt: skip
    assert (tmp_path / "out").stat().st_size == 500
    assert done.returncode == 1
    assert done.stderr.startswith(b"pgdissect: standard output: File too large; ")


@pytest.mark.parametrize(
    "when",
    ["dissector.memory.keep_freed_memory", "dissector.cli.prepare_streams", "gc.freeze",
     "dissector.cli.pgdissect.main", "sys.stdout.flush"],
)  # fmt: skip
def test_ctrl_c_ends_quietly_whenever_it_comes(when: str) -> None:
    """While the program is loaded, at work, and while the last of the output is written."""
    module, _, name = when.rpartition(".")
    load = "import dissector.cli, dissector.memory, gc, sys, types"
    interrupt = "lambda *_, **__: signal.raise_signal(signal.SIGINT)"
    put = f"{module}.{name} = {interrupt}"
    if when == "sys.stdout.flush":  # of a buffer that is behind it then
        load += "; dissector.cli.prepare_streams = lambda: None"
        put = f"sys.stdout = types.SimpleNamespace(write=sys.stdout.write, flush={interrupt})"
    call = "sys.argv = ['pgdissect', 'compare', 'Begin', '17', '18']; m.main()"
    child = subprocess.run(
        [sys.executable, "-c", f"import signal; {load}; {put}; import dissector.__main__ as m; {call}"],
        capture_output=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert (child.returncode, child.stderr) == (130, b"")


def test_ctrl_c_while_numpy_is_loaded(tmp_path: Path) -> None:
    """numpy turns any error of its inner modules, this one too, into an ImportError with much advice."""
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text(
        "import signal\n"
        "try:\n    signal.raise_signal(signal.SIGINT)\n"
        "except BaseException as error:\n    raise ImportError('advice') from error\n"
    )
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        f"sys.argv = ['pgdissect', 'stats', {str(CAPTURES / 'pg18-proto1.pcap')!r}]\n"
        "import dissector.__main__ as m; m.main()"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, cwd=ROOT)
    assert (child.returncode, child.stdout, child.stderr) == (130, b"", b"")
