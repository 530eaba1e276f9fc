"""The pcapng format (draft-ietf-opsawg-pcapng): sections of either byte order, each with its own
interfaces; Enhanced, Simple and obsolete Packet Blocks; what other blocks say goes to the notes."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field

import numpy as np

from dissector.capture.frames import (
    MAX_FRAME,
    Array,
    Columns,
    Interface,
    Notes,
    distinct,
    nanoseconds,
    no_frames,
    waiting,
)
from dissector.capture.sources import Source
from dissector.findings import finding

SECTION, INTERFACE, PACKET, SIMPLE, NAMES, STATISTICS, ENHANCED, SECRETS = (
    0x0A0D0D0A,
    1,
    2,
    3,
    4,
    5,
    6,
    10,
)
BYTE_ORDER = 0x1A2B3C4D
COMMENT = 1
"""The option that any block may carry: a text for people."""

_FIXED = {ENHANCED: 20, PACKET: 20, SIMPLE: 4}
"""Bytes between the block header and the packet's bytes."""


@dataclass(slots=True)
class _Section:
    """start: offset of its header block. order: "<" or ">". base: number of its first interface."""

    start: int
    order: str
    base: int
    count: int = 0
    faces: list[Interface] = field(default_factory=list)


class _DamageError(Exception):
    """Nothing after this offset can be trusted."""

    def __init__(self, offset: int, what: str, cut: bool = False) -> None:
        super().__init__(what)
        self.offset, self.what, self.cut = offset, what, cut


