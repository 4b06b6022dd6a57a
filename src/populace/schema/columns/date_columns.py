"""Columns of dates, of dates with times, and of times of the day.

Inside, they are whole numbers: days since 1970, seconds since 1970, and seconds since midnight.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from fractions import Fraction
from itertools import takewhile
from typing import ClassVar

from populace.core.errors import SchemaError
from populace.schema.columns.bins import check_range
from populace.schema.columns.datetime_format import (
    DAY_SECONDS,
    FIRST_DAY,
    ISO_DATE,
    ISO_TIME,
    LAST_DAY,
    DatetimeFormat,
    parse_seconds,
)
from populace.schema.columns.heaping_classes import DayClasses, HeapingClasses
from populace.schema.columns.range_columns import StepColumn
from populace.schema.hints import suggest

# Units of one length, in seconds, and units of the calendar, in months; each list from the longest.
UNIT_SECONDS = {"week": 7 * DAY_SECONDS, "day": DAY_SECONDS, "hour": 3600, "minute": 60, "second": 1}
UNIT_MONTHS = {"year": 12, "quarter": 3, "month": 1}

_WIDTH = re.compile(r"(?:([0-9]{1,9}) )?([a-z]+?)s?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalColumn(StepColumn):
    """A column of dates or times from min to max, in bins; a step is a day or a second."""

    kind: ClassVar[str]
    unit: ClassVar[int]
    """The seconds in one step."""
    iso: ClassVar[str]
    """The format of its texts where none is declared."""
    regex: ClassVar[str]
    limits: ClassVar[tuple[int, int]] = (FIRST_DAY, LAST_DAY)
    """The first and the last step that any such column may have."""

    format: str | None = None
    regexes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The regular expressions of its texts: the declared format's, and ISO's."""

    @property
    def resolution(self) -> int | None:
        """The steps that its texts tell apart, or None where they do not tell the day."""
        seconds_apart = self.unit if self.format is None else DatetimeFormat(self.format).resolution
        return None if seconds_apart is None else max(1, seconds_apart // self.unit)

    def value(self, text: str) -> Fraction | None:
        """Return the days or seconds that a text stands for, in the declared format or in ISO's, or None."""
        for regex in self.regexes:
            found = parse_seconds(regex, text)
            if found is not None:
                return Fraction(found // self.unit)
        return None

    def iso_text(self, value: int) -> str:
        """Return days or seconds in ISO's format."""
        return DatetimeFormat(self.iso).text(value * self.unit)

    @classmethod
    def parse_iso(cls, text: str) -> int | None:
        """Return the days or seconds of an ISO text, or None."""
        found = parse_seconds(cls.regex, text)
        return None if found is None else found // cls.unit

    def _step_text(self, value: int) -> str:
        return self.iso_text(value)

    def _check_domain(self) -> None:
        low, high = self.limits
        if not low <= self.min <= self.max <= high:
            check_range(self.name, self.min, self.max)
            raise self.error("leaves the calendar.", hint="use years 1 … 9999")
        self._place_starts(self._declared_starts())
        object.__setattr__(self, "regexes", (self.regex,))
        if self.format is not None:
            form = DatetimeFormat(self.format)
            object.__setattr__(self, "regexes", (form.regex, self.regex))
            self._check_format(form)
        if self.density is not None and self.resolution is None:
            raise self.error(
                f"has inside, and its format {self.format!r} does not include the day.",
                hint="leave inside out, or give a format with %d",
            )
        self._check_density(binned=self.binned)

    def _check_format(self, form: DatetimeFormat) -> None:
        self._check_directives(form)
        for probe in ("2001-02-03", "2001-02-03 04:05:06", "2001-02-03T04:05:06", "04:05:06", "04:05"):
            found, iso = form.seconds(probe), parse_seconds(self.regex, probe)
            if found is not None and iso is not None and found // self.unit != iso // self.unit:
                raise self.error(
                    f": its format {self.format!r} reads {probe!r} in another way than ISO.",
                    hint="files with types hold ISO dates; swap day and month in the file",
                )
        if not self._tells_bins_apart(form):
            raise self.error(
                f": texts in the format {self.format!r} do not distinguish its bins.",
                hint="give a format with more digits, or let min and wider bins begin where such a text does",
            )

    def _check_directives(self, form: DatetimeFormat) -> None:
        known = {*form.directives}
        if not known:
            raise self.error(
                f": its format {self.format!r} has no % codes.",
                hint="write it with % codes, such as %d.%m.%Y",
            )
        dated, clocked = bool(known & {*"YymbBd"}), bool(known & {*"HIMS"})
        if (self.unit == DAY_SECONDS and clocked) or (isinstance(self, TimeColumn) and dated):
            raise self.error(
                f"is a {self.kind}, and its format {self.format!r} says more.",
                hint='leave it out of the format, or declare kind = "datetime"',
            )
        order = [*([] if isinstance(self, TimeColumn) else ["Yy", "mbB", "d"]), "HI", "M", "S"]
        given = [bool(known & {*names}) for names in order]
        if not given[0] or sorted(given, reverse=True) != given:
            raise self.error(
                f": its format {self.format!r} leaves a gap.",
                hint="write year, month, day, hour, minute, second in full as far as the format goes",
            )

    def _tells_bins_apart(self, form: DatetimeFormat) -> bool:
        """Say whether every bin begins at a moment that the format writes exactly."""
        ends = [self.min, self.max]
        written = [form.seconds(form.text(end * self.unit)) for end in ends]
        if any(w is None or w // self.unit > e for w, e in zip(written, ends, strict=True)):
            return False
        years = [self.iso_text(end)[:4] for end in ends]
        if "y" in form.directives and not "1969" <= years[0] <= years[1] <= "2068":
            return False
        if form.resolution is not None and isinstance(self.starts, range):
            # One bin has no width to be written: it ends where the range does.
            parts = (self.min, self.starts.step)[: len(self.starts)]
            return all(part * self.unit % form.resolution == 0 for part in parts)
        return all(form.seconds(form.text(start * self.unit)) == start * self.unit for start in self.starts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateColumn(TemporalColumn):
    """A column of days.

    >>> born = DateColumn(name="BORN", min=0, max=364, starts=compute_temporal_starts(DateColumn, "born",
    ... first=0, last=364, width="month"))
    >>> born.levels, born.level("1970-02-28"), born.iso_text(born.bounds(1)[1])
    (12, 1, '1970-02-28')
    """

    kind: ClassVar[str] = "date"
    unit: ClassVar[int] = DAY_SECONDS
    iso: ClassVar[str] = "%Y-%m-%d"
    regex: ClassVar[str] = ISO_DATE

    def heaping_classes(self, steps: tuple[int, ...]) -> HeapingClasses:  # noqa: ARG002
        """Return the classes of days, which have no steps."""
        return DayClasses(self.min, self.max + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DateTimeColumn(TemporalColumn):
    """A column of moments, to the second, as a clock on the wall shows them."""

    kind: ClassVar[str] = "datetime"
    unit: ClassVar[int] = 1
    iso: ClassVar[str] = "%Y-%m-%d %H:%M:%S"
    regex: ClassVar[str] = ISO_DATE
    limits: ClassVar[tuple[int, int]] = (FIRST_DAY * DAY_SECONDS, (LAST_DAY + 1) * DAY_SECONDS - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeColumn(TemporalColumn):
    """A column of times of the day, to the second."""

    kind: ClassVar[str] = "time"
    unit: ClassVar[int] = 1
    iso: ClassVar[str] = "%H:%M:%S"
    regex: ClassVar[str] = ISO_TIME
    limits: ClassVar[tuple[int, int]] = (0, DAY_SECONDS - 1)


def compute_temporal_starts(
    kind: type[TemporalColumn], name: str, *, first: int, last: int, width: str
) -> Sequence[int]:
    """Return the starts of bins of one width, such as "day", "7 days" or "month", from first to last.

    Months, quarters and years begin where the calendar has them; all other bins are counted from `first`.
    """
    check_range(name, first, last)
    match = _WIDTH.fullmatch(width)
    units = [unit for unit in (*UNIT_MONTHS, *UNIT_SECONDS) if _fits(kind, unit)]
    if match is None or match[2] not in units or match[1] == "0":
        raise SchemaError(
            f"column {name!r} has width {width!r}.",
            hint=suggest(width, units, otherwise="give one of " + ", ".join(units) + ', or "7 days"'),
        )
    times = int(match[1] or 1)
    if match[2] in UNIT_SECONDS:
        return range(first, last + 1, times * UNIT_SECONDS[match[2]] // kind.unit)
    return compute_calendar_starts(kind, first=first, last=last, months=UNIT_MONTHS[match[2]], times=times)


def compute_calendar_starts(
    kind: type[TemporalColumn], *, first: int, last: int, months: int, times: int
) -> list[int]:
    """Return the starts of bins of so many calendar units; the first bin begins at `first`, cut short."""
    begin = date(1970, 1, 1) + timedelta(days=first * kind.unit // DAY_SECONDS)
    place = (begin.year * 12 + begin.month - 1) // months * months
    # The calendar ends with the year 9999.
    later = range(place + months * times, 10_000 * 12, months * times)
    days = ((date(month // 12, month % 12 + 1, 1) - date(1970, 1, 1)).days for month in later)
    return [first, *takewhile(lambda start: start <= last, (day * DAY_SECONDS // kind.unit for day in days))]


def find_temporal_width(column: TemporalColumn) -> str | None:
    """Return the width that gives the bins of a column, or None where they have none.

    >>> find_temporal_width(DateColumn(name="x", min=0, max=100, starts=range(0, 101, 14)))
    '2 weeks'
    """
    kind = type(column)
    if isinstance(column.starts, range):
        length = column.starts.step * kind.unit
        unit = next(unit for unit in UNIT_SECONDS if length % UNIT_SECONDS[unit] == 0 and _fits(kind, unit))
        return _count_units(length // UNIT_SECONDS[unit], unit)
    for unit, months in UNIT_MONTHS.items():
        if not _fits(kind, unit):
            continue
        begin, second = (
            date(1970, 1, 1) + timedelta(days=start * kind.unit // DAY_SECONDS) for start in column.starts[:2]
        )
        place = (begin.year * 12 + begin.month - 1) // months * months
        times, rest = divmod(second.year * 12 + second.month - 1 - place, months)
        if rest == 0 and times > 0:
            again = compute_calendar_starts(
                kind, first=column.min, last=column.max, months=months, times=times
            )
            if again == list(column.starts):
                return _count_units(times, unit)
    return None


def _count_units(times: int, unit: str) -> str:
    return unit if times == 1 else f"{times} {unit}s"


def _fits(kind: type[TemporalColumn], unit: str) -> bool:
    if unit in UNIT_MONTHS:
        return kind is not TimeColumn
    return UNIT_SECONDS[unit] >= kind.unit and (kind is not TimeColumn or UNIT_SECONDS[unit] < DAY_SECONDS)
