"""Forged releases: one part of a folder is changed, digests are put right, and `verify` must find an answer.

A mutation knows what it changes: JSON values, the schema inside them, columns of Parquet files, arrays, cells of CSV
files, or what kind of thing a file is. All of it follows from the seed of a `random.Random`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import random
import re
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from populace.core.errors import PopulaceError
from populace.measurements.measurements import Measurements
from populace.release.manifest import MEASUREMENT_FILES, MODEL_FILES, dump_json
from populace.release.verify.checks import Verdict
from populace.release.verify.verify import verify
from populace.schema.schema import Schema

RELEASES = Path(__file__).parents[1] / "golden" / "releases"

HOSTILE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 255, 2**31, 2**32, 2**63, 2**64, 10**12, 10**30, -(10**30), 10**400, 0.5,
    -0.0, 1e-300, 1e308, -1e308, "", "a", "1", "0", "-1", "1/0", "0/1", "-1/2", "1e999999999", "9" * 5000,
    "9" * 4000 + "/7", "\x00", "ε" * 1000, "a\nb", "../manifest.json", "\u202e", [], {}, [[]], [None], [[[[[[1]]]]]],
    {"": ""}, [0] * 1000, "nan", "inf", "Infinity", "2001-01-01", [1, "1"], {"a": {"a": {"a": 1}}},
]  # fmt: skip
# What no value can be, written into the text of a JSON file in place of one.
RAW = [
    "NaN", "Infinity", "-Infinity", "1e999", "1e-999", "-", "01", '"\\ud800"', '"\\udfff\\ud800"', "[" * 50_000,
    '{"a":' * 50_000, "1" * 5000, "0." + "1" * 5000, '{"a": 1, "a": 2}', '"' + "x" * 100_000 + '"', "\x00", "'a'", "",
]  # fmt: skip


def exit_code(folder: Path) -> tuple[int, Verdict | None]:
    """Return what `populace verify` would leave with, and the verdict if there is one."""
    try:
        verdict = verify(folder)
    except PopulaceError as refusal:
        return refusal.exit_code, None
    if not verdict.passed:
        return 2, verdict
    return (0 if verdict.verified else 4), verdict


class Forger:
    """A folder that is altered again and again, each time from what it was."""

    def __init__(self, source: Path, place: Path, *, seed: int) -> None:
        self.folder = place
        shutil.copytree(source, place)
        self._files = {path.name: path.read_bytes() for path in place.iterdir()}
        self._rng = random.Random(seed)

    @contextlib.contextmanager
    def altered(self) -> Iterator[str]:
        """Alter the folder in one way, say how, and undo it afterwards."""
        ways = [
            self._json,
            self._json,
            self._json,
            self._raw,
            self._schema,
            self._parquet,
            self._npz,
            self._text,
        ]
        ways += [self._kind, self._bytes, self._several]
        try:
            told = self._rng.choice(ways)()
            if self._rng.random() < 0.9:
                self.reseal()
            yield told
        finally:
            self.restore()

    def restore(self) -> None:
        """Put everything back as it was."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.is_symlink() or not path.is_file() or path.name not in self._files:
                path.unlink()
        for name, data in self._files.items():
            path = self.folder / name
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)

    def reseal(self) -> None:
        """Make the digests of the manifest, and that of the model's measurements, fit."""
        if any(
            not (self.folder / name).is_file()
            for name in ("manifest.json", "model.json")
            if name in self._files
        ):
            return
        with contextlib.suppress(Exception):
            told = json.loads((self.folder / "model.json").read_text("utf-8"))
            digest = Measurements.load(self.folder).digest
            if told["measurements"] != digest and self._rng.random() < 0.8:
                told["measurements"] = digest
                (self.folder / "model.json").write_text(dump_json(told), encoding="utf-8")
        with contextlib.suppress(Exception):
            path = self.folder / "manifest.json"
            manifest = json.loads(path.read_text("utf-8"))
            for name in manifest["files"]:
                with contextlib.suppress(Exception):
                    if (self.folder / name).is_file():
                        found = hashlib.sha256((self.folder / name).read_bytes()).hexdigest()
                        manifest["files"][name] = found
            for key, names in (("model", MEASUREMENT_FILES), ("release", MODEL_FILES)):
                if key in manifest["parents"]:
                    manifest["parents"][key] = {name: manifest["files"][name] for name in names}
            path.write_text(dump_json(manifest), encoding="utf-8")

    def _pick(self, *ends: str) -> Path | None:
        names = sorted(name for name in self._files if name.endswith(ends))
        return self.folder / self._rng.choice(names) if names else None

    def _json(self) -> str:
        path = self._pick(".json")
        told = json.loads(path.read_text("utf-8"))
        what = mutate(told, self._rng)
        with contextlib.suppress(ValueError):
            path.write_text(dump_json(told), encoding="utf-8")
        return f"{path.name}: {what}"

    def _several(self) -> str:
        return "; ".join(self._json() for _ in range(self._rng.randint(2, 4)))

    def _raw(self) -> str:
        path = self._pick(".json")
        told = json.loads(path.read_text("utf-8"))
        places = list(walk(told))
        holder, key, _ = self._rng.choice(places)
        holder[key] = "@@@"
        raw = self._rng.choice(RAW)
        path.write_text(dump_json(told).replace('"@@@"', raw), encoding="utf-8")
        return f"{path.name}: {key!r} is {raw[:40]}"

    def _schema(self) -> str:
        """Alter the schema that codebook and measurements carry, and put right what hangs on its digest."""
        path = self.folder / "codebook.json"
        book = json.loads(path.read_text("utf-8"))
        lines = book["schema"].split("\n")
        number = self._rng.randrange(len(lines))
        how = self._rng.randrange(4)
        if how == 0:
            del lines[number]
        elif how == 1:
            value = self._rng.choice(
                ["1000000000000", "-1", "1e400", "0", '"x"', "[]", "nan", "1" * 400, "true"]
            )
            lines[number] = re.sub(r"=.*", f"= {value}", lines[number])
        elif how == 2:
            lines[number] = re.sub(r"\d+", str(self._rng.choice([0, 3, 10**9, 10**30])), lines[number])
        else:
            lines.insert(
                number, self._rng.choice(["[columns.new]", 'kind = "integer"', "a.b.c.d = 1", "[[zeros]]"])
            )
        text = "\n".join(lines)
        book["schema"] = text
        path.write_text(dump_json(book), encoding="utf-8")
        with contextlib.suppress(Exception):
            schema = Schema.parse(text, released=True)
            self._retell(schema, text)
        return f"schema: line {number}, way {how}"

    def _retell(self, schema: Schema, text: str) -> None:
        for name in (
            "codebook.json",
            "measurements.json",
            "statement.json",
            "estimates.json",
            "manifest.json",
        ):
            path = self.folder / name
            if name not in self._files:
                continue
            told = json.loads(path.read_text("utf-8"))
            if "schema" in told:
                told["schema"] = text
            if "schema_digest" in told:
                told["schema_digest"] = schema.digest if name != "statement.json" else schema.declared.digest
            if "record" in told:
                told["record"]["schema_digest"] = schema.declared.digest
            for digests in told.get("parents", {}).values():
                if "schema" in digests:
                    digests["schema"] = schema.declared.digest
            path.write_text(dump_json(told), encoding="utf-8")

    def _parquet(self) -> str:
        path = self._pick(".parquet")
        if path is None:
            return self._json()
        table = pq.read_table(path)
        table, what = alter_table(table, self._rng)
        with contextlib.suppress(pa.ArrowException):
            pq.write_table(table, path)
        return f"{path.name}: {what}"

    def _npz(self) -> str:
        path = self._pick(".npz")
        if path is None:
            return self._json()
        with np.load(path) as held:
            arrays = dict(held)
        written, what = alter_arrays(arrays, self._rng)
        path.write_bytes(written)
        return f"{path.name}: {what}"

    def _text(self) -> str:
        path = self._pick(".csv", ".md") or self.folder / "statement.md"
        text = path.read_text("utf-8")
        lines = text.split("\n")
        number = self._rng.randrange(len(lines))
        cells = lines[number].split(",")
        cells[self._rng.randrange(len(cells))] = self._rng.choice(
            [
                "",
                '""',
                '"',
                "nan",
                "inf",
                "1e999",
                "-1",
                "9" * 400,
                "x" * 3_000_000,
                "\x00",
                "a\nb",
                "1,2",
                "ε",
                "\r",
            ]
        )
        how = self._rng.randrange(5)
        if how <= 2:
            lines[number] = ",".join(cells)
        elif how == 3:
            del lines[number]
        else:
            lines.insert(number, lines[number])
        path.write_text("\n".join(lines), encoding="utf-8")
        return f"{path.name}: line {number}, way {how}"

    def _kind(self) -> str:
        path = self.folder / self._rng.choice(sorted(self._files))
        how = self._rng.choice(
            ["link", "dangling", "fifo", "folder", "gone", "empty", "more", "device", "loop"]
        )
        if how == "more":
            (self.folder / self._rng.choice(["x", "synthetic-2.csv", ".hidden", "a\nb"])).write_text("x")
            return how
        path.unlink()
        if how == "link":
            twin = self.folder.parent / f"twin-{path.name}"
            twin.write_bytes(self._files[path.name])
            path.symlink_to(twin)
        elif how == "dangling":
            path.symlink_to("/nowhere")
        elif how == "device":
            path.symlink_to("/dev/zero")
        elif how == "loop":
            path.symlink_to(path)
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "folder":
            path.mkdir()
        elif how == "empty":
            path.write_bytes(b"")
        return f"{path.name}: {how}"

    def _bytes(self) -> str:
        path = self.folder / self._rng.choice(sorted(self._files))
        data = bytearray(path.read_bytes())
        how = self._rng.randrange(4)
        if how == 0:
            for _ in range(self._rng.randint(1, 4)):
                data[self._rng.randrange(len(data))] ^= 1 << self._rng.randrange(8)
        elif how == 1:
            del data[self._rng.randrange(len(data)) :]
        elif how == 2:
            data = bytearray(b"\xef\xbb\xbf" + data)
        else:
            start = self._rng.randrange(len(data))
            data[start : start + 8] = self._rng.choice([b"\x00" * 8, b"\xff" * 8, b"\x00" * 7 + b"\x7f"])
        path.write_bytes(bytes(data))
        return f"{path.name}: bytes, way {how}"


