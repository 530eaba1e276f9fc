"""The commands that a walsender understands, with their options and what they do, as data.

They travel as the text of a Query message on a connection whose StartupMessage has the parameter
``replication``. Source: the manual page ``protocol-replication.html`` of releases 10 to 19.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dissector.spec import FIRST_RELEASE, LAST_RELEASE


@dataclass(frozen=True, slots=True)
class CommandOption:
    """One option or keyword of a command.

    form: how it is written: ``keyword`` (a bare word, with a value after it where takes is not
    empty) or ``option`` (in parentheses after the command, from release 15 on). takes: what its
    value is: "" nothing, ``boolean``, ``string``, ``integer``, ``lsn``, or the allowed words with |
    between.
    since / until: the releases that document it. Servers from 15 on still take the old keywords of
    CREATE_REPLICATION_SLOT, but not those of BASE_BACKUP.
    """

    name: str
    meaning: str
    form: str = "option"
    takes: str = ""
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE


@dataclass(frozen=True, slots=True)
class ReplicationCommand:
    """One command. syntax: its fixed part, names of values in lower case. answer: what comes
    back."""

    name: str
    syntax: str
    meaning: str
    answer: str
    options: tuple[CommandOption, ...] = ()
    since: int = FIRST_RELEASE
    until: int = LAST_RELEASE

    def options_in(self, release: int) -> tuple[CommandOption, ...]:
        """The options and keywords that the manual of `release` documents."""
        return tuple(o for o in self.options if o.since <= release <= o.until)


def _keyword(
    name: str, meaning: str, takes: str = "", since: int = FIRST_RELEASE, until: int = LAST_RELEASE
) -> CommandOption:
    return CommandOption(name, meaning, "keyword", takes, since, until)


def _old(name: str, meaning: str, takes: str = "", since: int = FIRST_RELEASE) -> CommandOption:
    return _keyword(name, meaning, takes, since, 14)


def _option(name: str, meaning: str, takes: str, since: int = 15) -> CommandOption:
    return CommandOption(name, meaning, "option", takes, since)


_CREATE = (
    _keyword("TEMPORARY", "The slot goes with the session and is never written to disk."),
    _keyword("PHYSICAL", "The slot is for physical replication."),
    _keyword("LOGICAL", "The slot is for logical decoding by the output plug-in named.", "string"),
    _old("RESERVE_WAL", "A physical slot holds WAL from now on, not from its first use."),
    _old("EXPORT_SNAPSHOT", "Exports a snapshot of the slot's starting point for other sessions."),
    _old("NOEXPORT_SNAPSHOT", "Makes no snapshot."),
    _old("USE_SNAPSHOT", "Uses the snapshot of the slot's starting point in this transaction."),
    _option("RESERVE_WAL", "A physical slot holds WAL from now on.", "boolean"),
    _option(
        "SNAPSHOT",
        "What becomes of the snapshot of the slot's starting point: exported, used here, or none.",
        "export|use|nothing",
    ),
    _option("TWO_PHASE", "The slot decodes prepared transactions at their PREPARE.", "boolean"),
    _option("FAILOVER", "The slot is synchronised to standby servers.", "boolean", 17),
)

_BACKUP = (
    _old("LABEL", "Label of the backup.", "string"),
    _old("PROGRESS", "Asks for the size of each tablespace, to report progress."),
    _old("FAST", "Asks for a fast checkpoint."),
    _old("WAL", "Puts the WAL that the backup needs into it."),
    _old("NOWAIT", "Does not wait until the last WAL is archived."),
    _old("MAX_RATE", "Most kilobytes to send in a second.", "integer"),
    _old("TABLESPACE_MAP", "Puts a file that maps the tablespaces into the backup."),
    _old("NOVERIFY_CHECKSUMS", "Does not check page checksums while reading.", since=11),
    _old("MANIFEST", "Whether a manifest is made.", "yes|no|force-encode", 13),
    _old("MANIFEST_CHECKSUMS", "Checksum algorithm of the manifest.", "string", 13),
    _option("LABEL", "Label of the backup.", "string"),
    _option("TARGET", "Where the backup goes.", "client|server|blackhole"),
    _option("TARGET_DETAIL", "For target server: the directory on the server.", "string"),
    _option("PROGRESS", "Asks for progress reports.", "boolean"),
    _option("CHECKPOINT", "Kind of checkpoint to begin with.", "fast|spread"),
    _option("WAL", "Puts the WAL that the backup needs into it.", "boolean"),
    _option("WAIT", "Waits until the last WAL is archived.", "boolean"),
    _option("COMPRESSION", "Compresses the archives on the server.", "gzip|lz4|zstd"),
    _option("COMPRESSION_DETAIL", "Level of the compression, or keyword=value pairs.", "string"),
    _option("MAX_RATE", "Most kilobytes to send in a second.", "integer"),
    _option("TABLESPACE_MAP", "Puts a file that maps the tablespaces into the backup.", "boolean"),
    _option("VERIFY_CHECKSUMS", "Checks page checksums while reading.", "boolean"),
    _option("MANIFEST", "Whether a manifest is made.", "yes|no|force-encode"),
    _option("MANIFEST_CHECKSUMS", "Checksum algorithm of the manifest.", "string"),
    _option("INCREMENTAL", "Sends only what changed since the manifest uploaded.", "boolean", 17),
)

COMMANDS: Mapping[str, ReplicationCommand] = MappingProxyType(
    {
        c.name: c
        for c in (
            ReplicationCommand(
                "IDENTIFY_SYSTEM",
                "IDENTIFY_SYSTEM",
                "Asks the server who it is and where its WAL ends.",
                "One row: systemid, timeline, xlogpos, dbname.",
            ),
            ReplicationCommand(
                "SHOW",
                "SHOW name",
                "Asks for the value of a setting.",
                "One row with the value.",
            ),
            ReplicationCommand(
                "TIMELINE_HISTORY",
                "TIMELINE_HISTORY tli",
                "Asks for the history file of a timeline.",
                "One row: filename, content.",
            ),
            ReplicationCommand(
                "CREATE_REPLICATION_SLOT",
                "CREATE_REPLICATION_SLOT slot_name",
                "Makes a replication slot.",
                "One row: slot_name, consistent_point, snapshot_name, output_plugin.",
                _CREATE,
            ),
            ReplicationCommand(
                "ALTER_REPLICATION_SLOT",
                "ALTER_REPLICATION_SLOT slot_name",
                "Changes options of a replication slot.",
                "CommandComplete only.",
                (
                    _option("FAILOVER", "The slot is synchronised to standbys.", "boolean", 17),
                    _option("TWO_PHASE", "The slot decodes prepared transactions.", "boolean", 18),
                ),
                since=17,
            ),
            ReplicationCommand(
                "READ_REPLICATION_SLOT",
                "READ_REPLICATION_SLOT slot_name",
                "Asks where a physical replication slot stands.",
                "One row: slot_type, restart_lsn, restart_tli; NULLs if there is no such slot.",
                since=15,
            ),
            ReplicationCommand(
                "DROP_REPLICATION_SLOT",
                "DROP_REPLICATION_SLOT slot_name",
                "Drops a replication slot.",
                "CommandComplete only.",
                (_keyword("WAIT", "Waits until the slot is free instead of failing."),),
            ),
            ReplicationCommand(
                "START_REPLICATION",
                "START_REPLICATION start_lsn",
                "Begins to stream WAL from an LSN on: raw, or decoded by a slot's output plug-in.",
                "CopyBothResponse, then CopyData both ways.",
                (
                    _keyword("SLOT", "Slot to use; logical replication needs one.", "string"),
                    _keyword("PHYSICAL", "Streams raw WAL, as is done without LOGICAL."),
                    _keyword("LOGICAL", "Streams what the slot's output plug-in makes of the WAL."),
                    _keyword("TIMELINE", "Timeline to stream, physical only.", "integer"),
                ),
            ),
            ReplicationCommand(
                "BASE_BACKUP",
                "BASE_BACKUP",
                "Sends a base backup of the whole cluster.",
                "Rows with start LSN and tablespaces, CopyOutResponse and archives, the end LSN.",
                _BACKUP,
            ),
            ReplicationCommand(
                "UPLOAD_MANIFEST",
                "UPLOAD_MANIFEST",
                "Uploads an earlier backup's manifest, for an incremental backup.",
                "CopyInResponse; the client sends the manifest as COPY data.",
                since=17,
            ),
        )
    }
)
"""Every command by its name. The options in parentheses of START_REPLICATION ... LOGICAL belong to
the output plug-in: pgoutput's stand in ``releases``."""
