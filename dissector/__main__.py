"""``python -m dissector``, and what the installed script runs."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command line. Ctrl+C ends it without a traceback, whenever it comes."""
    try:
        _run()
    except KeyboardInterrupt:
        os._exit(130)  # what waits to be written may be what could not be written


def _run() -> NoReturn:
    # numpy's linear algebra is not used: its threads would only be started, spin, and hold memory
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.disable()  # what loading makes stays: looking for garbage in it is wasted
    from .cli import main as run
    from .memory import keep_freed_memory

    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)  # an index has many objects, and hardly any in cycles
    gc.enable()
    keep_freed_memory()
    try:
        run()
    except SystemExit as ended:
        _end(ended.code)


def _end(code: str | int | None) -> NoReturn:
    """End without taking millions of objects apart one by one: the system takes their memory at once."""
    import threading  # not above: nothing there hears Ctrl+C yet

    if threading.active_count() > 1 or isinstance(code, str):
        sys.exit(code)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        sys.exit(code)  # the usual way knows what to do
    atexit._run_exitfuncs()
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    main()
