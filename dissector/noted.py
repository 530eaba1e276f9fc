"""Messages that all carry the same finding because of what they are, not because of how they read: one of
a newer protocol version than the client asked for, above all."""

from __future__ import annotations

import numpy as np

from .node import messages
from .shapes import Array, Run, Shape, check_head, shape_of
from .spec import Message
from .view import MessageView

Checks = tuple[tuple[int, Shape], ...]
"""Where the layers of a message begin, and the checks by which nothing else is wrong with them."""

BY_KIND = ("stream-outside", "newer-than-proto", "newer-than-release")
"""Findings whose words hang on the kind of a message only: one that is unknown is named by its byte."""


def checks_of(view: MessageView) -> Checks | None:
    """What has to hold for another message of the same kind to carry the finding of this one and no
    other. None: this message is not one of those.
    """
    chain = messages(view.tree)
    finding = chain[-1].finding
    if finding is None or finding.code not in BY_KIND or view.found != [finding]:
        return None
    checks = tuple(
        (node.start, shape_of(node.declaration, view.dialect))
        for node in chain
        if isinstance(node.declaration, Message)
    )
    return checks if all(shape.plain for _, shape in checks) else None


def check(checks: Checks, data: bytes, begins: Array, ends: Array) -> Array:
    """For which of the messages `checks` hold (mask)."""
    run = Run(data, begins, ends)
    good = np.ones(len(begins), bool)
    for offset, shape in checks:
        at = begins + offset
        good &= check_head(run.heads(at, shape.size), shape, at, ends)
    return good
