"""Messages in formats for other programs: NDJSON, CSV, Parquet, SQL, and slices of the capture."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import IO

from .errors import UsageProblem, UserError
from .selection import Wanted, parts
from .text import visible
from .view import Capture


def write_export(
    capture: Capture, form: str, output: str | None, expression: Wanted, *,
    fields: bool = False, payload: bool = False,
) -> None:  # fmt: skip
    """Export messages to the file `output` or standard output.

    expression: a filter, the numbers of the messages themselves, or None for all.

    Raises UsageProblem for a format that is not built or cannot go where it is asked to.
    """
    writer = check_export(form, expression, fields=fields, payload=payload)
    if form in _BINARY and output in (None, "-") and sys.stdout.isatty():
        raise UsageProblem(f"{form} is not for a terminal; name a file with --output")
    _keep_inputs(capture, output)
    with _opened(output) as out:
        writer(capture, out, expression, fields, payload)


def check_export(
    form: str = "ndjson", expression: Wanted = None, *, fields: bool = False, payload: bool = False
) -> Writer:
    """What writes the format `form`. Raises UsageProblem where what was asked for cannot be, before
    anything is read, or a file is emptied."""
    if form == "parquet":
        from .parquet import needed

        needed()
    if (fields or payload) and form != "ndjson":
        raise UsageProblem("--fields and --payload go with --format ndjson")
    writer = _WRITERS.get(form)
    if writer is None:
        built = ", ".join(_WRITERS)
        raise UsageProblem(f"--format {form} is not built yet; there are: {built}")
    if isinstance(expression, str) and expression:
        from .query import compile as compiled

        compiled(expression)
    return writer


def _keep_inputs(capture: Capture, output: str | None) -> None:
    """Refuse to write into what is being read: emptying a mapped file would end the program too."""
    if output is None or output == "-":
        return
    inputs = [source.name for source in capture.files.sources]
    for name in filter(None, [*inputs, capture.options.keylog]):
        with contextlib.suppress(OSError, ValueError):
            if Path(output).samefile(name):
                raise UsageProblem(
                    f"{visible(output)} is the input; name another file with --output"
                )


@contextlib.contextmanager
def _opened(output: str | None) -> Iterator[IO[bytes]]:
    if output is None or output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with Path(output).open("wb") as file:
            yield file
    except OSError as error:
        raise UserError(
            f"{visible(output)}: {error.strerror}; name another file with --output"
        ) from None


def _ndjson(
    capture: Capture, out: IO[bytes], expression: Wanted, fields: bool, payload: bool
) -> None:
    from .parallel import is_file
    from .runs import Runs

    runs = Runs(capture, fields=fields, payload=payload)
    if is_file(out) and not capture.live:
        capture.read()  # what is learned from objects takes memory when the reading process is gone
    runs.write(out, parts(capture, expression), fields=True)


def _csv(capture: Capture, out: IO[bytes], expression: Wanted, fields: bool, payload: bool) -> None:
    from .slices import csv_rows

    for text in csv_rows(capture, parts(capture, expression), _total(capture, expression)):
        out.write(text)
        out.flush()


def _pcap(
    capture: Capture, out: IO[bytes], expression: Wanted, fields: bool, payload: bool
) -> None:
    from .slices import write_pcap

    capture.read()  # which frames hold secrets is known at the end only
    write_pcap(capture, out, parts(capture, expression))


def _parquet(
    capture: Capture, out: IO[bytes], expression: Wanted, fields: bool, payload: bool
) -> None:
    from .parquet import write_parquet

    write_parquet(capture, out, parts(capture, expression), _total(capture, expression))


def _total(capture: Capture, expression: Wanted) -> int:
    """How many messages are wanted; 0 where that is not known before all is read."""
    if expression is None or isinstance(expression, str):
        return capture.count if capture.index.complete and not expression else 0
    return len(expression) if isinstance(expression, Sized) else 0


Writer = Callable[[Capture, IO[bytes], Wanted, bool, bool], None]

_WRITERS: dict[str, Writer] = {
    "ndjson": _ndjson, "csv": _csv, "parquet": _parquet, "pcap": _pcap,
}  # fmt: skip

_BINARY = ("parquet", "pcap")

BUILT = frozenset(_WRITERS)
"""Formats that can be written."""
