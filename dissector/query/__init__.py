"""The filter language of the filter bar and of ``--filter``.

    message == Insert and relation == "public.users"
    xid == 771 or lsn >= 0/1A2B3C          stream == 3 and direction == F
    time > 12:00:03                        severity >= warning
    xid in {771, 780..799}                 not (finding == cut-short)
    column.name == "email" and value contains "example"
    insert.relation_oid == 16391           gid matches "^batch-[0-9]+$"

A name is a column of the index, a message, or any field of the catalogue, alone (``commit_lsn``) or
after the names that lead to it (``Relation.columns.name``). A name alone asks whether it is there.
Names, ``and`` / ``&&``, ``or`` / ``||``, ``not`` / ``!`` and message names take either case.

- A comparison with something that is not there is false; so ``not (xid == 5)`` takes messages that
  have no xid and ``xid != 5`` does not. Where a name has several values any may fit; ``!=`` wants
  all of them to differ.
- Times are UTC and exact; a time of day is meant on every day of the capture. Ranges ``a..b`` hold
  both ends.
- Conditions on ``column.name``, ``column.type``, ``value``, ``state`` that ``and`` joins speak of one
  column of the row. A parenthesis that names a column of its own speaks of its own column.
- ``contains`` and ``matches`` (``~``; ``~*`` without case) look into text and take case as it is.
  A pattern has 0.05 s for a value; `Filter.gave_up` counts the values that took longer.

`compile` gives a `Filter`: its `mask` decides by columns, vectorised; its `search` opens what columns
cannot decide, in steps; `matching` gives the numbers alone. `complete` serves a filter bar.
`QueryError` points at the place.
"""

from __future__ import annotations

from .complete import Completion, complete
from .errors import QueryError
from .filter import Filter, Found, compile, matching
from .protocols import IndexLike, MessageLike
from .tuples import TupleColumn

__all__ = [
    "Completion",
    "Filter",
    "Found",
    "IndexLike",
    "MessageLike",
    "QueryError",
    "TupleColumn",
    "compile",
    "complete",
    "matching",
]
