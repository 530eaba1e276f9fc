"""The program in a pseudo terminal on captures that come while it runs: pipes, growing files, recorders."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from test_tui_pty import Terminal

from dissector import live
from dissector.errors import UserError
from dissector.index import Options
from dissector.live import Recorder, RecordingError, capture_filter, command
from dissector.session import Assumptions
from dissector.view import open_capture
from tui.serving import HOST, serve_captures
from tui.serving import command as served

CAPTURES = Path(__file__).parent.parent / "captures"
TOUR = CAPTURES / "tour.pcapng"


@pytest.fixture
def terminal():
    started: list[Terminal] = []

    def start(*words: str, **more: str) -> Terminal:
        code = (f"import sys; sys.argv = ['pgdissect', *{list(words)!r}]; "
                "from dissector.cli import main; sys.exit(main())")  # fmt: skip
        started.append(Terminal(code, more))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_a_filter_in_the_real_program(terminal):
    tty = terminal(str(TOUR))
    assert tty.until(b"StartupMessage")
    tty.send(b"/message == Truncate\r")
    assert tty.until(b" shown"), tty.output[-5000:]
    with open_capture([str(TOUR)]) as found:
        capture = found.read()
        begins = [n for n in range(1, capture.count + 1) if capture.message(n).path[-1] == "Begin"]
    assert len(begins) > 2
    tty.send(b"/message == Begin\r")  # in place of the one before
    assert tty.until(f"  {len(begins)} shown".encode()), tty.output[-5000:]
    tty.send(f"/\x1b[F and number > {begins[0]}\r".encode())  # behind the one before
    assert tty.until(f"  {len(begins) - 1} shown".encode()), tty.output[-5000:]
    tty.send(b"q")
    assert tty.leave() == 0


def test_the_size_is_the_terminals_own(terminal):
    """Whatever the environment says: it may come from a program without a terminal, and stays."""
    tty = terminal(str(TOUR), COLUMNS="60", LINES="20")
    assert tty.until(b"StartupMessage")
    assert tty.until(b"\x1b[30;1H"), tty.output[-5000:]
    assert b"\x1b[31;1H" not in tty.output
    fcntl.ioctl(tty.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    tty.process.send_signal(signal.SIGWINCH)
    assert tty.until(b"\x1b[40;1H"), tty.output[-5000:]
    tty.send(b"q")
    assert tty.leave() == 0


def test_a_wrong_filter_is_told_before_any_screen(terminal):
    tty = terminal(str(TOUR), "--filter", "messag == Insert")
    assert tty.leave() == 2
    assert b"did you mean message?" in tty.output
    assert b"\x1b[?1049h" not in tty.output


def test_a_capture_that_grows_is_followed(terminal, tmp_path):
    grown = tmp_path / "grown.pcapng"
    whole = TOUR.read_bytes()
    grown.write_bytes(whole[: len(whole) // 2])
    tty = terminal("open", "--follow", str(grown))
    assert tty.until(b"following")
    assert b"249" not in tty.output
    with grown.open("ab") as file:
        file.write(whole[len(whole) // 2 :])
    assert tty.until(b"of 249"), tty.output[-3000:]
    tty.send(b"q")
    assert tty.leave() == 0


@pytest.mark.parametrize(
    "extra", [{}, {"TERM": "xterm"}, {"NO_COLOR": "1"}], ids=["256", "16", "none"]
)
def test_terminals_with_few_colours(terminal, extra):
    tty = terminal(str(TOUR), **extra)
    assert tty.until(b"StartupMessage")
    tty.send(b"\x1b[B\x1b[B")
    assert tty.until(b"message 3 of 249")
    tty.send(b"q")
    assert tty.leave() == 0


def recorder_script(folder: Path, text: str) -> str:
    """A ``tcpdump`` of our own in `folder`; gives the PATH on which it is the only recorder."""
    folder.mkdir()
    script = folder / "tcpdump"
    script.write_text(f"#!{sys.executable}\n{text}")
    script.chmod(0o755)
    return str(folder)


RECORDS = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.default_int_handler)
whole = open({path!r}, "rb").read()
out = open(sys.argv[sys.argv.index("-w") + 1], "wb")
try:
    for start in range(0, len(whole), 4000):
        out.write(whole[start : start + 4000])
        out.flush()
        time.sleep(0.01)
    time.sleep(60)
except KeyboardInterrupt:
    out.close()
"""