def walk(value: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield every place inside a JSON value: what holds it, its key or number, and the value there."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in list(pairs):
        yield value, key, each
        yield from walk(each)


def mutate(told: Any, rng: random.Random) -> str:
    """Change one place of a JSON value, in place, and say how."""
    holder, key, value = rng.choice(list(walk(told)))
    how = rng.randrange(10)
    if how <= 3:
        holder[key] = rng.choice(HOSTILE)
    elif how == 4 and isinstance(holder, dict):
        del holder[key]
    elif how == 5 and isinstance(holder, dict):
        holder[rng.choice(["x", "", "format", "rows", "count", "id"])] = rng.choice(HOSTILE)
    elif how == 6 and isinstance(value, list) and value:
        holder[key] = rng.choice([value[:-1], value + value[-1:], value[::-1], value * 3, [value]])
    elif how == 7 and isinstance(value, int | float):
        holder[key] = rng.choice(
            [-value, value + 1, value * 10, float(value), str(value), [value], bool(value)]
        )
    elif how == 8 and isinstance(value, str):
        holder[key] = rng.choice([value + "0", value[:-1], value.upper(), "-" + value, [value], value * 100])
    else:
        other, place, _ = rng.choice(list(walk(told)))
        other[place], holder[key] = json.loads(json.dumps(value)), rng.choice(HOSTILE)
    return f"{key!r} ({str(value)[:30]!r}), way {how}"


def alter_table(table: pa.Table, rng: random.Random) -> tuple[pa.Table, str]:
    """Change the columns of a table."""
    number = rng.randrange(table.num_columns)
    name = table.column_names[number]
    how = rng.choice(
        ["type", "cell", "drop", "add", "rename", "order", "null", "none", "more", "twice", "long"]
    )
    kinds = [
        pa.string(),
        pa.float64(),
        pa.float32(),
        pa.int8(),
        pa.int16(),
        pa.uint64(),
        pa.large_string(),
        pa.bool_(),
    ]
    kinds += [
        pa.decimal128(30, 3),
        pa.binary(),
        pa.string_view(),
        pa.timestamp("ms"),
        pa.float16(),
        pa.date32(),
    ]
    kinds += [
        pa.dictionary(pa.int32(), pa.string()),
        pa.list_(pa.int64()),
        pa.struct([("a", pa.int64())]),
        pa.null(),
    ]
    if how == "type":
        kind = rng.choice(kinds)
        try:
            column = table[name].cast(kind, safe=False)
        except pa.ArrowException:
            column = pa.nulls(table.num_rows, kind)
        table = table.set_column(number, name, column)
        how = f"type {kind}"
    elif how == "cell" and table.num_rows:
        cells = table[name].to_pylist()
        place = rng.randrange(len(cells))
        value = cells[place]
        if isinstance(value, int | float):
            cells[place] = rng.choice([value + 1, -value - 1, 0, 2**62, value * 7])
        else:
            cells[place] = rng.choice(["", "x", "9" * 400, None])
        with contextlib.suppress(pa.ArrowException, OverflowError):
            table = table.set_column(number, name, pa.array(cells, table.schema.field(number).type))
    elif how == "drop":
        table = table.drop_columns([name])
    elif how == "add":
        table = table.append_column(rng.choice(["x", "", "a\x00"]), table[name])
    elif how == "rename":
        table = table.rename_columns([*table.column_names[:number], "x", *table.column_names[number + 1 :]])
    elif how == "order":
        table = table.select(table.column_names[::-1])
    elif how == "null":
        table = table.set_column(number, name, pa.nulls(table.num_rows, table.schema.field(number).type))
    elif how == "none":
        table = table.slice(0, 0)
    elif how == "more":
        table = pa.concat_tables([table] * rng.choice([2, 50]))
    elif how == "twice":
        table = table.append_column(name, table[name])
    else:
        table = table.set_column(number, name, pa.array(["x" * 100_000] * table.num_rows))
    return table, f"{name!r} {how}"


def alter_arrays(arrays: dict[str, Any], rng: random.Random) -> tuple[bytes, str]:
    """Return the bytes of a file of arrays, one of them changed."""
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    values: list[Any] = [np.nan, np.inf, -np.inf, 1e308, -1e308, 0.0, -1.0, 700.0, 1e-320]
    how = rng.choice(
        ["value", "type", "shape", "gone", "more", "huge", "fortran", "twice", "stored", "all", "near"]
    )
    stored = zipfile.ZIP_DEFLATED
    if how == "value" and array.size:
        array = array.copy()
        array.ravel()[rng.randrange(array.size)] = rng.choice(values)
    elif how == "near" and array.size:
        array = array.copy()
        array.ravel()[rng.randrange(array.size)] += rng.choice([0.5, -0.5, 3.0])
    elif how == "all":
        array = np.full_like(array, rng.choice(values))
    elif how == "type":
        kinds = [
            "complex128",
            "U5",
            "float32",
            "float16",
            "int64",
            "bool",
            "S3",
            "M8[s]",
            "longdouble",
            ">f8",
        ]
        with np.errstate(all="ignore"), contextlib.suppress(ValueError, TypeError):
            array = np.nan_to_num(array).astype(rng.choice(kinds))
    elif how == "shape":
        array = rng.choice(
            [array.ravel(), array[None], array.T, array.reshape(-1, 1), array.ravel()[:-1], array[:0]]
        )
    elif how == "fortran":
        array = np.asfortranarray(array)
    elif how == "stored":
        stored = zipfile.ZIP_STORED
    told = {**arrays, name: array}
    if how == "gone":
        del told[name]
    if how == "more":
        told[rng.choice(["x", "potential99", "../x", "within0"])] = array
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", stored) as file:
        for each, value in told.items():
            data = io.BytesIO()
            np.lib.format.write_array(data, value)
            raw = data.getvalue()
            if how == "huge" and each == name:
                size = rng.choice([10**12, 10**30, -1, 2**63])
                raw = re.sub(rb"'shape': \(.*?\)", f"'shape': ({size},)".encode(), raw)
            file.writestr(f"{each}.npy", raw)
        if how == "twice":
            with contextlib.suppress(UserWarning):
                file.writestr(f"{name}.npy", data.getvalue())
    return held.getvalue(), f"{name} {how}"


NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?(/\d+)?")


def numbers(told: Any) -> list[tuple[Any, Any, Any]]:
    """Return every place of a JSON value that holds a number, as such or as a text."""
    return [
        place
        for place in walk(told)
        if (isinstance(place[2], int | float) and not isinstance(place[2], bool))
        or (isinstance(place[2], str) and NUMBER.fullmatch(place[2]))
    ]


def moved(value: Any, rng: random.Random) -> Any:
    """Return another number than a given one, written as that is."""
    if isinstance(value, int):
        return rng.choice([value + 1, value - 1, value + 1000, -value - 1])
    if isinstance(value, float):
        return rng.choice([value * 1.01 + 0.001, -value - 1.0, value + 1.0, 0.0 if value else 1.0])
    whole, mark, below = value.partition("/")
    if not mark and not whole.lstrip("-").isdigit():
        return rng.choice([f"{float(whole) * 2 + 1:g}", f"{float(whole) / 2:g}"])
    return rng.choice(
        [f"{int(whole) + 1}{mark}{below}", f"{int(whole) * 2 + 1}{mark}{below}", f"-{value.lstrip('-')}"]
    )
