"""What may import what, tried in fresh processes through sys.modules."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from dissector.findings import CODES

ROOT = Path(__file__).parent.parent
ORDER = (
    "spec", "catalogue", "node", "annotate", "decode", "reference", "capture", "session", "index",
    "query", "export", "cli",
)  # fmt: skip
"""Modules from the lowest to the highest: one may import those before it, never those after it."""


def loaded_after(code: str) -> set[str]:
    """Names of all modules in a fresh interpreter after `code`."""
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return set(done.stdout.split())


def tops(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


@pytest.mark.parametrize(
    "module",
    ["dissector", "dissector.spec", "dissector.catalogue", "dissector.annotate", "dissector.decode",
     "dissector.reference", "dissector.capture", "dissector.session", "dissector.view",
     "dissector.export", "dissector.report", "dissector.cli"],
)  # fmt: skip
def test_the_library_loads_without_scapy_and_textual(module: str) -> None:
    loaded = tops(loaded_after(f"import {module}"))
    assert not loaded & {"scapy", "textual", "tui"}


def test_layers_load_scapy_and_no_textual() -> None:
    loaded = tops(loaded_after("from dissector.layers import *"))
    assert "scapy" in loaded
    assert "textual" not in loaded


def test_help_of_list_loads_neither_scapy_nor_textual_nor_numpy() -> None:
    code = (
        "from dissector.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['list', '--help'])"
    )
    loaded = tops(loaded_after(code))
    assert not loaded & {"scapy", "textual"}


def test_listing_a_capture_of_plain_frames_never_loads_scapy_or_textual() -> None:
    code = (
        "from dissector.cli import main\n"
        "import contextlib, io\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
        "    main(['list', 'captures/pg18-proto1.pcap'])"
    )
    loaded = loaded_after(code)
    assert not tops(loaded) & {"scapy", "textual"}
    assert "numpy.ma" not in loaded  # a tenth of the time until the first line


def imports_of(path: Path) -> set[str]:
    """Modules of this project that a file imports anywhere in it, as dotted names."""
    package = ".".join(path.relative_to(ROOT).with_suffix("").parts[:-1])
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parts, base]) if base else ".".join(parts)
            found.add(base)
            found |= {f"{base}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def sources(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def test_only_the_layers_and_the_slow_lanes_import_scapy() -> None:
    allowed = {"dissector/layers", "dissector/capture/slow.py", "dissector/tls"}
    for path in sources("dissector") + sources("tui"):
        if any(name.partition(".")[0] == "scapy" for name in imports_of(path)):
            where = path.relative_to(ROOT).as_posix()
            assert any(where.startswith(a) for a in allowed), where


def test_only_the_interface_imports_textual_and_nobody_below_imports_the_interface() -> None:
    for path in sources("dissector"):
        names = {name.partition(".")[0] for name in imports_of(path)}
        assert not names & {"textual", "rich"}, path
        if path.name != "cli.py":
            assert "tui" not in names, path


def test_lower_modules_do_not_import_higher_ones() -> None:
    for path in sources("dissector"):
        name = path.relative_to(ROOT / "dissector").parts[0].removesuffix(".py")
        if name not in ORDER:
            continue
        higher = {f"dissector.{each}" for each in ORDER[ORDER.index(name) + 1 :]}
        used = {i for i in imports_of(path) for h in higher if i == h or i.startswith(h + ".")}
        assert not used, f"{path}: {used}"


def test_the_interface_parses_no_bytes() -> None:
    for path in sources("tui"):
        text = path.read_text()
        assert "struct" not in imports_of(path), path
        assert "from_bytes" not in text, path


def test_every_finding_of_the_closed_list_can_be_made_and_none_beside_it() -> None:
    """A code that nobody makes would be a promise of the list, and of the filter's names."""
    words: set[object] = set()
    made: set[object] = set()
    for path in sources("dissector"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and path.name != "findings.py":
                words.add(node.value)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "finding":
                made |= {a.value for a in node.args[:1] if isinstance(a, ast.Constant)}
    assert set(CODES) <= words
    assert made <= set(CODES)
    assert "file-cut" in made  # the search finds something