def test_live_shows_what_a_recorder_writes_and_keeps_it(terminal, tmp_path):
    path = recorder_script(tmp_path / "bin", RECORDS.format(path=str(TOUR)))
    kept = tmp_path / "kept.pcapng"
    tty = terminal("live", "-i", "lo", "--recorder", "tcpdump", "--write", str(kept),
                   PATH=path + os.pathsep + os.environ["PATH"])  # fmt: skip
    assert tty.until(b"of 249")
    assert b"live lo (tcpdump)" in tty.output
    tty.send(b"q")
    assert tty.leave() == 0
    assert kept.read_bytes() == TOUR.read_bytes()
    assert f"{TOUR.stat().st_size:,} bytes recorded".encode() in tty.output


def test_live_says_what_is_missing_where_rights_are(terminal, tmp_path):
    text = ('import sys\nsys.exit("tcpdump: lo: You don\'t have permission to perform this capture '
            'on that device")\n')  # fmt: skip
    path = recorder_script(tmp_path / "bin", text)
    tty = terminal("live", "-i", "lo", "--recorder", "tcpdump", PATH=path)
    assert tty.leave() == 1
    assert b"Recording needs rights: try sudo" in tty.output
    assert b"\x1b[?1049h" not in tty.output


def test_nothing_is_written_over(tmp_path):
    there = tmp_path / "there.pcap"
    there.write_bytes(b"work of a day")
    with pytest.raises(RecordingError, match="name another file"):
        Recorder("lo", write=str(there))
    assert there.read_bytes() == b"work of a day"


def test_an_interface_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(live, "RECORDERS", ("dumpcap", "tcpdump"))
    if not (shutil.which("dumpcap") or shutil.which("tcpdump")):
        pytest.skip("no recorder is installed")
    with pytest.raises(RecordingError) as error:
        Recorder("nosuch0")
    assert any(word in str(error.value) for word in ("ip link", "needs rights"))


def test_the_recorders_command_lines():
    assert capture_filter([]) == "(tcp port 5432) or (ip[6:2] & 0x1fff != 0)"
    assert "tcp port 5433 or tcp port 5434" in capture_filter([5433, 5434])
    for name in live.RECORDERS:
        words = command(name, "lo", [5433], "out.pcapng")
        assert "lo" in words
        assert "out.pcapng" in words
        assert any("tcp port 5433" in word for word in words)


def test_a_capture_on_standard_input_with_the_keyboard_beside_it():
    """As ``tcpdump -w - | pgdissect -``: the pipe is the capture, the terminal the keyboard."""
    code = (
        "import os, subprocess, sys, time\n"
        f"whole = open({str(TOUR)!r}, 'rb').read()\n"
        "child = subprocess.Popen([sys.executable, '-m', 'dissector', '-'],"
        f" stdin=subprocess.PIPE, cwd={str(CAPTURES.parent)!r})\n"
        "child.stdin.write(whole[:20000]); child.stdin.flush(); time.sleep(0.5)\n"
        "child.stdin.write(whole[20000:]); child.stdin.close()\n"
        "sys.exit(child.wait())\n"
    )
    tty = Terminal(f"import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n{code}")
    try:
        assert tty.until(b"of 249")
        tty.send(b"q")
        assert tty.leave() == 0
    finally:
        tty.stop()


def test_serving_takes_the_same_options_and_stays_on_this_machine():
    options = Options(Assumptions(release=16, proto_version=3, streaming="on", ports=(5433,)),
                      keylog="a key log.txt", show_secrets=True)  # fmt: skip
    line = served(["a b.pcap", "-x.pcap"], options)
    done = subprocess.run(
        ["/bin/sh", "-c", f'for word in {line.split(" ", 3)[3]}; do echo "[$word]"; done'],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    words = done.stdout.split("\n")[:-1]
    assert words == [
        "[open]", "[--port]", "[5433]", "[--pg]", "[16]", "[--proto-version]", "[3]",
        "[--streaming]", "[on]", "[--keylog]", "[a key log.txt]", "[--show-secrets]", "[--]",
        "[a b.pcap]", "[-x.pcap]",
    ]  # fmt: skip
    assert HOST == "127.0.0.1"


def test_what_serving_lacks_is_installed_beside_this_program(monkeypatch):
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)  # as if it were not there
    with pytest.raises(UserError) as raised:
        serve_captures([str(TOUR)], Options(), 8000)
    assert str(raised.value).endswith(f": {sys.executable} -m pip install textual-serve")


def test_a_page_is_served():
    pytest.importorskip("textual_serve")
    import socket
    import urllib.request

    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "dissector", "serve", "--web-port", str(port), str(TOUR)],
        cwd=CAPTURES.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        page = b""
        end = time.monotonic() + 20
        while not page and time.monotonic() < end and server.poll() is None:
            time.sleep(0.1)
            try:
                with urllib.request.urlopen(f"http://{HOST}:{port}/", timeout=5) as answer:
                    page = answer.read()
            except OSError:
                continue
        assert b"pgdissect" in page
    finally:
        server.terminate()
        server.wait(10)
