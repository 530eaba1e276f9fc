"""The command line: one short function a sub-command; what they do stands in the modules they call.

Nothing here imports scapy or textual; each command imports what it needs when it runs, so that
``pgdissect list --help`` starts at once.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import click

from .arguments import RELEASES, named, options_of, reads_captures
from .errors import UsageProblem, UserError
from .standard import loading, not_written, prepare_streams, silence
from .text import visible

FILTER = "Only messages that match: 'xid == 771', 'message == Update and relation == city'."
NUMBER = "The message's number, the first column of `list`."


class Verbs(click.Group):
    """A group whose first word may be a capture: then ``open`` is meant."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else "-h"
        if first not in self.commands and first != "-h" and not first.startswith("--"):
            near = difflib.get_close_matches(first, self.commands, 1)
            if near and not Path(first).exists():
                raise click.UsageError(
                    f"no capture and no verb is called {visible(first)!r}: did you mean {near[0]}?",
                    ctx,
                )
            args = ["open", *args]
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **given: Any) -> click.Context:
        with _closed_pipes():  # help is printed here
            return super().make_context(*args, **given)

    def invoke(self, ctx: click.Context) -> Any:
        with _closed_pipes():
            return super().invoke(ctx)


class _ClosedPipeError(Exception):
    """Who reads the output has gone."""


@contextlib.contextmanager
def _closed_pipes() -> Iterator[None]:
    """Click ends with 1 where a pipe is closed; here that is no failure."""
    try:
        yield
    except BrokenPipeError:
        raise _ClosedPipeError from None


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pgdissect", prog_name="pgdissect")
def pgdissect() -> None:
    """Shows what PostgreSQL said on the wire, down to every byte of logical replication.

    `pgdissect CAPTURE...` opens captures in the terminal; the verbs below print or export them.
    """


def _opened(captures: tuple[str, ...], given: dict[str, Any], **asked: Any) -> Any:
    """The captures, with the options of `reads_captures`. Another process begins to read them before all
    that works on what it reads is loaded. asked: what `check_export` looks at."""
    if not all(map(os.path.isfile, captures)):  # a pipe may let one wait
        with loading():
            from .export import check_export
            from .secrets import Keys
        check_export(**asked)
        Keys(given["keylog"] or "")
    with loading():
        from .early import begin
    begun = begin(captures)
    from .view import open_capture

    return open_capture(captures, options_of(given), begun)


def _finish(capture: Any, strict: bool) -> None:
    from .report import closing_words

    if strict:
        capture.read()  # what is wrong counts wherever it stands, also behind a limit
    for line in closing_words(capture):
        click.echo(line, err=True)
    if strict and capture.has_errors():
        sys.exit(3)


@pgdissect.command("open")
@reads_captures
@click.option("--filter", "expression", metavar="EXPR", help="Begin with this filter.")
@click.option("--number", type=click.IntRange(1), help="Begin at this message.")
@click.option("--follow", is_flag=True, help="The capture is still written: show what comes.")
def open_(captures: tuple[str, ...], expression: str | None, number: int | None, follow: bool,
          strict: bool, **given: Any) -> None:  # fmt: skip
    """Open captures in the terminal user interface."""
    options = options_of(given)
    from .view import open_capture

    if not _on_terminal(captures):
        from .report import write_list

        with open_capture(captures, options) as capture:
            click.echo("no terminal for the interface: this is what `list` prints", err=True)
            write_list(capture, sys.stdout, expression, None)
            _finish(capture, strict)
        return
    from tui import run

    sys.exit(run(list(captures), options, follow=follow, expression=expression or "",
                 number=number or 0))  # fmt: skip


@pgdissect.command()
@click.option(
    "-i", "--interface", required=True, metavar="NAME", help="Where to record: lo, eth0, any."
)
@click.option(
    "--port",
    "ports",
    type=click.IntRange(1, 65535),
    multiple=True,
    help="A PostgreSQL server's port (repeatable); 5432 where none is named.",
)
@click.option(
    "--write", metavar="FILE", callback=named, help="Keep what is recorded; it must not exist yet."
)
@click.option(
    "--recorder",
    type=click.Choice(["dumpcap", "tcpdump", "scapy"]),
    help="Record with this program; the first that works otherwise.",
)
@click.option("--keylog", metavar="FILE", callback=named, help="NSS key log that decrypts TLS.")
@click.option("--show-secrets", is_flag=True, help="Show passwords, proofs, tokens, cancel keys.")
def live(interface: str, ports: tuple[int, ...], write: str | None, recorder: str | None,
         keylog: str | None, show_secrets: bool) -> None:  # fmt: skip
    """Record an interface and show what passes as it comes."""
    if not _on_terminal(()):
        raise click.UsageError(
            "live needs a terminal; to record only: tcpdump -w FILE -i INTERFACE"
        )
    from tui.live import run_live

    sys.exit(run_live(interface, ports, write or "", recorder or "", keylog or "", show_secrets))


