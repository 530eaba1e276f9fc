"""``pgdissect serve``: the interface in a browser, through textual-serve, on this machine only."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

from dissector.again import install, words
from dissector.errors import UserError
from dissector.index import Options

HOST = "127.0.0.1"


def command(captures: Sequence[str], options: Options) -> str:
    """The command line that shows the captures in a terminal, as a shell reads it."""
    return shlex.join([sys.executable, "-m", "dissector", "open", *words(captures, options)])


def serve_captures(captures: Sequence[str], options: Options, port: int) -> int:
    """Serve until Ctrl+C; gives the exit code. Raises UserError where that cannot be done."""
    from dissector.view import open_capture

    if "-" in captures:
        raise UserError("standard input cannot be served; write it to a file first")
    open_capture(captures, options).close()  # what cannot be opened is told here, not in a browser
    server_class = _server_class()
    server = server_class(command(captures, options), host=HOST, port=port, title="pgdissect")
    print(f"pgdissect: http://{HOST}:{port}/ shows it; Ctrl+C ends", file=sys.stderr)
    server.serve()
    return 0


def _server_class() -> Any:
    try:
        from textual_serve.server import Server
    except ImportError as error:
        raise UserError(
            f"serving needs an extra package; try: {install('textual-serve')}"
        ) from error
    return Server
