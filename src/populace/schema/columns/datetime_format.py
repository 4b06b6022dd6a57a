"""How dates and times are written: patterns of %-directives that read texts and write them, in any locale alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache

from populace.core.errors import SchemaError

MONTHS = (
    "january february march april may june july august september october november december".split()  # noqa: SIM905
)
SHORT_MONTHS = [name[:3] for name in MONTHS]
DAY_SECONDS = 86_400
EPOCH = datetime(1970, 1, 1)
# Years that have four digits, in seconds since 1970.
FIRST_DAY, LAST_DAY = (
    (datetime(year, month, day) - EPOCH).days for year, month, day in ((1, 1, 1), (9999, 12, 31))
)

_NUMBERS = {"Y": 4, "y": 2, "m": 2, "d": 2, "H": 2, "I": 2, "M": 2, "S": 2}
_WORDS = {
    "B": "(?P<B>(?i:" + "|".join(MONTHS) + "))",
    "b": "(?P<b>(?i:" + "|".join(SHORT_MONTHS) + "))",
    "p": "(?P<p>(?i:am|pm))",
}
_LONG = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_TOKEN = re.compile(r"%.|[^%]+|%$", re.DOTALL)
_CLOCK = r"(?P<H>[0-9]{2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]*)?)?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"

ISO_DATE = rf"(?P<Y>[0-9]{{4}})-(?P<m>[0-9]{{2}})-(?P<d>[0-9]{{2}})(?:[ T]{_CLOCK}{_ZONE})?"
ISO_TIME = _CLOCK


@dataclass(frozen=True, slots=True)
class DatetimeFormat:
    """A pattern such as `%d.%m.%Y`, as a regular expression whose groups are named after its directives.

    >>> day = DatetimeFormat("%d.%m.%Y")
    >>> day.seconds("31.01.2020") // DAY_SECONDS, day.text(18292 * DAY_SECONDS)
    (18292, '31.01.2020')
    """

    pattern: str
    parts: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """Its directives, such as %d, and the texts between them."""
    regex: str = field(init=False, repr=False, compare=False)
    directives: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = [
            token
            for written in _TOKEN.findall(self.pattern)
            for token in _TOKEN.findall(_LONG.get(written, written))
        ]
        used = [part[1:] for part in parts if part.startswith("%") and part != "%%"]
        for name in used:
            if name not in _NUMBERS and name not in _WORDS:
                raise SchemaError(
                    f"the format {self.pattern!r} has %{name}, which is not understood.",
                    hint="use " + " ".join([*(f"%{known}" for known in (*_NUMBERS, *_WORDS)), *_LONG]),
                )
        if len(used) != len(set(used)) or len({*used} & {*"mbB"}) > 1 or len({*used} & {*"Yy"}) > 1:
            raise SchemaError(
                f"the format {self.pattern!r} says one thing twice.", hint="use each directive once"
            )
        if ("I" in used) != ("p" in used) or {"I", "H"} <= {*used}:
            raise SchemaError(
                f"the format {self.pattern!r} does not tell which half of the day it means.",
                hint="write %H, or %I with %p",
            )
        object.__setattr__(self, "parts", tuple(parts))
        object.__setattr__(self, "directives", "".join(used))
        object.__setattr__(self, "regex", _regex(parts))

    @property
    def resolution(self) -> int | None:
        """The seconds that its texts tell apart, or None where they do not tell the day."""
        finest = (("S", 1), ("M", 60), ("HI", 3600), ("d", DAY_SECONDS))
        return next((seconds for names, seconds in finest if {*names} & {*self.directives}), None)

    def seconds(self, text: str) -> int | None:
        """Return the seconds since 1970 (or midnight) that a text names, or None."""
        return parse_seconds(self.regex, text)

    def text(self, seconds: int) -> str:
        """Return seconds since 1970 (or midnight) as a date or time."""
        when = EPOCH + timedelta(seconds=seconds)
        numbers = (when.year, when.month, when.day, when.hour, when.minute, when.second)
        written = []
        for part in self.parts:
            place, texts = directive_texts(part)
            written.append(texts[numbers[place]] if place >= 0 else texts[0])
        return "".join(written)


@cache
def directive_texts(part: str) -> tuple[int, tuple[str, ...]]:
    """Return which of year, month, day, hour, minute and second a directive writes, and the text of each number.

    Whatever is no directive writes itself, whatever the numbers: its place is −1.

    >>> directive_texts("%p")[1][11:13], directive_texts(".")
    (('AM', 'PM'), (-1, ('.',)))
    """
    two = tuple(f"{number:02}" for number in range(60))
    if part in ("%Y", "%y"):
        return 0, tuple(f"{year:04}"[-_NUMBERS[part[1:]] :] for year in range(10_000))
    if part in ("%B", "%b"):
        names = MONTHS if part == "%B" else SHORT_MONTHS
        return 1, ("", *(name.capitalize() for name in names))
    if part in ("%I", "%p"):
        hours = range(24)
        return 3, tuple(two[(h - 1) % 12 + 1] if part == "%I" else "AM" if h < 12 else "PM" for h in hours)
    places = {"%m": 1, "%d": 2, "%H": 3, "%M": 4, "%S": 5}
    return (places[part], two) if part in places else (-1, ("%" if part == "%%" else part,))


def parse_seconds(regex: str, text: str) -> int | None:
    """Return the seconds that a text names by a regular expression with groups Y, m, d, H, M, S and their like.

    >>> parse_seconds(ISO_DATE, "1970-01-02"), parse_seconds(ISO_DATE, "1970-01-32"), parse_seconds(ISO_TIME, "12:30")
    (86400, None, 45000)
    """
    match = re.fullmatch(regex, text.strip())
    if match is None:
        return None
    found: Mapping[str, str | None] = match.groupdict()

    def part(name: str, absent: int) -> int:
        return int(found.get(name) or absent)

    year, month, hour = part("Y", 1970), part("m", 1), part("H", 0)
    if found.get("y"):
        year = expand_year(part("y", 0))
    for name, names in (("B", MONTHS), ("b", SHORT_MONTHS)):
        if word := found.get(name):
            month = names.index(word.lower()) + 1 if word.lower() in names else 0
    if word := found.get("p"):
        hour = part("I", 0)
        hour = hour % 12 + 12 * (word.lower() == "pm") if 1 <= hour <= 12 else 24
    try:
        when = datetime(year, month, part("d", 1), hour, part("M", 0), part("S", 0))
    except ValueError:
        return None
    return (when - EPOCH).days * DAY_SECONDS + (when - EPOCH).seconds


def expand_year(short: int) -> int:
    """Return the year that two digits mean: 1969 … 2068."""
    return short + (1900 if short >= 69 else 2000)


def _regex(parts: list[str]) -> str:
    """Return a pattern as a regular expression; leading noughts may only be left out where nothing is ambiguous."""
    written = []
    after_digits = False
    for part in parts:
        name = part[1:] if part.startswith("%") else ""
        most = _NUMBERS.get(name)
        if most is None:
            written.append(_WORDS.get(name) or re.escape("%" if part == "%%" else part))
        else:
            least = most if after_digits or name in "Yy" else 1
            written.append(f"(?P<{name}>[0-9]{{{least},{most}}})")
        after_digits = most is not None
    return "".join(written)
