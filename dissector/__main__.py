"""``python -m dissector``, and what the installed script runs."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """The command line. Ctrl+C while it is still being loaded ends it without a traceback."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
