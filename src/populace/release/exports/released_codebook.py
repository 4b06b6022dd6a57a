"""The codebook of a release folder, with the tables that it describes, ready to be written in a format of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from populace.core.errors import ReleaseError
from populace.core.untrusted_files import refuse_parse_errors
from populace.schema.bounded_parsing import parse_json, read_text_file

_TABLES = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedCodebook:
    """What a release folder says about its columns, and its tables with their digests."""

    dataset: str
    rows: int
    columns: tuple[Mapping[str, Any], ...]
    reading: str
    files: Mapping[str, str]

    @classmethod
    def load(cls, folder: Path) -> ReleasedCodebook:
        """Read the codebook, statement and manifest of a release folder."""
        read = {}
        for name in ("codebook.json", "statement.json", "manifest.json"):
            text = read_text_file(folder / name, what="release", refuse=ReleaseError)
            with refuse_parse_errors(f"{name} in {folder}"):
                read[name] = parse_json(text)
        with refuse_parse_errors(f"codebook.json in {folder}"):
            codebook = read["codebook.json"]
            files = read["manifest.json"]["files"]
            return cls(
                dataset=str(codebook["dataset"]),
                rows=int(codebook["rows"]),
                columns=tuple(codebook["columns"]),
                reading=str(read["statement.json"]["reading"]),
                files={
                    n: str(d)
                    for n, d in files.items()
                    if Path(n).suffix in _TABLES and n.startswith("synthetic")
                },
            )


def media_type(name: str) -> str:
    """Return the media type of a table by its name.

    >>> media_type("synthetic.csv")
    'text/csv'
    """
    return _TABLES[Path(name).suffix]


def describe_release(codebook: ReleasedCodebook) -> str:
    """Return in two sentences what the rows are."""
    return f"Synthetic data with differential privacy, {codebook.rows} rows. {codebook.reading}"


def list_codes(column: Mapping[str, Any]) -> dict[str, str]:
    """Return the values, missing codes and other special codes of a column, each with its label or itself."""
    special = [*column.get("missing", ()), column.get("not_in_universe", "")]
    codes = (
        [*map(str, column.get("values", ())), *special]
        if isinstance(column.get("values", []), list)
        else special
    )
    labels = column.get("labels", {})
    return {code: labels.get(code, code) for code in dict.fromkeys((*codes, *labels)) if code}
