#!/usr/bin/env python3
"""Record captures of real PostgreSQL servers, with the truth that they are checked against.

Usage:
    python captures/record.py --list
    python captures/record.py NAME... [--out DIR] [--servers DIR]

Needs root (tcpdump, setpriv) and, for the servers, npm. Nothing else: standard library only.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recorder import conversation, tour
from recorder.recipes import RECIPES, record
from recorder.servers import RecorderError, default_cache
from recorder.sniff import check_rights
from recorder.talks import SCENARIOS
from recorder.truth import MismatchError


def main() -> int:
    """Parse the arguments, record what they name; 0 when all was recorded and agreed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="captures to record")
    parser.add_argument("--list", action="store_true", help="list the captures and leave")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, metavar="DIR")
    parser.add_argument("--servers", type=Path, default=default_cache(), metavar="DIR",
                        help="where servers are kept (default: %(default)s)")  # fmt: skip
    arguments = parser.parse_args()
    known = {name: (recipe.major, recipe.about) for name, recipe in RECIPES.items()}
    known["tour"] = (tour.MAJOR, tour.ABOUT)
    known |= {name: (talk.major, talk.about) for name, talk in SCENARIOS.items()}
    if arguments.list:
        for name, (major, about) in known.items():
            print(f"{name:20} PostgreSQL {major:5} {about}")
        return 0
    unknown = [name for name in arguments.names if name not in known]
    if unknown or not arguments.names:
        what = f"no capture called {', '.join(unknown)}" if unknown else "name a capture"
        print(f"{what}; --list shows all", file=sys.stderr)
        return 2
    try:
        check_rights()
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name in arguments.names:
            if name == "tour":
                tour.record(name, arguments.out, arguments.servers)
            elif name in SCENARIOS:
                conversation.record(name, SCENARIOS[name], arguments.out, arguments.servers)
            else:
                record(name, arguments.out, arguments.servers)
    except (RecorderError, MismatchError) as error:
        print(f"record.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
