"""``pgdissect live``: a recorder writes a file, the interface follows it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from dissector.text import visible


def run_live(
    interface: str,
    ports: Sequence[int] = (),
    write: str = "",
    recorder: str = "",
    keylog: str = "",
    show_secrets: bool = False,
) -> int:
    """Record `interface` and show what comes until the user quits; gives the exit code.

    write: the file that is kept, "" for none. Raises RecordingError where nothing can be recorded.
    """
    from dissector.index import Options
    from dissector.live import Recorder
    from dissector.session import Assumptions
    from tui import leaving, run

    options = Options(Assumptions(ports=tuple(ports)), keylog, show_secrets)
    with leaving.in_order(), Recorder(interface, ports, write, recorder) as recording:
        title = f"live {interface} ({recording.program})"
        code = run(
            [recording.path], options, follow=True, title=title,
            marks=not recording.temporary, recorder=recording,
        )  # fmt: skip
        recording.stop()
        if not recording.temporary:
            size = Path(recording.path).stat().st_size
            print(f"{visible(recording.path)}: {size:,} bytes recorded", file=sys.stderr)
    return code
