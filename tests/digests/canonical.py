"""Digests of released files by what they say: what differs from run to run is hidden, here and nowhere else."""

from __future__ import annotations

import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LENGTH = 12

# What no seed repeats, or what differs from machine to machine. Everything else is part of a digest.
HIDDEN = (
    # The number of a run, digests of ledger entries, and digests of files: one change would show in all of them.
    # Schema digests are hidden with them; cases of their own record those and ledger entries.
    (re.compile(r"\b[0-9a-f]{64}\b"), "<64 digits>"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "<32 digits>"),
    (re.compile(r"<code>[0-9a-f]{16}</code>"), "<code>16 digits</code>"),
    (re.compile(r'"versions": \{[^{}]*\}'), '"versions": {}'),
    (re.compile(r'"arithmetic": "[0-9a-f]{16}"'), '"arithmetic": ""'),
    # How long a run will take is partly measured.
    (re.compile(r'"cpu_seconds": [0-9.]+'), '"cpu_seconds": 0'),
)
SCRIPT = re.compile(r"<script(?P<kind>[^>]*)>(?P<text>.*?)</script>", re.DOTALL)
STYLE = re.compile(r"<style>(?P<text>.*?)</style>", re.DOTALL)


def digest_folder(folder: Path) -> dict[str, dict[str, str]]:
    """Return the digests of every file below a folder, by file and then by part; the part "" is the whole file."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digest_file(path) for path in files}


def digest_file(path: Path) -> dict[str, str]:
    """Return the digests of a file, by part."""
    if path.suffix == ".parquet":
        return _parts(_arrow_parts(pq.read_table(path)))
    if path.suffix == ".npz":
        return _parts(_array_parts(path))
    text = _hide(path.read_bytes().decode())
    read = {".json": _json_parts, ".html": _html_parts, ".md": _markdown_parts}.get(path.suffix)
    return _parts([("", text.encode()), *(read(text) if read else ())])


def _hide(text: str) -> str:
    for pattern, instead in HIDDEN:
        text = pattern.sub(instead, text)
    return text


def _parts(parts: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, raw in parts:
        unique, number = name, 2
        while unique in found:
            unique, number = f"{name} ({number})", number + 1
        found[unique] = hashlib.sha256(raw).hexdigest()[:LENGTH]
    return found


def _json_parts(text: str) -> Iterator[tuple[str, bytes]]:
    told = json.loads(text)
    if isinstance(told, dict):
        for key, value in told.items():
            yield key, _dump(value)


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True).encode()


def _markdown_parts(text: str) -> Iterator[tuple[str, bytes]]:
    title, lines = "head", []
    for line in text.splitlines():
        if line.startswith("#"):
            yield title, "\n".join(lines).encode()
            title, lines = line, []
        lines.append(line)
    yield title, "\n".join(lines).encode()


def _html_parts(text: str) -> Iterator[tuple[str, bytes]]:
    """Yield the data of a page by key, its style, and its body. Scripts of installed packages are not ours."""
    for script in SCRIPT.finditer(text):
        if "application/json" in script["kind"]:
            (name,) = re.findall(r'id="([^"]+)"', script["kind"])
            for key, raw in _json_parts(script["text"]):
                yield f"{name}.{key}", raw
    for style in STYLE.finditer(text):
        yield "style", style["text"].encode()
    yield "body", STYLE.sub("", SCRIPT.sub("", text)).encode()


def _arrow_parts(table: pa.Table) -> Iterator[tuple[str, bytes]]:
    """Yield the columns of a table: names, types and values, whatever wrote the file."""
    columns = [
        (name, f"{table.schema.field(name).type}\n{table[name].to_pylist()!r}".encode())
        for name in table.column_names
    ]
    yield "", _dump([[name, hashlib.sha256(raw).hexdigest()] for name, raw in columns])
    yield from columns


def _array_parts(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the arrays of a file, with their types and shapes."""
    with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as held:
        arrays = [
            (name, f"{held[name].dtype.str} {held[name].shape} ".encode() + held[name].tobytes())
            for name in sorted(held.files)
        ]
    yield "", _dump([[name, hashlib.sha256(raw).hexdigest()] for name, raw in arrays])
    yield from arrays
