"""The one table of what a user can do: its keys, its name, its help, and where it works.

Bindings, the footer and the help screen are made from it; nothing else names a key.
"""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True, slots=True)
class Action:
    """One thing a user can do.

    name: the method action_NAME of the widget or screen (with arguments, as Textual writes them).
    keys: Textual's key names, comma separated. where: the part of the screen that has it.
    label: one or two words for the footer, where it stands when `footer` is true. help: a sentence
        for the help screen.
    """

    name: str
    keys: str
    where: str
    label: str
    help: str
    footer: bool = False  # sparingly: with `? Help  q Quit` it must fit into 80 columns


PLACES: dict[str, str] = {
    "everywhere": "Everywhere",
    "main": "Viewer",
    "list": "Message list",
    "tree": "Field tree",
    "hex": "Bytes",
    "details": "Details of the field",
    "filter": "Filter bar",
    "find": "Find bar",
    "stream": "Stream as bytes",
    "screen": "Screens beside the viewer",
    "table": "Tables of those screens",
    "health": "Health",
    "reference": "Reference",
    "names": "Messages of the reference (a capital letter goes to its names)",
    "page": "Definition",
    "workbench": "Workbench",
    "bench_hex": "Bytes of the workbench (hex digits change them)",
    "tour": "Tour",
    "choices": "Lines to choose from",
    "asking": "Questions",
    "dialog": "Help and dialogs",
}
"""where -> heading of the help screen, in its order."""

_VIEWER = ("main", "list", "tree", "hex", "details", "filter", "find")

HELP: dict[str, tuple[str, ...]] = {
    "MainScreen": _VIEWER,
    "TourScreen": ("tour", *_VIEWER),
    "TableScreen": ("screen", "table", "details"),
    "StreamScreen": ("stream",),
    "ReferenceScreen": ("reference", "names", "page"),
    "HealthScreen": ("health",),
    "WorkbenchScreen": ("workbench", "bench_hex", "tree", "details"),
}
"""Class of a screen -> the parts that its help tells about, beside what works everywhere."""


def _moves(where: str, what: str) -> tuple[Action, ...]:
    """The ways to move that list, tree and bytes have in common."""
    return (
        Action("move(-1)", "up,k", where, "Up", f"To the {what} above"),
        Action("move(1)", "down,j", where, "Down", f"To the {what} below"),
        Action("page(-1)", "pageup,ctrl+b", where, "Page up", "One page up"),
        Action(
            "page(1)",
            "pagedown,ctrl+d,space" if where == "list" else "pagedown,ctrl+d",
            where,
            "Page down",
            "One page down",
        ),
        Action("first", "home,g", where, "First", f"To the first {what}"),
        Action("last", "end,G", where, "Last", f"To the last {what}"),
    )


