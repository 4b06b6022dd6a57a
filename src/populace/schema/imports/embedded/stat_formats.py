"""The files of SPSS, Stata and SAS: how each is known by its first bytes, read, and what its dates count from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from populace.core.errors import UsageError
from populace.schema.codec.cell_texts import Array, Floats
from populace.schema.columns.datetime_format import DAY_SECONDS, FIRST_DAY, LAST_DAY

# As much of a file's start as its signature needs: that of SPSS's portable files is the longest.
SIGNATURE_BYTES = 80

# Stata's older files: the release, the order of bytes, a one and a nought.
_OLD_STATA = re.compile(rb"[\x66-\x77][\x01\x02]\x01\x00")
_SAS_MAGIC = bytes(12) + b"\xc2\xea\x81\x60"


class StatFormat(StrEnum):
    """A file format of a statistical package."""

    SAV = "sav"
    POR = "por"
    DTA = "dta"
    XPT = "xpt"
    SAS = "sas7bdat"

    @property
    def words(self) -> str:
        """What people call such a file."""
        return _FORMATS[self].words

    @property
    def package(self) -> str:
        """The package that the format belongs to; it decides what dates count from."""
        return _FORMATS[self].package

    @property
    def tags_missing(self) -> bool:
        """Whether cells may be missing in several ways that are no values, such as .a to .z, and are read apart."""
        return self in (StatFormat.DTA, StatFormat.SAS)

    @property
    def keeps_missing_codes(self) -> bool:
        """Whether the reader can give missing codes as they are; otherwise they are empty cells."""
        return self in (StatFormat.SAV, StatFormat.DTA, StatFormat.SAS)

    def read(self, path: Path, options: Mapping[str, Any]) -> tuple[dict[str, list[Any]], Any]:
        """Return cells by column, as plain numbers and texts, and the metadata of a file."""
        reader: Callable[..., Any] = getattr(load_pyreadstat(), _FORMATS[self].reader)
        codes = {"user_missing": True} if self.keeps_missing_codes else {}
        plain = {"output_format": "dict", "disable_datetime_conversion": True}
        found: tuple[dict[str, list[Any]], Any] = reader(str(path), **plain, **codes, **options)
        return found


@dataclass(frozen=True, slots=True)
class _Described:
    words: str
    package: str
    reader: str


_FORMATS = {
    StatFormat.SAV: _Described("an SPSS file", "spss", "read_sav"),
    StatFormat.POR: _Described("an SPSS portable file", "spss", "read_por"),
    StatFormat.DTA: _Described("a Stata file", "stata", "read_dta"),
    StatFormat.XPT: _Described("a SAS transport file", "sas", "read_xport"),
    StatFormat.SAS: _Described("a SAS file", "sas", "read_sas7bdat"),
}


def detect_stat_format(start: bytes) -> StatFormat | None:
    """Return the format that a file has by its first bytes, or None. Nothing beyond its first line is looked at.

    >>> detect_stat_format(b"$FL2@(#) SPSS DATA FILE"), detect_stat_format(b"age,sex")
    (<StatFormat.SAV: 'sav'>, None)
    """
    if start.startswith((b"$FL2", b"$FL3")):
        return StatFormat.SAV
    if start.startswith(b"<stata_dta>") or _OLD_STATA.match(start):
        return StatFormat.DTA
    if start.startswith(b"HEADER RECORD*"):
        return StatFormat.XPT
    if start.startswith(_SAS_MAGIC):
        return StatFormat.SAS
    # It says so in several alphabets, the second of which is ASCII.
    first = re.split(rb"[\r\n]", start[:SIGNATURE_BYTES])[0]
    return StatFormat.POR if b"SPSS PORT FILE" in first else None


def load_pyreadstat() -> ModuleType:
    """Return the library that reads and writes these files, or say how to get it."""
    try:
        import pyreadstat
    except ImportError:
        raise UsageError(
            "files of SPSS, Stata and SAS need pyreadstat, which is not installed.",
            hint="pip install 'populace[stat]', or export the table to CSV or Parquet",
        ) from None
    found: ModuleType = pyreadstat
    return found


class Moment(StrEnum):
    """What numbers with a format of dates or times are."""

    DATE = "date"
    DATETIME = "datetime"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class MomentUnit:
    """How numbers of a column become moments: `seconds` each, or `months`, from `start` seconds after 1970 began."""

    kind: Moment
    start: int = 0
    seconds: float = 1.0
    months: int = 0

    def to_arrow(self, numbers: Floats) -> Array:
        """Return dates or times; a number that no calendar or clock has is an empty cell."""
        with np.errstate(all="ignore"):
            seconds = self._count_months(numbers) if self.months else numbers * self.seconds + self.start
            low, high = FIRST_DAY * DAY_SECONDS, (LAST_DAY + 1) * DAY_SECONDS
            if self.kind is Moment.TIME:
                low, high = 0, DAY_SECONDS
            known = np.isfinite(seconds) & (seconds >= low) & (seconds < high)
        plain = np.where(known, seconds, 0)
        if self.kind is Moment.DATE:
            days = np.floor(plain / DAY_SECONDS).astype(np.int32)
            return pa.array(days, mask=~known).cast(pa.date32())
        milliseconds = np.floor(plain * 1000 + 0.5).astype(np.int64)
        if self.kind is Moment.DATETIME:
            return pa.array(milliseconds, mask=~known).cast(pa.timestamp("ms"))
        return pa.array(np.minimum(milliseconds, DAY_SECONDS * 1000 - 1).astype(np.int32), mask=~known).cast(
            pa.time32("ms")
        )

    def _count_months(self, numbers: Floats) -> Floats:
        whole = np.floor(np.where(np.abs(numbers) < 2**20, numbers, np.nan)) * self.months
        known = np.isfinite(whole)
        # Months of the calendar since 1960 began.
        months = np.where(known, whole, 0).astype(np.int64) - 120
        days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)
        found: Floats = np.where(known, days * float(DAY_SECONDS), np.nan)
        return found


_SPSS_START = -12_219_379_200
_START_1960 = -315_619_200
_SPSS_DATES = ("DATE", "ADATE", "EDATE", "SDATE", "JDATE", "MOYR", "QYR", "WKYR")
_SPSS_MOMENTS = ("DATETIME", "YMDHMS")
_SPSS_TIMES = ("TIME",)
_SAS_DATES = (
    *("DATE", "DAY", "DDMMYY", "MMDDYY", "YYMMDD", "MMYY", "YYMM", "YYMON", "MONYY", "YYQ", "QTR", "YEAR"),
    *("JULIAN", "WEEKDATE", "WEEKDATX", "WORDDATE", "WORDDATX", "E8601DA", "B8601DA", "NLDATE", "DOWNAME"),
)
_SAS_MOMENTS = ("DATETIME", "E8601DT", "B8601DT", "DATEAMPM", "MDYAMPM", "NLDATM", "DTDATE", "DTMONYY")
_SAS_TIMES = ("TIME", "TOD", "HHMM", "E8601TM", "B8601TM", "TIMEAMPM", "NLTIME")
_STATA_UNITS = {
    "d": MomentUnit(Moment.DATE, _START_1960, DAY_SECONDS),
    "c": MomentUnit(Moment.DATETIME, _START_1960, 1e-3),
    "C": MomentUnit(Moment.DATETIME, _START_1960, 1e-3),
    "m": MomentUnit(Moment.DATE, months=1),
    "q": MomentUnit(Moment.DATE, months=3),
    "h": MomentUnit(Moment.DATE, months=6),
}
# The mark by which a file of ours says that milliseconds are a time of the day.
STATA_TIME = "%tcHH:MM:SS"


def find_moment_unit(declared: str | None, *, package: str) -> MomentUnit | None:
    """Return what the numbers of a column are by its declared format; None where they are plain numbers.

    >>> find_moment_unit("DATE11", package="spss").kind, find_moment_unit("F8.2", package="spss")
    (<Moment.DATE: 'date'>, None)
    """
    if not declared:
        return None
    if package == "stata":
        if declared == STATA_TIME:
            return MomentUnit(Moment.TIME, 0, 1e-3)
        found = re.match(r"%-?(?:t([cCdmqh])|(d))", declared)
        return None if found is None else _STATA_UNITS[found[1] or found[2]]
    word = re.match(r"(?:[A-Z]8601)?[A-Z]*", declared.upper())
    name = word[0] if word else ""
    if package == "spss":
        known = ((_SPSS_DATES, Moment.DATE), (_SPSS_MOMENTS, Moment.DATETIME), (_SPSS_TIMES, Moment.TIME))
        kind = next((kind for names, kind in known if name in names), None)
        start = 0 if kind is Moment.TIME else _SPSS_START
        return None if kind is None else MomentUnit(kind, start)
    # A letter behind some names says how the parts of a date are parted: MMDDYYS, YYMMDDN.
    short = name if name in (*_SAS_DATES, *_SAS_MOMENTS, *_SAS_TIMES) else name[:-1]
    if short in _SAS_MOMENTS:
        return MomentUnit(Moment.DATETIME, _START_1960)
    if short in _SAS_TIMES:
        return MomentUnit(Moment.TIME)
    return MomentUnit(Moment.DATE, _START_1960, DAY_SECONDS) if short in _SAS_DATES else None
