"""What the command line's verbs have in common: the captures that they read, and what is assumed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

RELEASES = click.IntRange(10, 19)


def named(_context: click.Context, _option: click.Parameter, name: str | None) -> str | None:
    """Refuse an empty name, which is what a shell's unset variable gives: it would pass for none."""
    if name == "":
        raise click.BadParameter("the name is empty; name a file, or leave the option out")
    return name


def _once(_context: click.Context, _option: click.Parameter, names: tuple[str, ...]) -> Any:
    """Refuse to read standard input twice: the second capture would be empty."""
    if names.count("-") > 1:
        raise click.BadParameter("- is standard input, which can be read once; name it once")
    return names


def reads_captures(function: Callable[..., Any]) -> Callable[..., Any]:
    """The arguments and options of every verb that reads captures."""
    for decorate in reversed(
        (
            click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...",
                           callback=_once),
            click.option("--port", "ports", type=click.IntRange(1, 65535), multiple=True,
                         help="This is a PostgreSQL server's port (repeatable)."),
            click.option("--keylog", metavar="FILE", callback=named,
                         help="NSS key log that decrypts TLS."),
            click.option("--pg", type=RELEASES, help="Assume this server release (10 to 19)."),
            click.option("--proto-version", type=click.IntRange(1, 4),
                         help="Assume this pgoutput protocol version."),
            click.option("--streaming", type=click.Choice(["on", "off", "parallel"]),
                         help="Assume this streaming option."),
            click.option("--show-secrets", is_flag=True,
                         help="Show passwords, proofs, tokens and cancel keys."),
            click.option("--strict", is_flag=True,
                         help="Exit with 3 when something is wrong with severity error."),
        )
    ):  # fmt: skip
        function = decorate(function)
    return function


def options_of(given: dict[str, Any]) -> Any:
    """Take the options of `reads_captures` out of a command's arguments."""
    from .index import Options
    from .session import Assumptions

    return Options(
        Assumptions(
            release=given.pop("pg") or 0,
            proto_version=given.pop("proto_version") or 0,
            streaming=given.pop("streaming") or "",
            ports=tuple(given.pop("ports")),
        ),
        keylog=given.pop("keylog") or "",
        show_secrets=given.pop("show_secrets"),
    )
