"""Write CHANGELOG.md from the fragments in changes/: `python changes/compile.py`, or `make changelog`.

`--check` writes nothing and fails if the page is not what the fragments say.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

SECTIONS = ("Privacy", "Added", "Changed", "Fixed", "Removed")
CHANGES = Path(__file__).resolve().parent
CHANGELOG = CHANGES.parent / "CHANGELOG.md"
WIDTH = 120
HEAD = """\
# Changelog

Compiled from the fragments in [changes/](changes/README.md) by `make changelog`: edit those, not this page.
The section **Privacy** comes first: every change to noise, prices, neighbours or what is read, even a harmless one.

## Unreleased
"""


def read_fragment(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the section and the text of every entry of a fragment, each on one line."""
    section, entry = "", ""
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], start=1):
        if line.startswith("  ") and entry:
            entry += f" {line.strip()}"
            continue
        if entry:
            yield section, entry
            entry = ""
        if line.startswith("**"):
            section = line.strip("* ")
        elif line.startswith("- ") and section:
            entry = line[2:].strip()
        elif line:
            raise SystemExit(f"{path.name}:{number} is neither a section nor an entry: {line}")
        if section and section not in SECTIONS:
            raise SystemExit(f"{path.name}:{number} names no section: {', '.join(SECTIONS)}")


def compile_changelog() -> str:
    """Return the page: entries by section, in the order of the fragments' names."""
    entries: dict[str, list[str]] = {section: [] for section in SECTIONS}
    for path in sorted(CHANGES.glob("*.md")):
        if path.name != "README.md":
            for section, entry in read_fragment(path):
                entries[section].append(entry)
    page = HEAD
    # Links of fragments start in changes/, those of the page beside it.
    for section, found in entries.items():
        if found:
            page += f"\n### {section}\n\n"
            page += "".join(f"{wrap(entry.replace('](../', ']('))}\n" for entry in found)
    return page


def wrap(entry: str) -> str:
    """Return an entry as an item of a list."""
    return textwrap.fill(
        entry,
        WIDTH,
        initial_indent="- ",
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def main() -> None:
    """Write the page, or compare it."""
    page = compile_changelog()
    if "--check" in sys.argv[1:]:
        if not CHANGELOG.is_file() or CHANGELOG.read_text(encoding="utf-8") != page:
            raise SystemExit("CHANGELOG.md is not what changes/ says.\nhint: make changelog")
    else:
        CHANGELOG.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