@pgdissect.command(short_help="Show captures in a browser, on this machine only.")
@reads_captures
@click.option(
    "--web-port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="Port of the web server, on this machine only.",
)
def serve(captures: tuple[str, ...], web_port: int, strict: bool, **given: Any) -> None:
    """Show captures in a browser, on this machine only (needs the package textual-serve)."""
    from tui.serving import serve_captures

    sys.exit(serve_captures(list(captures), options_of(given), web_port))


def _on_terminal(captures: tuple[str, ...]) -> bool:
    """Whether the interface can be shown: it draws on standard error and reads keys from file 0.

    Where the capture comes on standard input, that moves away and the terminal takes its place.
    """
    if "TEXTUAL_DRIVER" in os.environ:  # a browser is the terminal
        return True
    if not (sys.stderr.isatty() and sys.stdout.isatty()):
        return False
    if sys.stdin is None or sys.stdin.isatty() or "-" not in captures:
        return sys.stdin is not None and sys.stdin.isatty()
    try:
        terminal = os.open("/dev/tty", os.O_RDWR)
    except OSError:
        return False
    sys.stdin = os.fdopen(os.dup(0), "r")
    os.dup2(terminal, 0)
    os.close(terminal)
    return True


@pgdissect.command("list")
@reads_captures
@click.option("--filter", "expression", metavar="EXPR", help=FILTER)
@click.option("--limit", type=click.IntRange(0, sys.maxsize), help="Stop after this many lines.")
def list_(captures: tuple[str, ...], expression: str | None, limit: int | None, strict: bool,
          **given: Any) -> None:  # fmt: skip
    """Print one line a message.

    Columns, tabs between: number, time, stream and direction (F: from the client, B: from the
    server), message, LSN, xid, relation, summary, [findings].
    """
    with _opened(captures, given, expression=expression) as capture:
        from .progress import Progress
        from .report import write_list

        capture.progress = Progress()
        write_list(capture, sys.stdout, expression, limit)
        _finish(capture, strict)


@pgdissect.command()
@reads_captures
@click.option("--number", type=click.IntRange(1), required=True, help=NUMBER)
@click.option("--json", "as_json", is_flag=True, help="Machine output.")
def show(captures: tuple[str, ...], number: int, as_json: bool, strict: bool, **given: Any) -> None:
    """Print one message with every field."""
    with _opened(captures, given) as capture:
        from .report import write_message

        write_message(capture, number, sys.stdout, as_json)
        _finish(capture, strict)


@pgdissect.command()
@reads_captures
@click.option(
    "--format",
    "form",
    required=True,
    type=click.Choice(["ndjson", "csv", "parquet", "sql", "pcap"]),
    help="parquet needs the extra of that name; sql is not built yet.",
)
@click.option("--output", metavar="FILE", callback=named,
              help="Write there instead of standard output.")  # fmt: skip
@click.option("--filter", "expression", metavar="EXPR", help=FILTER)
@click.option("--fields", is_flag=True, help="ndjson: with every field.")
@click.option("--payload", is_flag=True, help="ndjson: with the innermost layer's bytes as hex.")
def export(captures: tuple[str, ...], form: str, output: str | None, expression: str | None,
           fields: bool, payload: bool, strict: bool, **given: Any) -> None:  # fmt: skip
    """Write messages in a format for other programs."""
    asked = {"form": form, "expression": expression, "fields": fields, "payload": payload}
    with _opened(captures, given, **asked) as capture:
        from .export import write_export
        from .progress import Progress

        capture.progress = Progress(apart=output not in (None, "-"))
        write_export(capture, form, output, expression, fields=fields, payload=payload)
        _finish(capture, strict)


@pgdissect.command(short_help="Count messages, bytes, kinds, relations, findings.")
@reads_captures
@click.option("--json", "as_json", is_flag=True, help="Machine output.")
def stats(captures: tuple[str, ...], as_json: bool, strict: bool, **given: Any) -> None:
    """Count what captures hold: messages, bytes, kinds, relations, findings."""
    with _opened(captures, given) as capture:
        from .progress import Progress
        from .stats import write_stats

        capture.progress = Progress(apart=True)
        write_stats(capture, sys.stdout, as_json)
        _finish(capture, strict)


