"""The header of an SPSS, Stata or SAS file: what a curator wrote into it, without a look at its rows.

Names, types, variable labels, value labels and missing codes are words of a codebook. The number of rows, which some of
these headers hold too, is private: it is dropped here. Which missing codes occur in rows is never asked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from populace.core.errors import DataError, PopulaceError, ResourceError, environment_cause
from populace.schema.imports.embedded.stat_formats import (
    SIGNATURE_BYTES,
    Moment,
    MomentUnit,
    StatFormat,
    detect_stat_format,
    find_moment_unit,
)

# A declared range of missing codes with so few whole numbers is a list of codes.
_MAX_RANGE = 20
_MAX_WHOLE = 2**53
# Older files say in which encoding they are, or not; every byte is a character of this one.
_WESTERN = "LATIN1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMetadata:
    """What a file declares of one column. Codes are texts as cells of the column have them."""

    name: str
    label: str = ""
    is_text: bool = False
    is_whole: bool = False
    """Whether its declared type or format has whole numbers alone."""
    moment: MomentUnit | None = None
    value_labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    open_ranges: tuple[str, ...] = ()
    """Ranges of missing codes that hold more than can be listed, in words."""
    measure: str = ""
    """nominal, ordinal or scale, where the file says so."""

    @property
    def sort(self) -> str:
        """The sort of its type, as drafts of schemas know it."""
        if self.moment is not None:
            return "time"
        return "text" if self.is_text else "whole" if self.is_whole else "decimal"

    @property
    def type_words(self) -> str:
        """Its type in words that people use."""
        if self.moment is not None:
            return {Moment.DATE: "date", Moment.DATETIME: "date and time", Moment.TIME: "time"}[
                self.moment.kind
            ]
        return {"text": "text", "whole": "whole number", "decimal": "number"}[self.sort]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileMetadata:
    """What a file declares of itself."""

    format: StatFormat
    label: str = ""
    encoding: str | None = None
    """The encoding to read its texts in; None for the one that it declares itself."""
    columns: tuple[ColumnMetadata, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(column.name for column in self.columns)


def find_stat_format(path: Path) -> StatFormat | None:
    """Return the format of a file of SPSS, Stata or SAS, by its first bytes; None where it is none, or no file."""
    try:
        if not path.is_file():
            return None
        with path.open("rb") as handle:
            return detect_stat_format(handle.read(SIGNATURE_BYTES))
    except (OSError, ValueError):
        return None  # whoever opens it next says why


def read_file_metadata(path: Path) -> FileMetadata:
    """Return what an SPSS, Stata or SAS file declares of its columns; no row is read, and no number of rows kept."""
    form = find_stat_format(path)
    if form is None:
        raise DataError(
            f"{str(path)!r} is no file of SPSS, Stata or SAS.",
            hint="give a .sav, .por, .dta, .xpt or .sas7bdat",
        )
    encoding, found = _read_header(path, form)
    if not all(isinstance(name, str) for name in found.column_names):
        raise _damaged_error(path, form)
    return FileMetadata(
        format=form,
        label=_clean(found.file_label),
        encoding=encoding,
        columns=tuple(_describe(name, found, form=form) for name in found.column_names),
    )


def _read_header(path: Path, form: StatFormat) -> tuple[str | None, Any]:
    """Return the encoding to read with, and the header; what goes wrong says nothing of what the file holds."""
    if form is StatFormat.POR:
        # Its reader takes no encoding.
        tries: tuple[dict[str, str], ...] = ({},)
    else:
        tries = ({}, {"encoding": _WESTERN})
    for options in tries:
        try:
            return options.get("encoding"), form.read(path, {"metadataonly": True, **options})[1]
        except PopulaceError:
            raise
        except Exception as failure:
            if isinstance(environment_cause(failure), MemoryError):
                raise ResourceError(
                    f"opening {path} takes more memory than there is.", hint="free memory"
                ) from None
    raise _damaged_error(path, form)


def _damaged_error(path: Path, form: StatFormat) -> DataError:
    return DataError(
        f"{path} cannot be read as {form.words}.",
        hint="check that it is whole and undamaged, or export it again",
    )


def _describe(name: str, found: Any, *, form: StatFormat) -> ColumnMetadata:
    declared = found.original_variable_types.get(name)
    storage = str(found.readstat_variable_types.get(name, ""))
    moment = find_moment_unit(declared, package=form.package)
    labels = {
        code_text(code, form=form): _clean(label)
        for code, label in (found.variable_value_labels.get(name) or {}).items()
    }
    missing, ranges = _list_missing(found.missing_ranges.get(name) or (), labels=labels, form=form)
    # A code that is missing by its kind, such as .a, is declared where it has a label.
    tagged = [code for code in labels if is_tag(code) and storage != "string"]
    return ColumnMetadata(
        name=name,
        label=_clean(found.column_names_to_labels.get(name)),
        is_text=storage == "string",
        is_whole=storage.startswith("int") or bool(re.fullmatch(r"(F\d+(\.0)?|%-?\d*\.0f)", declared or "")),
        moment=None if storage == "string" else moment,
        value_labels={} if moment is not None else {c: t for c, t in labels.items() if c and t},
        # The numbers behind dates are no texts of dates.
        missing=tuple(tagged) if moment is not None else tuple(dict.fromkeys([*missing, *tagged])),
        open_ranges=() if moment is not None else tuple(ranges),
        measure=measure if (measure := str(found.variable_measure.get(name, ""))) in _MEASURES else "",
    )


_MEASURES = ("nominal", "ordinal", "scale")


def code_text(code: Any, *, form: StatFormat) -> str:
    """Return a code as the text that its cells have: 1.0 is 1, and the missing code a of Stata is .a.

    >>> [code_text(code, form=StatFormat.DTA) for code in (1.0, 2.5, "a")], code_text("a", form=StatFormat.SAV)
    (['1', '2.5', '.a'], 'a')
    """
    if isinstance(code, str):
        return f".{code}" if form.tags_missing and len(code) == 1 else code.strip()
    number = float(code)
    return str(int(number)) if number.is_integer() and abs(number) < _MAX_WHOLE else repr(number)


def is_tag(text: str) -> bool:
    """Say whether a text is a kind of missing cell: .a to .z of Stata, .A to .Z and ._ of SAS."""
    return re.fullmatch(r"\.[A-Za-z_]", text) is not None


def _list_missing(
    ranges: Iterable[Any], *, labels: Mapping[str, str], form: StatFormat
) -> tuple[list[str], list[str]]:
    """Return declared missing codes one by one, and in words the ranges that hold more than can be listed."""
    codes: list[str] = []
    words: list[str] = []
    for each in ranges:
        low, high = (each["lo"], each["hi"]) if isinstance(each, Mapping) else (each, each)
        if isinstance(low, str) or isinstance(high, str) or low == high:
            codes.append(code_text(low, form=form))
            continue
        first, last = float(low), float(high)
        if math.isfinite(first) and math.isfinite(last) and 0 <= last - first < _MAX_RANGE:
            codes += [str(number) for number in range(math.ceil(first), math.floor(last) + 1)]
            continue
        codes += [code for code in labels if _is_between(code, first, last)]
        words.append(f"{_end(first, 'the lowest number')} to {_end(last, 'the highest number')}")
    return [code for code in codes if code], words


def _is_between(code: str, first: float, last: float) -> bool:
    try:
        return first <= float(code) <= last
    except ValueError:
        return False


def _end(number: float, words: str) -> str:
    return (
        words if not math.isfinite(number) or abs(number) > 1e300 else code_text(number, form=StatFormat.SAV)
    )


def _clean(text: Any) -> str:
    """Return a label as one line of printable text."""
    return " ".join("".join(sign if sign.isprintable() else " " for sign in str(text or "")).split())