# fmt: off
ACTIONS: tuple[Action, ...] = (
    Action("help", "question_mark,f1", "everywhere", "Help", "Show what the keys do", True),
    Action("quit", "q", "everywhere", "Quit", "Leave the program", True),
    Action("suspend_process", "ctrl+z", "everywhere", "Suspend", "To the shell, until fg"),
    Action("open_screen('sessions')", "f2", "everywhere", "Sessions", "All connections"),
    Action("open_screen('transactions')", "f3", "everywhere", "Transactions",
           "All transactions and how they ended"),
    Action("open_screen('relations')", "f4", "everywhere", "Relations",
           "All relations with their versions"),
    Action("open_screen('findings')", "f5", "everywhere", "Findings", "All that is wrong or odd"),
    Action("open_screen('health')", "f6", "everywhere", "Health",
           "Plots of traffic, lag and transactions over time"),
    Action("open_screen('reference')", "f7", "everywhere", "Reference",
           "The definition of every message in every release"),
    Action("open_screen('workbench')", "f8", "everywhere", "Workbench",
           "Dissect bytes that you paste or type"),
    Action("define", "d", "main", "Definition", "The definition of the field in the reference"),
    Action("copy", "y", "main", "Copy", "Copy the field or the message to the clipboard"),
    Action("export", "x", "main", "Export", "Write messages to a file"),
    Action("filter", "slash", "main", "Filter", "Show only messages that pass a filter", True),
    Action("show_all", "u", "main", "All", "All messages again, without a filter"),
    Action("find", "ctrl+f", "main", "Find", "Find text, a pattern or bytes in this pane", True),
    Action("find_next(1)", "N", "main", "Next found", "To the next place that has it"),
    Action("find_next(-1)", "P", "main", "Found before", "To the place before that has it"),
    Action("jump", "colon,ctrl+g", "main", "Go to",
           "Go to a message, frame, time, LSN or transaction", True),
    Action("follow", "f", "main", "Follow",
           "Follow its stream, transaction, relation or row", True),
    Action("way_back", "backspace", "main", "Back",
           "Back to where you were before the last leap"),
    Action("mark", "m", "main", "Mark", "Mark the message, or take its mark away"),
    Action("note", "M", "main", "Note", "Write a note on the message"),
    Action("next_mark(1)", "apostrophe", "main", "Next mark", "To the next marked message"),
    Action("next_mark(-1)", "semicolon", "main", "Mark before", "To the marked message before"),
    Action("show_marked", "quotation_mark", "main", "Marked", "Show only marked messages"),
    Action("halt", "escape", "main", "Stop", "Stop a search, or pause reading the capture"),
    Action("go_on", "ctrl+r", "main", "Go on", "Go on reading after a pause"),
    Action("next_pane", "tab", "main", "Next pane", "To the next pane", True),
    Action("previous_pane", "shift+tab", "main", "Previous pane", "To the pane before"),
    Action("step(1)", "n,right_square_bracket", "main", "Next", "Next message, from any pane",
           True),
    Action("step(-1)", "p,left_square_bracket", "main", "Previous",
           "Previous message, from any pane"),
    Action("zoom", "z", "main", "Zoom", "Give the pane the whole screen, or give it back"),
    Action("resize(1)", "plus,equals_sign", "main", "More list", "More lines for the list"),
    Action("resize(-1)", "minus", "main", "Less list", "Fewer lines for the list"),
    Action("widen(8)", "less_than_sign", "main", "More bytes", "More room for the bytes"),
    Action("widen(-8)", "greater_than_sign", "main", "More fields", "More room for the fields"),
    Action("time_mode", "t", "main", "Time",
           "Time since start, since the one before, or of day"),
    *_moves("list", "message"),
    Action("side(-1)", "left,h", "list", "Left", "Scroll to the left"),
    Action("side(1)", "right,l", "list", "Right", "Scroll to the right"),
    Action("enter", "enter", "list", "Fields", "To the fields of the message"),
    Action("sort(1)", "s", "list", "Sort", "Sort by the next column, as a click on it does"),
    Action("sort(0)", "S", "list", "Turn order", "Sort the other way round"),
    *_moves("tree", "field"),
    Action("close", "left,h", "tree", "Close", "Close the field, or go to what it belongs to"),
    Action("open", "right,l", "tree", "Open", "Open the field, or go to its first part"),
    Action("open_close", "enter,space", "tree", "Open/close", "Open or close the field"),
    Action("open_all", "asterisk,e", "tree", "Open all", "Open every field of the message"),
    Action("absent", "a", "tree", "Absent", "Show or hide the fields that are not there"),
    Action("close_all", "underscore,c", "tree", "Close all", "Close all but the layers"),
    *_moves("hex", "row of bytes"),
    Action("byte(-1)", "left,h", "hex", "Left", "To the byte before"),
    Action("byte(1)", "right,l", "hex", "Right", "To the byte after"),
    Action("field(1)", "w", "hex", "Next field", "To the first byte of the next field"),
    Action("field(-1)", "b", "hex", "Field before", "To the first byte of the field before"),
    *_moves("details", "line"),
    Action("complete", "tab", "filter", "Complete", "Take the chosen completion"),
    Action("choose(1)", "down,ctrl+n", "filter", "Next", "The next completion, or older filter"),
    Action("choose(-1)", "up,ctrl+p", "filter", "Previous", "The completion before"),
    Action("leave", "escape", "filter", "Leave", "Put the completions away, then the bar"),
    Action("next(1)", "down,ctrl+n", "find", "Next", "To the next place (Enter does too)"),
    Action("next(-1)", "up,ctrl+p", "find", "Previous", "To the place before"),
    Action("mode", "ctrl+t", "find", "Way", "Text, pattern or bytes in hex"),
    Action("leave", "escape", "find", "Leave", "Stop looking, or put the bar away"),
    Action("leave", "escape,q", "stream", "Back", "Back to the messages", True),
    *_moves("stream", "row of bytes"),
    Action("enter", "enter", "stream", "Message", "To the message of these bytes", True),
    Action("message(1)", "n,right_square_bracket", "stream", "Next", "To the next message", True),
    Action("message(-1)", "p,left_square_bracket", "stream", "Before", "To the message before"),
    Action("leave", "escape,q", "screen", "Back", "Back to the messages", True),
    Action("reload", "r", "screen", "Read again", "Make it anew from what the capture holds now"),
    Action("next_pane", "tab,shift+tab", "screen", "Next pane", "To the other pane"),
    *_moves("table", "line"),
    Action("enter", "enter", "table", "Messages", "To the messages of the line", True),
    Action("sort", "s", "table", "Sort", "Sort by the next column, or the other way round", True),
    Action("leave", "escape,q", "reference", "Back", "Back to where you were", True),
    Action("next_pane", "tab,shift+tab", "reference", "Next pane", "To the other pane"),
    Action("release(-1)", "left_square_bracket", "reference", "Older", "One release back", True),
    Action("release(1)", "right_square_bracket", "reference", "Newer", "One release on", True),
    Action("compare", "c", "reference", "Compare", "Beside another release, or alone again", True),
    Action("other(-1)", "comma", "reference", "Other older", "Compare with one release before"),
    Action("other(1)", "full_stop", "reference", "Other newer", "Compare with one release after"),
    Action("users", "enter,m", "reference", "Messages",
           "The messages of the capture that use the definition", True),
    Action("stop(1)", "full_stop", "tour", "Next stop", "To the next stop of the tour"),
    Action("stop(-1)", "comma", "tour", "Stop before", "To the stop before"),
    Action("leave", "escape,q", "health", "Back", "Back to the messages", True),
    Action("reload", "r", "health", "Read again", "Plot anew what the capture holds now", True),
    Action("next_plot(1)", "tab,right,down,space,j,l", "health", "Next plot",
           "The next plot, where only one is seen", True),
    Action("next_plot(-1)", "shift+tab,left,up,h,k", "health", "Plot before", "The plot before"),
    Action("leave", "escape,q", "workbench", "Back", "Back to where you were", True),
    Action("next_pane(1)", "tab", "workbench", "Next pane", "To the next pane", True),
    Action("next_pane(-1)", "shift+tab", "workbench", "Previous pane", "To the pane before"),
    Action("layer", "L,ctrl+l", "workbench", "Layer",
           "pgoutput, replication, backend or frontend", True),
    Action("release(-1)", "R", "workbench", "Older", "One release back"),
    Action("release(1)", "V", "workbench", "Newer", "One release on"),
    Action("version", "P", "workbench", "Protocol", "The next protocol version of pgoutput", True),
    Action("stream", "I", "workbench", "In stream",
           "Between Stream Start and Stream Stop, or not", True),
    Action("parallel", "A", "workbench", "Parallel", "Streaming parallel, or not", True),
    Action("message(-1)", "left_square_bracket", "workbench", "Before", "The message before"),
    Action("message(1)", "right_square_bracket", "workbench", "Next", "The next message"),
    Action("build", "B,ctrl+b", "workbench", "Build", "Build a message from field values", True),
    Action("copy", "y", "workbench", "Copy", "Copy the field or the message to the clipboard", True),
    Action("define", "D", "workbench", "Definition", "The definition of the field"),
    Action("move(-1)", "up", "bench_hex", "Up", "To the row above"),
    Action("move(1)", "down", "bench_hex", "Down", "To the row below"),
    Action("page(-1)", "pageup", "bench_hex", "Page up", "One page up"),
    Action("page(1)", "pagedown", "bench_hex", "Page down", "One page down"),
    Action("first", "home", "bench_hex", "First", "To the first byte"),
    Action("last", "end", "bench_hex", "Last", "To the last byte"),
    Action("byte(-1)", "left", "bench_hex", "Left", "To the byte before"),
    Action("byte(1)", "right", "bench_hex", "Right", "To the byte after"),
    Action("insert", "insert,i", "bench_hex", "Insert", "A zero byte before this one"),
    Action("delete", "delete,x", "bench_hex", "Delete", "Take this byte away"),
    Action("append", "plus,o", "bench_hex", "Append", "A zero byte at the end"),
    *_moves("choices", "line"),
    Action("enter", "enter", "choices", "Choose", "Choose it"),
    Action("give_up", "escape", "asking", "Leave", "Leave without choosing"),
    *_moves("names", "message"),
    *_moves("page", "line"),
    Action("dismiss", "escape,q,question_mark,f1,enter", "dialog", "Close", "Close it", True),
)
# fmt: on


def bindings(where: str) -> list[BindingType]:
    """The Textual bindings of one part of the screen."""
    return [
        Binding(action.keys, action.name, action.label, show=action.footer, priority=False)
        for action in ACTIONS
        if action.where == where
    ]


_KEY_NAMES = {
    "question_mark": "?",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "less_than_sign": "<",
    "full_stop": ".",
    "comma": ",",
    "slash": "/",
    "colon": ":",
    "semicolon": ";",
    "apostrophe": "'",
    "quotation_mark": '"',
    "greater_than_sign": ">",
    "asterisk": "*",
    "underscore": "_",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "escape": "Esc",
}


def key_names(keys: str) -> str:
    """Textual's key names as they stand on a keyboard: ``?  F1``."""
    return "  ".join(_key_name(key) for key in keys.split(","))


def _key_name(key: str) -> str:
    if key in _KEY_NAMES:
        return _KEY_NAMES[key]
    if key.startswith("ctrl+"):
        return f"Ctrl+{key[5:].upper()}"
    if key.startswith("shift+"):
        return f"Shift+{key[6:].capitalize()}"
    return key if len(key) == 1 else key.capitalize()