class PcapngReader:
    """Frames of one pcapng file in batches."""

    def __init__(
        self, source: Source, notes: Notes, follow: Callable[[], bool] | None = None
    ) -> None:
        self.source = source
        self.follow = follow
        self.notes = notes
        self.sections: list[_Section] = []
        self.time = 0
        self.undeclared, self.first_undeclared = 0, -1

    def batches(self, frames: int, span: int) -> Iterator[Columns]:
        """Batches of at most `frames` frames and about `span` bytes. Findings go to the notes."""
        pos = 0
        while True:
            pos, damage = yield from self._stretch(pos, frames, span)
            if damage is not None and not damage.cut:
                break
            if not (yield from waiting(self.source, self.follow)):
                break
        if damage and not (damage.cut and self.source.cut):
            if damage.cut:
                found = finding("file-cut", damage.offset, file=self.source.label, what=damage.what)
            else:
                found = finding(
                    "file-damaged",
                    damage.offset,
                    file=self.source.label,
                    what=damage.what,
                    action="everything before it was read",
                )
            self.notes.findings.append(found)
        if self.undeclared:
            self.notes.findings.append(
                finding(
                    "file-damaged",
                    self.first_undeclared,
                    file=self.source.label,
                    what=f"{self.undeclared} packets of interfaces that were not described, first",
                    action="they were left out",
                )
            )

    def _stretch(
        self, pos: int, frames: int, span: int
    ) -> Generator[Columns, None, tuple[int, _DamageError | None]]:
        """Batches up to the end of the file as it is. Returns where it stopped, and why it did."""
        damage = None
        while pos < self.source.size and damage is None:
            self.source.need(self.source.size, pos)
            try:
                if self._kind(pos) == SECTION:
                    pos = self._open_section(pos)
                record, kinds, lengths, pos, damage = self._walk(pos, frames, span)
                columns, trouble = self._batch(record, kinds, lengths)
            except _DamageError as error:
                return error.offset, error
            damage = trouble or damage
            if len(columns.time):
                yield columns
        return (damage.offset if damage is not None else pos), damage

    def read(self, record: Array) -> Columns:
        """The frames whose blocks are at the offsets `record`, int64 (of a part that was read already)."""
        starts = np.array([section.start for section in self.sections])
        sections = np.searchsorted(starts, record, side="right") - 1
        found = Columns(*(np.empty(len(record), np.int64) for _ in Columns._fields))
        for number in distinct(sections).tolist():
            mine, section = np.flatnonzero(sections == number), self.sections[number]
            numbers, at = self.source.numbers(f"{section.order}u4"), record[mine]
            kind, length = numbers[at].astype(np.int64), numbers[at + 4].astype(np.int64)
            part = self._packets(section, at, kind, length, numbers)
            for column, values in zip(found, part, strict=True):
                column[mine] = values
        return found

    # blocks

    def _kind(self, pos: int) -> int:
        if pos + 4 > self.source.size:
            raise _DamageError(pos, "inside a block header", cut=True)
        order = self.sections[-1].order if self.sections else "<"
        return int(struct.unpack_from(f"{order}I", self.source.view, pos)[0])

    def _open_section(self, pos: int) -> int:
        """Read a Section Header Block; returns the offset behind it."""
        view, size = self.source.view, self.source.size
        if pos + 12 > size:
            raise _DamageError(pos, "inside a section header", cut=True)
        magic = bytes(view[pos + 8 : pos + 12])
        orders = {struct.pack(f"{order}I", BYTE_ORDER): order for order in "<>"}
        if magic not in orders:
            raise _DamageError(pos, "a section header without the byte-order magic")
        order = orders[magic]
        length = struct.unpack_from(f"{order}I", view, pos + 4)[0]
        self._check(pos, length, order, 28)
        self.sections.append(_Section(pos, order, len(self.notes.interfaces)))
        self._comments(-1, pos + 24, pos + length - 4, order)
        return int(pos + length)

    def _check(self, pos: int, length: int, order: str, least: int) -> None:
        size = self.source.size
        if length < least or length % 4 or length > MAX_FRAME:
            raise _DamageError(pos, f"a block of {length} bytes")
        if pos + length > size:
            what = f"the block needs {length} bytes, {size - pos} remain"
            raise _DamageError(pos, what, cut=True)
        trailer = struct.unpack_from(f"{order}I", self.source.view, pos + length - 4)[0]
        if trailer != length:
            raise _DamageError(pos, f"a block of {length} bytes that says {trailer} at its end")

    def _walk(
        self, pos: int, frames: int, span: int
    ) -> tuple[Array, Array, Array, int, _DamageError | None]:
        """Block offsets, types and lengths up to the next section or the batch's limits."""
        section, view, size = self.sections[-1], self.source.view, self.source.size
        head = struct.Struct(f"{section.order}II").unpack_from
        at: list[int] = []
        add = at.append
        stop = False
        last = min(size - 12, pos + span)
        for _ in range(frames):
            if pos > last:
                stop = pos < size and pos > size - 12
                break
            kind, length = head(view, pos)
            if kind == SECTION:
                break
            add(pos)
            pos += length
        numbers = self.source.numbers(f"{section.order}u4")
        record = np.array(at, np.int64)
        kinds = numbers[record].astype(np.int64)
        lengths = numbers[record + 4].astype(np.int64)
        end = record + lengths
        wrong = (lengths < 12) | (lengths % 4 != 0) | (end > size)
        wrong |= numbers[np.where(wrong, 4, end) - 4] != lengths
        damage = None
        bad = np.flatnonzero(wrong)
        if len(bad):
            first = int(bad[0])
            try:
                self._check(at[first], int(lengths[first]), section.order, 12)
            except _DamageError as error:
                damage = error
            record, kinds, lengths = record[:first], kinds[:first], lengths[:first]
        elif stop:
            damage = _DamageError(pos, "inside a block header", cut=True)
        return record, kinds, lengths, pos, damage

    def _batch(
        self, record: Array, kinds: Array, lengths: Array
    ) -> tuple[Columns, _DamageError | None]:
        section = self.sections[-1]
        packet = (kinds == ENHANCED) | (kinds == SIMPLE) | (kinds == PACKET)
        for i in np.flatnonzero(~packet).tolist():
            self._other(section, int(kinds[i]), int(record[i]), int(lengths[i]))
        record, kinds, lengths = record[packet], kinds[packet], lengths[packet]
        numbers = self.source.numbers(f"{section.order}u4")
        fixed = np.where(kinds == SIMPLE, 4, 20)
        short = lengths < fixed + 12
        caplen_at = np.where((kinds == SIMPLE) | short, record, record + 20)
        fits = ~short & ((kinds == SIMPLE) | (numbers[caplen_at] <= lengths - fixed - 12))
        damage = None
        bad = np.flatnonzero(~fits)
        if len(bad):
            first = int(bad[0])
            what = f"a packet block of {int(lengths[first])} bytes that is too short for its packet"
            damage = _DamageError(int(record[first]), what)
            record, kinds, lengths = record[:first], kinds[:first], lengths[:first]
        if not len(record):
            return no_frames(), damage
        columns = self._packets(section, record, kinds, lengths, numbers)
        known = columns.interface < section.base + section.count
        if not known.all():
            if not self.undeclared:
                self.first_undeclared = int(record[~known][0])
            self.undeclared += int((~known).sum())
            columns = columns.rows(known)
            kinds, lengths = kinds[known], lengths[known]
        optional = (kinds != SIMPLE) & (-(-columns.caplen // 4) * 4 + 32 < lengths)
        for i in np.flatnonzero(optional).tolist():
            start = int(columns.offset[i]) + -(-int(columns.caplen[i]) // 4) * 4
            stop = int(columns.record[i]) + int(lengths[i]) - 4
            self._comments(self.source.base | int(columns.record[i]), start, stop, section.order)
        return columns, damage

    def _packets(
        self, section: _Section, record: Array, kinds: Array, lengths: Array, numbers: Array
    ) -> Columns:
        simple = kinds == SIMPLE
        face = numbers[record + 8].astype(np.int64)
        old = kinds == PACKET
        if old.any():
            face[old] = self.source.numbers(f"{section.order}u2")[record[old] + 8]
        face[simple] = 0
        # A Simple Packet Block has no room for the three other words; word 8 is its only one.
        step = np.where(simple, 8, 20)
        caplen = numbers[record + step].astype(np.int64)
        wirelen = numbers[record + np.where(simple, 8, 24)].astype(np.int64)
        if simple.any():
            snaplen = section.faces[0].snaplen if section.faces else 0
            caplen = np.where(simple, np.minimum(wirelen, lengths - 16), caplen)
            if snaplen:
                caplen = np.where(simple, np.minimum(caplen, snaplen), caplen)
        high = numbers[np.where(simple, record, record + 12)].astype(np.uint64)
        low = numbers[np.where(simple, record, record + 16)].astype(np.uint64)
        ticks = (high << np.uint64(32)) | low
        time = np.zeros(len(record), np.int64)
        for number in distinct(face).tolist():
            if number < section.count:
                mine = face == number
                time[mine] = nanoseconds(ticks[mine], section.faces[number])
        if simple.any():  # no time of its own: that of the packet before it
            index = np.where(simple, 0, np.arange(1, len(record) + 1))
            index = np.maximum.accumulate(index)
            time = np.where(index > 0, time[index - 1], self.time)
        if len(time):
            self.time = int(time[-1])
        offset = record + np.where(simple, 12, 28)
        wirelen = np.maximum(wirelen, caplen)
        return Columns(time, record, offset, caplen, wirelen, face + section.base)

    def _other(self, section: _Section, kind: int, pos: int, length: int) -> None:
        view, order = self.source.view, section.order
        stop = pos + length - 4
        if kind == INTERFACE and length >= 20:
            linktype, _, snaplen = struct.unpack_from(f"{order}HHI", view, pos + 8)
            face = Interface(self.source.number, linktype, snaplen)
            for code, value in self._options(pos + 16, stop, order):
                _describe(face, code, value, order)
            section.faces.append(face)
            section.count += 1
            self.notes.interfaces.append(face)
            self._comments(-1, pos + 16, stop, order)
        elif kind == INTERFACE:
            section.faces.append(Interface(self.source.number, 0xFFFF))
            section.count += 1
            self.notes.interfaces.append(section.faces[-1])
        elif kind == SECRETS and length >= 20:
            what, size = struct.unpack_from(f"{order}II", view, pos + 8)
            self.notes.secrets.append((what, bytes(view[pos + 16 : min(pos + 16 + size, stop)])))
        elif kind == NAMES:
            self._resolve(pos + 8, stop, order)
        elif kind == STATISTICS and length >= 24:
            number = struct.unpack_from(f"{order}I", view, pos + 8)[0] + section.base
            for code, value in self._options(pos + 20, stop, order):
                if code == 5 and len(value) == 8:  # isb_ifdrop
                    dropped = struct.unpack(f"{order}Q", value)[0]
                    self.notes.dropped[number] = dropped

    def _resolve(self, pos: int, stop: int, order: str) -> None:
        for code, value in self._options(pos, stop, order):
            width = {1: 4, 2: 16}.get(code)
            if width and len(value) > width:
                address = str(ipaddress.ip_address(value[:width]))
                names = [n.decode("utf-8", "replace") for n in value[width:].split(b"\0") if n]
                self.notes.names.setdefault(address, []).extend(names)

    def _options(self, pos: int, stop: int, order: str) -> Iterator[tuple[int, bytes]]:
        view = self.source.view
        while pos + 4 <= stop:
            code, length = struct.unpack_from(f"{order}HH", view, pos)
            if code == 0 or pos + 4 + length > stop:
                return
            yield code, bytes(view[pos + 4 : pos + 4 + length])
            pos += 4 + -(-length // 4) * 4

    def _comments(self, record: int, pos: int, stop: int, order: str) -> None:
        for code, value in self._options(pos, stop, order):
            if code == COMMENT:
                text = value.decode("utf-8", "surrogateescape").rstrip("\0")
                self.notes.comments.append((record, text))


def _describe(face: Interface, code: int, value: bytes, order: str) -> None:
    """Apply one option of an Interface Description Block."""
    if code == 2:
        face.name = value.decode("utf-8", "surrogateescape").rstrip("\0")
    elif code == 9 and len(value) == 1:
        face.binary = bool(value[0] & 0x80)
        face.exponent = value[0] & 0x7F
        # log10(2) = 0.30103: as many decimals as the unit distinguishes
        decimals = -(-face.exponent * 30103 // 100000) if face.binary else face.exponent
        face.digits = min(9, decimals)
        face.finer = decimals > 9
    elif code == 14 and len(value) == 8:
        face.shift = struct.unpack(f"{order}q", value)[0]
