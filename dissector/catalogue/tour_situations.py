"""Texts of the tour for messages that say something special: what they hold decides, see SITUATIONS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dissector.catalogue.tour import Stop

SITUATIONS: Mapping[str, Stop] = MappingProxyType(
    {
        "Query, IDENTIFY_SYSTEM": Stop(
            "The client asks the server who it is. This is not SQL but a command of the "
            "replication protocol, which only a walsender understands.",
            "The text is an ordinary Query; the answer is an ordinary result with one row.",
        ),
        "Query, CREATE_REPLICATION_SLOT": Stop(
            "The client makes a replication slot: from now on the server keeps the WAL that the "
            "slot has not confirmed.",
            "The output plug-in, pgoutput, is chosen here and stays with the slot. The row that "
            "comes back says from which LSN on changes are complete.",
        ),
        "Query, START_REPLICATION": Stop(
            "The client asks for the stream. All that follows depends on the options in this text.",
            "Read proto_version, streaming, two_phase and publication_names: they decide which "
            "messages come and which fields these have.",
        ),
        "Relation, replica identity full": Stop(
            "The server describes a table whose replica identity is FULL: old rows come whole.",
            "The replica identity is the letter f, and every column has the flag 1: the flag means "
            "that the column belongs to the replica identity, not that it is the primary key.",
        ),
        "Relation, described again": Stop(
            "The table is described a second time on this connection: it was changed, or what the "
            "server remembered about it was dropped.",
            "The OID is known already. A new Relation is the only sign of ALTER TABLE; from here on "
            "this description counts.",
        ),
        "Relation, in a stream": Stop(
            "Inside a streamed segment a table is described like anywhere else.",
            "There is an xid after the letter R. The description belongs to this transaction as "
            "long as it is not committed.",
        ),
        "Insert, with NULL": Stop(
            "A row was inserted in which one column is NULL.",
            "The column is the single letter n: no length and no value. An empty text would be the "
            "letter t and the length 0.",
        ),
        "Insert, in a stream": Stop(
            "A row was inserted by a transaction that has not committed yet.",
            "The xid after the letter I is that of the transaction or subtransaction that made the "
            "change; compare it with the xid of Stream Start.",
        ),
        "Update, with the old key": Stop(
            "An update changed a column of the replica identity, so the receiver must be told which "
            "row it was.",
            "The letter K and a tuple come before the new row. Its columns outside the key have the "
            "letter n, which here means not sent; NULL it is not.",
        ),
        "Update, with the old row": Stop(
            "A row of a table with replica identity FULL was updated.",
            "The letter O and the whole old row come before the new row. Here n does mean NULL.",
        ),
        "Update, with an unchanged value": Stop(
            "An update left alone a large value that is stored out of line (TOAST).",
            "The column is the letter u: nothing is sent, the receiver keeps the value that it has.",
        ),
        "Delete, with the old row": Stop(
            "A row of a table with replica identity FULL was deleted.",
            "The letter is O and the whole old row follows, which needs no key to be found again.",
        ),
        "Message, not transactional": Stop(
            "An application wrote a message that does not wait for its transaction.",
            "The flag is 0: there is no Begin before it and no Commit after it, and it would come "
            "even if the transaction were rolled back.",
        ),
        "Truncate, of several tables": Stop(
            "One TRUNCATE statement emptied several tables.",
            "One message lists them all by OID. The options are bits: 1 is CASCADE, 2 is RESTART "
            "IDENTITY.",
        ),
        "Stream Start, not the first": Stop(
            "The next part of a transaction that was streamed before.",
            "The byte after the xid is 0 now. The xid says which transaction goes on.",
        ),
        "Stream Abort, of a subtransaction": Stop(
            "Part of what was streamed is taken back: ROLLBACK TO SAVEPOINT ended a subtransaction.",
            "The two xids differ. The receiver drops the changes that have the second one.",
        ),
        "Standby status update, with a request": Stop(
            "The client reports its progress and asks the server to answer.",
            "The last byte is 1. A keepalive of the server comes back.",
        ),
        "Primary keepalive message, with a request": Stop(
            "The server has not heard from the client for a while and asks for a sign of life.",
            "The last byte is 1: the client should send a Standby status update at once, or the "
            "server ends the connection after wal_sender_timeout.",
        ),
    }
)
"""Message and situation -> what to tell about it instead of the message's general text."""
