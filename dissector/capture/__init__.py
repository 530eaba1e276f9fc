"""Capture files to byte streams: the lower half of the engine.

    with open_capture_files(paths) as files:             # files.py: pcap, pcapng, compressed, stdin
        streams = Streams(files)                         # link.py + tcp.py
        for batch in streams.batches():                  # a few thousand frames at a time
            for event in batch.events:
                match event:
                    case Chunk():  event.connection, event.direction, event.offset, event.data
                    case Gap():    event.offset, event.length   (missing bytes of that direction)
                    case End():    event.kind                   ("fin", "rst", "new", "capture")
        streams.connections[n], streams.stats, streams.findings, files.findings

Numbers. A *frame* number is 1-based over all files in time order. A *connection* is numbered from 0 in
order of first packet. A *direction* is 0 (what the sender of the connection's first packet sends) or 1;
`Connection.client` says which direction is the client's (0 or 1) when a SYN was seen, else None. A
*stream offset* counts the bytes of one direction: 0 is the first byte after the SYN, or the first
byte in the capture where the SYN is not in it. Offsets are Python ints or int64 and never wrap.
A *position* is where bytes lie in the files: ``file number << 42 | offset``, int64; `files.read(position,
length)` gives the bytes, `files.split(position)` the pair. Times are int64 nanoseconds since 1970-01-01 UTC.

Order. Events of one (connection, direction) come in stream order: chunks and gaps tile the stream from
offset 0 without holes. Events of a batch are sorted by the frame that made their first byte deliverable
(`arrival`). Across directions the exact order is in `Chunk.pieces`: bytes [offset, offset+length) of
piece i are complete in the capture with frame ``arrival[i]`` (that of the segment which filled what was
missing before them), and lie in frame ``frame[i]``. ``arrival`` never decreases along a stream, and
every arrival of a batch lies in first_frame..last_frame of that batch, so rows sorted by arrival inside
each batch are sorted over the whole capture.

    Chunk   connection, direction, offset, data (bytes), pieces (Pieces)
    Pieces  numpy columns, one row per segment piece, ascending offset, which tile the chunk:
            offset i8 (in the stream), length i8, position i8 (of the bytes), frame u4, arrival u4,
            time i8 (of `frame`), record i8 (position of the frame's record in its file)
    Gap     connection, direction, offset, length, frame (the frame of the first byte after it, or of the
            segment that proves the loss), arrival
    End     connection, direction, offset (stream length so far), kind, frame, arrival

To map back later: ``streams.pieces(connection, direction, start, stop)`` gives the Pieces that hold
that stream range, clipped to it, for everything delivered so far.

Findings: ``batch.findings`` are `StreamFinding`s (finding, connection, direction, offset, length,
frame, first_frame, first, other): a retransmission with other bytes carries both byte strings.
``streams.findings`` (snap length, link types) is complete after the last batch, ``files.findings``
(file-cut, file-damaged) likewise.

Counts for the line "no PostgreSQL in it": ``streams.stats`` (packets, tcp segments, other kinds),
``streams.ports`` (server port -> connections). ``streams.ignore(n)`` hands on nothing more of a connection.

Of the files: ``files.comments`` {frame number: [text]}, 0 for those of a file or interface;
``files.secrets`` [(type, bytes)] of Decryption Secrets Blocks; ``files.sources``: label, kind,
compression, size of each file; ``files.frame(record)`` reads one frame again by its record position:
`Frame(time, digits, linktype, wirelen, data, interface)`, where digits is the capture's own resolution
of that time (6 for microseconds, 9 for nanoseconds). Chunks and frames are read while the files are open.

Nothing in a capture raises; what cannot be opened at all raises `dissector.errors.CaptureError` at open.
"""

from dissector.capture.files import CaptureFiles, Frame, open_capture_files
from dissector.capture.tcp import Chunk, Connection, End, Gap, Pieces, StreamFinding, Streams

__all__ = [
    "CaptureFiles",
    "Chunk",
    "Connection",
    "End",
    "Frame",
    "Gap",
    "Pieces",
    "StreamFinding",
    "Streams",
    "open_capture_files",
]
