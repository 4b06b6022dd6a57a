"""What remains of k-anonymity, ℓ-diversity and t-closeness where pieces that have them are put together.

Classes with equal quasi-identifiers become one class of the union. It is at least as large as each of them, and its
distribution of sensitive values is a mixture of theirs: it has all values of each, its entropy is at least the smallest
of theirs (entropy is concave), and its largest share is at most the largest of theirs. So k and ℓ survive. The
distribution of the whole changes as well, and t need not survive: two pieces of one class each, one with a value in
half of its rows and one without it, are both 0-close, and classes that stay apart are at distance 1/4 in the union. A
dissertation on partitioned data claims in one chapter that t-closeness survives, and in another that it does not: the
second is right. Nor does global recoding survive: pieces may generalize one value in different ways.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from populace.core.array_types import Floats
from populace.evaluation.disclosure.anonymity import Anonymity, measure_anonymity
from populace.evaluation.disclosure.text_tables import TextTable, join_tables
from populace.schema.exact_numbers import parse_number

_RANGE = re.compile(r"\s*[\[(]?\s*(-?[0-9.]+)\s*(?:-|–|…|,|to)\s*(-?[0-9.]+)\s*[\])]?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Criterion:
    """One criterion: the worst of the pieces, the union, and whether every union of pieces keeps it."""

    name: str
    pieces: float
    union: float
    always_survives: bool
    survives: bool

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {
            "name": self.name,
            "pieces": self.pieces,
            "union": self.union,
            "always_survives": self.always_survives,
            "survives": self.survives,
        }


def compare_union(
    pieces: Sequence[TextTable], *, quasi: Sequence[str], sensitive: Mapping[str, Floats | None]
) -> tuple[list[Anonymity], Anonymity, list[Criterion]]:
    """Return what each piece and the union have, and which criteria survive."""
    each = [measure_anonymity(piece, quasi=quasi, sensitive=sensitive) for piece in pieces]
    union = measure_anonymity(join_tables(pieces), quasi=quasi, sensitive=sensitive)
    found = [_least("k-anonymity", [one.k for one in each], union.k)]
    for name in sensitive:
        for kind in ("distinct", "entropy", "frequency"):
            values = [float(getattr(one.diversity[name], kind)) for one in each]
            found.append(
                _least(f"{kind} ℓ-diversity of {name}", values, float(getattr(union.diversity[name], kind)))
            )
        worst, whole = max(one.closeness[name].t for one in each), union.closeness[name].t
        found.append(
            Criterion(
                name=f"t-closeness of {name}",
                pieces=worst,
                union=whole,
                always_survives=False,
                survives=whole <= worst + 1e-12,
            )
        )
    for name in quasi:
        own = [len(find_overlaps(_held_texts([piece], name))) for piece in pieces]
        joint = len(find_overlaps(_held_texts(pieces, name)))
        found.append(
            Criterion(
                name=f"values of {name} that break global recoding",
                pieces=max(own),
                union=joint,
                always_survives=False,
                survives=joint <= max(own),
            )
        )
    return each, union, found


def _least(name: str, pieces: Sequence[float], union: float) -> Criterion:
    worst = min(pieces)
    return Criterion(
        name=name, pieces=worst, union=union, always_survives=True, survives=union >= worst - 1e-9
    )


def _held_texts(pieces: Sequence[TextTable], name: str) -> list[str]:
    used = {int(code) for piece in pieces for code in set(piece.codes[name].tolist())}
    return [pieces[0].texts[name][code] for code in sorted(used)]


def find_overlaps(texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of published values that can stand for one original value: global recoding has none.

    A range of numbers is written 20-29, [20, 29] or 20…29; * stands for everything, and 12** for what begins with 12.

    >>> find_overlaps(["20-29", "30", "25", "f"])
    [('20-29', '25')]
    >>> find_overlaps(["12**", "1234", "13**"])
    [('12**', '1234')]
    """
    general = [text for text in texts if text.endswith("*") or _RANGE.fullmatch(text)]
    seen = set(general)
    # Two values that are not generalized are equal or apart.
    return [
        (one, other)
        for place, one in enumerate(general)
        for other in (*general[place + 1 :], *(text for text in texts if text not in seen))
        if other and _can_be_equal(one, other)
    ]


def _can_be_equal(one: str, other: str) -> bool:
    for left, right in ((one, other), (other, one)):
        stars = left.rstrip("*")
        if stars != left and right.startswith(stars):
            return True
    first, second = _parse_ends(one), _parse_ends(other)
    return first is not None and second is not None and first[0] <= second[1] and second[0] <= first[1]


def _parse_ends(text: str) -> tuple[float, float] | None:
    number = parse_number(text)
    if number is not None:
        return float(number), float(number)
    match = _RANGE.fullmatch(text)
    if match is None:
        return None
    low, high = parse_number(match[1]), parse_number(match[2])
    return None if low is None or high is None else (float(low), float(high))
