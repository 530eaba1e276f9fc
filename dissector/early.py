"""Reading that begins before the rest of the program is loaded: that takes as long as many megabytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .ahead import look_ahead
from .capture import CaptureFiles, open_capture_files
from .capture.far import FarStreams, may_be_far


@dataclass(slots=True)
class Begun:
    """Opened files, and the process that reads them, None where this one is to do it."""

    files: CaptureFiles
    streams: FarStreams | None

    def close(self) -> None:
        """Give back files and temporary space; end the other process."""
        if self.streams is not None:
            self.streams.end()
        self.files.close()


def begin(paths: Sequence[str]) -> Begun:
    """Open captures as one, and have another process read them where that pays. Raises CaptureError with
    one line that says why and what to try."""
    files = open_capture_files(paths, live=True)
    if not may_be_far(files):
        return Begun(files, None)
    streams = FarStreams(files, look_ahead)
    streams.start()
    return Begun(files, streams)
