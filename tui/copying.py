"""Copying what one stands on: a menu of forms, each handed to the terminal's clipboard (OSC 52)."""

from __future__ import annotations

from typing import Any

from dissector.clipboard import FORMS, copied
from dissector.node import Node, messages
from dissector.text import visible
from tui.asking import ChooseDialog

LARGE = 100_000
"""Characters from which on a terminal may refuse what it is handed."""

MOST = 4_000_000
"""Bytes that are copied at most: a terminal would be busy for minutes with more."""


def choices(view: Any, node: Node) -> list[tuple[str, str, Node]]:
    """(what is copied, form, node) in the order of the menu."""
    name = visible(node.name, 40)
    found = [] if node.is_message else [(f"Value of {name}", "value", node)]
    found += [
        (f"Hex of {name}, {node.length} bytes", "hex", node),
        (f"Python bytes of {name}", "python", node),
        (f"JSON of {name}", "json", node),
    ]
    tree = view.tree
    inner = messages(tree)[-1]
    whole = visible(tree.name, 40)
    if node is not tree:
        found += [
            (f"Hex of the message ({whole}, {tree.length} bytes)", "hex", tree),
            (f"Python bytes of the message ({whole})", "python", tree),
            (f"JSON of the message ({whole})", "json", tree),
        ]
    if inner is not tree and inner is not node:
        found.append((f"Hex of the {visible(inner.name, 40)} in it", "hex", inner))
    found += [
        (FORMS["scapy"].removeprefix("a ").capitalize(), "scapy", tree),
        (f"C array of the message ({whole})", "c", tree),
    ]
    return found


class CopyDialog(ChooseDialog):
    """The menu; the chosen form goes to the clipboard."""

    def __init__(self, view: Any, node: Node, show_secrets: bool) -> None:
        self._forms = choices(view, node)
        self._view = view
        self._show_secrets = show_secrets
        super().__init__("Copy", [text for text, _, _ in self._forms])

    def chosen(self, place: int) -> None:
        what, form, node = self._forms[place]
        if node.length > MOST:
            words = f"{node.length:,} bytes are too many for a clipboard; x writes them to a file"
            self.notify(words, severity="error", markup=False)
            self.dismiss(None)
            return
        try:
            text = copied(form, self._view, node, self._show_secrets)
        except Exception as problem:  # a form that fails must not end the program
            self.notify(visible(str(problem), 200), severity="error", markup=False)
            self.dismiss(None)
            return
        self.app.copy_to_clipboard(text)
        size = f"{len(text):,} characters"
        hint = "; a terminal may refuse so many" if len(text) > LARGE else ""
        self.notify(f"{what.partition(':')[0]}: {size} copied{hint}", markup=False, timeout=4)
        self.dismiss(None)


def copy_dialog(view: Any, node: Node, show_secrets: bool) -> CopyDialog:
    """The menu for `node` of an opened message."""
    return CopyDialog(view, node, show_secrets)
