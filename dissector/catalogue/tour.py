"""Short texts for a walk through a replication connection, for those who see the protocol first.

Each says what just happened on the server (or the client), and what to look at in the message. They
fit captures/tour.pcapng, and any other capture as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Stop:
    """happened: what just happened, in one or two sentences. look: what to look at."""

    happened: str
    look: str


TOUR: Mapping[str, Stop] = MappingProxyType(
    {
        "SSLRequest": Stop(
            "Before anything else the client asks whether the connection can be encrypted.",
            "There is no type byte: a length of 8 and one odd number are all. The answer is a "
            "single byte, S or N.",
        ),
        "StartupMessage": Stop(
            "The client has connected and says who it is and what it wants.",
            "This packet has no type byte, for historical reasons. Read its parameters as pairs of "
            "texts: replication = database turns an ordinary session into one that can stream "
            "logical changes.",
        ),
        "AuthenticationOk": Stop(
            "The server believes that the client is who it says it is, and the session begins.",
            "All authentication messages share the type byte R; the code after the length tells "
            "them apart, and 0 means done.",
        ),
        "AuthenticationSASL": Stop(
            "The server asks the client to prove that it knows the password, without sending it.",
            "The mechanisms on offer are texts, one after the other; an empty one ends the list.",
        ),
        "AuthenticationSASLContinue": Stop(
            "The server answers with its challenge.",
            "The data are text: r= a random nonce, s= the salt, i= how often to hash.",
        ),
        "AuthenticationSASLFinal": Stop(
            "The proof was right, and now the server proves that it knows the password as well.",
            "v= is the server's signature: a client that checks it cannot be fooled by an "
            "impostor.",
        ),
        "SASLInitialResponse": Stop(
            "The client chooses a mechanism and sends its first message.",
            "The type byte p means four different messages; only what the server asked before "
            "tells which one this is.",
        ),
        "SASLResponse": Stop(
            "The client sends the proof that it knows the password.",
            "p= is the proof. It is masked here, because with it and the rest of the exchange "
            "somebody could try passwords at leisure.",
        ),
        "ParameterStatus": Stop(
            "The server reports one of its settings, unasked.",
            "server_version tells which manual describes the rest of the conversation, and "
            "client_encoding in which encoding all texts are.",
        ),
        "BackendKeyData": Stop(
            "The server hands out the key with which this session's queries can be cancelled.",
            "Process ID and key come back in a CancelRequest, on another connection. The key is "
            "masked, since whoever has it can cancel.",
        ),
        "ReadyForQuery": Stop(
            "The server has finished what it was doing and waits for a command.",
            "One letter tells the state of the transaction: I idle, T inside one, E inside one "
            "that failed.",
        ),
        "Query": Stop(
            "The client sends a command as text. On a replication connection it can be a "
            "replication command as well as SQL.",
            "In START_REPLICATION look at the slot, the LSN to begin at, and the options in "
            "brackets: proto_version and streaming decide how the messages after it are laid out.",
        ),
        "RowDescription": Stop(
            "The command returns rows, and the server first describes their columns.",
            "Find the column's name and the OID of its type: without them the values in the rows "
            "that follow are only bytes.",
        ),
        "DataRow": Stop(
            "The server sends one row of the result.",
            "Each value has its length before it; the length -1 (ffffffff) is NULL.",
        ),
        "CommandComplete": Stop(
            "A command has come to its end.",
            "The text names the command and, where it makes sense, how many rows it touched.",
        ),
        "ErrorResponse": Stop(
            "Something failed. Outside of a COPY the session goes on, unless the severity is "
            "FATAL.",
            "The message is a list of fields, each with a letter: S severity, C the SQLSTATE to "
            "look up, M the message.",
        ),
        "NoticeResponse": Stop(
            "The server mentions something; nothing has failed.",
            "It has the same fields as an error, and can stand between any two messages.",
        ),
        "CopyBothResponse": Stop(
            "START_REPLICATION was accepted. From now on both sides send CopyData whenever they "
            "like.",
            "This is the border between commands and the stream. The format and columns in it mean "
            "nothing in replication.",
        ),
        "CopyData": Stop(
            "One piece of the stream goes by.",
            "It is only a box: the first byte of its data tells what is in it, and that depends on "
            "the direction and on the command that began the stream.",
        ),
        "CopyDone": Stop(
            "One side says that it will send no more CopyData.",
            "The stream ends when both sides have said so; then the session takes commands again.",
        ),
        "Terminate": Stop(
            "The client says goodbye and closes the connection.",
            "Type byte and length, nothing else: the shortest message there is.",
        ),
        "XLogData": Stop(
            "The server has read a stretch of its WAL and sends what became of it.",
            "Two LSNs and a time stand before the data. In logical replication the data are "
            "exactly one message of the output plug-in; go one level down to see it.",
        ),
        "Primary keepalive message": Stop(
            "The server had nothing to send for a while, or wants to know how far the client is.",
            "The LSN is the end of the server's WAL. If the last byte is 1, watch the client "
            "answer with a Standby status update.",
        ),
        "Standby status update": Stop(
            "The client reports how far it has written, flushed and applied what it received.",
            "The flushed LSN matters most: the server throws WAL before it away and will never "
            "send it again.",
        ),
        "Hot standby feedback message": Stop(
            "The client asks the server not to remove row versions that it still needs.",
            "xmin is the oldest transaction whose view of the data must be kept; 0 asks for "
            "nothing.",
        ),
        "Begin": Stop(
            "A transaction has committed on the server, and only now is it sent, as a whole.",
            "The final LSN and the commit time are known already: compare them with those in the "
            "Commit at its end. All changes up to there belong to this xid.",
        ),
        "Commit": Stop(
            "All changes of the transaction have been sent, and the client can commit them.",
            "There are two LSNs: where the commit record begins, and where it ends. The client "
            "confirms the end one.",
        ),
        "Origin": Stop(
            "This transaction did not begin here: the server itself received it from elsewhere.",
            "Name and LSN say from where. A client that also sends changes to that place can skip "
            "the transaction, and so they do not go round in circles.",
        ),
        "Relation": Stop(
            "A change to a table is about to come, and the client has not been told about the "
            "table yet, or the table has changed.",
            "Note the OID: the rows that follow name the table by it alone. Then look at the "
            "columns: the flag 1 marks those by which old rows are found again.",
        ),
        "Type": Stop(
            "A table has a column whose type somebody made, such as an enum.",
            "The OID here comes back in a column of the next Relation; built-in types are not "
            "announced.",
        ),
        "Insert": Stop(
            "A row was inserted into a table that the publication covers.",
            "After the letter N comes the row: for each column a letter (t text, b binary, n "
            "NULL, u unchanged), and after t or b a length and the value. An empty text has "
            "length 0, NULL has no length at all.",
        ),
        "Update": Stop(
            "A row was updated. The new row is always sent, the old one only where it is needed.",
            "Look for K or O before the new row. K: the key itself changed, and here is the old "
            "one. O: the whole old row, for a table with replica identity full. Neither: the key "
            "in the new row finds the row.",
        ),
        "Delete": Stop(
            "A row was deleted, and what is sent is enough to find its copy.",
            "After K only the key has values; n in the other columns means not sent, not NULL. "
            "After O it is the whole row, and n means NULL again.",
        ),
        "Truncate": Stop(
            "One command emptied tables, maybe several at once.",
            "Count the OIDs, then look at the bits: 1 is CASCADE, 2 is RESTART IDENTITY. The rows "
            "that are gone are not sent one by one.",
        ),
        "Message": Stop(
            "An application called pg_logical_emit_message(): it wrote a note into the WAL for "
            "whoever reads the stream.",
            "The flag tells whether the note belongs to a transaction. Without it there is no "
            "Begin before and no Commit after it, and a rollback would not have taken it back.",
        ),
        "Stream Start": Stop(
            "A transaction grew so large that the server does not wait for its commit and sends a "
            "first part now.",
            "From here to Stream Stop each change has an xid of its own right after its letter: "
            "watch the positions move by one.",
        ),
        "Stream Stop": Stop(
            "This part of the transaction has been sent; the transaction itself goes on.",
            "One byte, no fields. Whatever comes next may belong to another transaction, so parts "
            "of several can alternate.",
        ),
        "Stream Commit": Stop(
            "The transaction whose parts were streamed has committed.",
            "Only the xid says which one. Until now the client had to keep all its parts aside.",
        ),
        "Stream Abort": Stop(
            "What was streamed is taken back: a whole transaction, or what followed a savepoint.",
            "Compare the two xids: equal means everything, different means that subtransaction "
            "only. With streaming parallel an LSN and a time follow.",
        ),
        "Begin Prepare": Stop(
            "A transaction was prepared for two-phase commit and is sent now, before anyone knows "
            "whether it will commit.",
            "The name at the end is the one that PREPARE TRANSACTION gave; it will come back when "
            "the transaction is decided.",
        ),
        "Prepare": Stop(
            "All of the prepared transaction has been sent. It now waits, on both sides.",
            "No Commit follows. Remember the name: minutes or days may pass before Commit Prepared "
            "or Rollback Prepared.",
        ),
        "Commit Prepared": Stop(
            "Somebody decided: the prepared transaction is committed.",
            "No changes are sent again; name and xid are enough.",
        ),
        "Rollback Prepared": Stop(
            "Somebody decided: the prepared transaction is rolled back.",
            "There are two times, of the prepare and of the rollback: the space between is how "
            "long the transaction held its locks.",
        ),
        "Stream Prepare": Stop(
            "A transaction that was streamed in parts is prepared for two-phase commit.",
            "It takes the place of Stream Commit; the decision comes later, as for any prepared "
            "transaction.",
        ),
    }
)
"""Name of a message, as release 18 calls it -> what to tell about it."""


def stop_for(path: Sequence[str]) -> Stop | None:
    """The text for the innermost message of `path` that has one; None if none has.

    path: names of messages, outermost first: ("CopyData", "XLogData", "Insert").
    """
    for name in reversed(path):
        found = TOUR.get("XLogData" if name == "WALData" else name)
        if found:
            return found
    return None
