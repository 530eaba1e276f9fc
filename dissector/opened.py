"""What an opened message offers to those who show it, be it of a capture or of the workbench."""

from __future__ import annotations

from typing import Protocol

from .display import Context
from .findings import Finding
from .node import Node
from .schemas import Schema


class Opened(Protocol):
    """tree: annotated; schema: in force (kind "" for none); found: all findings; innermost: the message
    node of the innermost layer."""

    @property
    def tree(self) -> Node: ...

    @property
    def schema(self) -> Schema: ...

    @property
    def found(self) -> list[Finding]: ...

    @property
    def innermost(self) -> Node: ...

    def context(self, show_secrets: bool = False, limit: int = 0) -> Context:
        """What `dissector.display` needs to know to show its nodes."""
        ...
