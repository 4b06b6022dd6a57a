"""Write digests anew: `python -m tests.digests.record [NAME …]`; without names, those of every case.

With `--compare` nothing is written: it says which files and parts differ.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from .canonical import digest_folder
from .cases import CASES
from .internals import arithmetic, is_compiled, repeatable_run_ids

PLACE = Path(__file__).with_name("digests.json")
PACKAGES = ("numpy", "scipy", "pyarrow")

Digests = Mapping[str, Mapping[str, str]]


def run_case(name: str) -> Digests:
    """Run a case and return the digests of its files."""
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(), repeatable_run_ids():
        warnings.simplefilter("ignore")
        out = Path(place) / "out"
        CASES[name].run(out)
        return digest_folder(out)


def machine() -> dict[str, str]:
    """Return what the last digits of numbers depend on beside the code."""
    loops = "compiled" if is_compiled() else "in NumPy"
    return {"arithmetic": arithmetic(), "loops": loops, **{name: version(name) for name in PACKAGES}}


def recorded() -> dict[str, Digests]:
    """Return the digests that are recorded, by case."""
    found: dict[str, Digests] = json.loads(PLACE.read_text(encoding="utf-8"))["cases"]
    return found


def recorded_on() -> dict[str, str]:
    """Return the machine on which they were recorded."""
    found: dict[str, str] = json.loads(PLACE.read_text(encoding="utf-8"))["machine"]
    return found


def differences(found: Digests, known: Digests) -> list[str]:
    """Return the files and the parts of them that differ, in a readable form."""
    told = []
    for file in sorted({*found, *known}):
        if file not in found or file not in known:
            told.append(f"{file}: {'new' if file in found else 'gone'}")
            continue
        new, old = found[file], known[file]
        parts = [part for part in {**old, **new} if part and new.get(part) != old.get(part)]
        marked = [
            part if part in new and part in old else f"{part} ({'new' if part in new else 'gone'})"
            for part in parts
        ]
        if marked:
            told.append(f"{file}: {', '.join(marked)}")
        elif new != old:
            told.append(f"{file}: its layout" if len(new) > 1 else file)
    return told


def _dump(cases: Mapping[str, Digests]) -> str:
    """Return digests as JSON with a line for each file."""
    blocks = []
    for name, files in cases.items():
        lines = [
            f"  {json.dumps(file)}: {json.dumps(parts, ensure_ascii=False)}" for file, parts in files.items()
        ]
        blocks.append(f" {json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n }")
    return f'{{\n"machine": {json.dumps(machine())},\n"cases": {{\n' + ",\n".join(blocks) + "\n}}\n"


def main(words: list[str]) -> int:
    """Write the digests of some cases, or compare them."""
    compare = "--compare" in words
    names = [word for word in words if word != "--compare"] or list(CASES)
    if unknown := [name for name in names if name not in CASES]:
        print("no such case:", ", ".join(unknown), file=sys.stderr)
        return 2
    held = recorded() if PLACE.exists() else {}
    found = {name: run_case(name) for name in names}
    for name in names:
        for line in differences(found[name], held.get(name, {})):
            print(f"{name}: {line}")
    if not compare:
        kept = {name: found.get(name, held.get(name)) for name in CASES if name in found or name in held}
        PLACE.write_text(_dump(kept), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
