"""TLS inside a capture: key logs, records, and the plain text with the way back to its frames.

    log = load_keylog("keys.log")            # or KeyLog().extend(secrets block, name, strict=False)
    tls = TLSStream(log)                     # one per connection; log may be None
    for chunk in tls.feed("F", offset, data):    # "F" client to server, "B" back; stream offsets
        chunk.data, chunk.start, chunk.end   # plain text; its record's range in the TCP stream
    tls.gap("B", offset, length)             # bytes that the capture lacks; returns chunks as well
    tls.finish()                             # end of both streams
    tls.findings, tls.facts.lines()          # what is wrong; what the session's header shows

`is_client_hello` tells a stream that begins with TLS at once. Nothing here raises on captured bytes;
only a key log that the user names can be refused (KeyLogError, one line).
"""

from .handshake import Facts, is_client_hello
from .keylog import ADVICE, KeyLog, KeyLogError, load_keylog
from .state import Chunk, Located
from .stream import TLSStream

__all__ = [
    "ADVICE",
    "Chunk",
    "Facts",
    "KeyLog",
    "KeyLogError",
    "Located",
    "TLSStream",
    "is_client_hello",
    "load_keylog",
]
