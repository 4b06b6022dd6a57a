"""Code that nothing uses: `python -m tests.architecture.dead_code` lists it, and fails if there is any.

Vulture reads the package, the benchmarks and the scripts of the documentation. What tests alone use is not used.
Templates, examples and names in texts, by which modules are loaded late, count as uses; so does every value of an
enumeration, which is found by its value, and every key of a typed dictionary, which is written to a file.
"""

from __future__ import annotations

import ast
import keyword
import re
import sys
from collections.abc import Iterator
from doctest import DocTestParser
from pathlib import Path

from vulture import Vulture

from .house_rules import ROOT, SOURCE, nodes, source

WHITELIST = Path(__file__).with_name("whitelist.txt")
MIN_CONFIDENCE = 60


def dead_code(*, planted: str = "") -> list[str]:
    """Return what nothing uses, as `file:line: what`."""
    # Names between double underscores are called by Python itself.
    vulture = Vulture(ignore_names=["__*__"])
    names = {*_template_names(), *_late_names(), *_value_names()}
    vulture.scan("\n".join(f"x.{name}" for name in names if not keyword.iskeyword(name)))
    vulture.scan(_examples())
    vulture.scan(WHITELIST.read_text("utf-8"))
    vulture.scavenge([str(ROOT / place) for place in ("src", "bench", "docs", "setup.py")])
    vulture.scan(planted, filename=SOURCE / "planted.py")
    return [
        f"{found.filename.relative_to(ROOT)}:{found.first_lineno}: {found.message}"
        for found in vulture.get_unused_code(min_confidence=MIN_CONFIDENCE)
        if SOURCE in found.filename.parents
    ]


def _template_names() -> Iterator[str]:
    for path in SOURCE.rglob("templates/*.html"):
        for part in re.findall(r"\{[{%](.*?)[}%]\}", path.read_text("utf-8"), re.DOTALL):
            yield from re.findall(r"[A-Za-z_]\w*", part)


def _late_names() -> Iterator[str]:
    """Yield the words of texts in modules that load others by their names."""
    for text in source().values():
        if "import_module" in text:
            for node in nodes(text):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield from re.findall(r"[A-Za-z_]\w*", node.value) if len(node.value) < 80 else ()


def _value_names() -> Iterator[str]:
    for text in source().values():
        for node in nodes(text):
            bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
            if {"Enum", "StrEnum", "IntEnum", "TypedDict"} & set(bases):
                for item in ast.walk(node):
                    if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store):
                        yield item.id


def _examples() -> str:
    """Return what the documentation says in code: its examples, and functions that it calls by name."""
    parser = DocTestParser()
    pages = [page.read_text("utf-8") for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))]
    examples = [example.source for page in pages for example in parser.get_examples(page)]
    named = [name for page in pages for name in re.findall(r"`(?:\w+\.)*([a-z]\w*)(?:\(.*?\))?`", page)]
    return "\n".join([*examples, *(f"x.{name}" for name in named if not keyword.iskeyword(name))])


if __name__ == "__main__":
    listed = dead_code()
    print("\n".join(listed))
    sys.exit(bool(listed))