@pgdissect.command(short_help="Print the definition of a message, or of all.")
@click.argument("message", required=False)
@click.option("--pg", type=int, default=18, show_default=True, help="Server release, 10 to 19.")
@click.option("--history", is_flag=True, help="The message over all releases.")
@click.option("--json", "as_json", is_flag=True, help="Machine output.")
def explain(message: str | None, pg: int, history: bool, as_json: bool) -> None:
    """Print the definition of a message; without MESSAGE, of all of them."""
    from .reference import write_explain

    write_explain(sys.stdout, message, pg, history=history, as_json=as_json)


@pgdissect.command()
@click.argument("words", nargs=-1, metavar="MESSAGE OLD NEW")
@click.option("--all", "everything", is_flag=True, help="All messages: compare --all OLD NEW.")
@click.option("--json", "as_json", is_flag=True, help="Machine output.")
def compare(words: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Compare a message's definition in two releases."""
    from .reference import write_compare

    wanted = 2 if everything else 3
    if len(words) != wanted or not all(w.isascii() and w.isdigit() for w in words[-2:]):
        raise click.UsageError("say MESSAGE OLD NEW, for example: compare 'Stream Abort' 15 16")
    name = None if everything else words[0]
    write_compare(sys.stdout, name, int(words[-2]), int(words[-1]), as_json=as_json)


@pgdissect.command("hex", short_help="Dissect bytes given as hex.")
@click.argument("data", nargs=-1, metavar="[HEX... | -]")
@click.option(
    "--layer",
    default="pgoutput",
    show_default=True,
    type=click.Choice(["pgoutput", "replication", "frontend", "backend"]),
)
@click.option("--pg", type=RELEASES, default=18, show_default=True)
@click.option("--proto-version", type=click.IntRange(1, 4), help="pgoutput protocol version.")
@click.option("--in-stream", is_flag=True, help="Between Stream Start and Stream Stop.")
@click.option("--parallel", is_flag=True, help="With streaming 'parallel'.")
@click.option("--direction", type=click.Choice(["F", "B"]), help="Who sent it (replication layer).")
@click.option(
    "--file", metavar="FILE", callback=named, help="Read this: text, or what pg_recvlogical wrote."
)
@click.option("--show-secrets", is_flag=True, help="Show passwords, proofs, tokens, cancel keys.")
@click.option("--json", "as_json", is_flag=True, help="Machine output.")
def hex_(data: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Dissect bytes given as hex, a dump, Python bytes or base64: as HEX or on standard input."""
    from .workbench import write_hex

    write_hex(sys.stdout, sys.stdin, " ".join(data) if data else None, as_json=as_json, **given)


@pgdissect.command(short_help="Walk through a connection, for those who see it first.")
@click.argument("capture", required=False, metavar="[CAPTURE]")
def tour(capture: str | None) -> None:
    """Walk through a replication connection message by message, for those who see it first."""
    from tui.tour import run_tour, tour_capture

    if not _on_terminal(()):
        name = capture or str(tour_capture())
        return click.get_current_context().invoke(open_, captures=(name,))  # which lists it
    sys.exit(run_tour(capture))


def main(args: list[str] | None = None) -> NoReturn:
    """The entry point: runs a command and turns problems into one line and an exit code."""
    try:
        prepare_streams()
        code = pgdissect.main(args, standalone_mode=False) or 0
        sys.stdout.flush()
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as problem:
        problem.show()
        code = problem.exit_code
    except UsageProblem as problem:
        first, *more = problem.render().split("\n")
        indent = " " * len(
            "pgdissect: "
        )  # a caret below points at the same place of the first line
        click.echo("\n".join([f"pgdissect: {first}", *(indent + line for line in more)]), err=True)
        code = 2
    except UserError as problem:
        click.echo(f"pgdissect: {problem}", err=True)
        code = 1
    except (BrokenPipeError, _ClosedPipeError):
        silence()
        code = 0
    except OSError as problem:
        silence()
        click.echo(f"pgdissect: {not_written(problem)}", err=True)
        code = 1
    except MemoryError:
        click.echo(
            "pgdissect: out of memory; give part of the capture: editcap -r CAPTURE PART 1-100000",
            err=True,
        )
        code = 1
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    sys.exit(code)
