"""An invented table of persons behind forty rules that depend on each other, and who counts what rows break.

The rows are drawn one column after the other: a household, a person in it, schooling, work, and what follows from work.
Each step depends on those before it and keeps every rule, so that no real row has to be moved. `violations` reads
released cells as texts and knows the rules by hand; nothing of populace takes part in it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pandas as pd

from tests.helpers.forty_rules_schema import (
    BENEFITS,
    DISTRICTS,
    OCCUPATIONS,
    SCHOOLING,
    STAGES,
    SURVEYED,
    TRADES,
    WORKS,
)


def draw_persons(rows: int, *, seed: int = 0) -> pd.DataFrame:
    """Return persons as texts; every one of them keeps all rules."""
    rng = np.random.default_rng(seed)

    def lots() -> np.ndarray:
        return rng.random(rows)

    district = rng.choice(DISTRICTS, rows, p=np.arange(16, 4, -1) / 126)
    tenure = np.where(
        np.isin(district, ["n1", "e1"]), _pick(lots(), [0.25, 0.92, 0.97]), _pick(lots(), [0.6, 0.9, 0.97])
    )
    tenure = np.array(["own", "rent", "free", "institution"])[tenure]
    institution = tenure == "institution"
    size = np.where(
        institution, 1 + (lots() < 0.3), 1 + rng.binomial(8, np.where(tenure == "own", 0.27, 0.17))
    )
    children = np.where(institution, 0, rng.binomial(size - 1, 0.45))
    alone = (size == 1) | institution
    relation = np.where(alone, "head", np.where((children > 0) & (lots() < children / size), "child", ""))
    relation = np.where(
        relation == "", np.array(["head", "spouse", "other"])[_pick(lots(), [0.5, 0.85])], relation
    )
    child = relation == "child"
    age = np.where(
        child,
        np.minimum(rng.geometric(0.06, rows) - 1, 45),
        18 + rng.binomial(80, 0.05 + 0.85 * lots() ** 1.3),
    )
    age = np.where(institution, np.minimum(age + 25, 97), age)
    age = np.where((relation == "other") & (lots() < 0.2), rng.integers(0, 20, rows), age)
    year = SURVEYED - 1 - age
    born = _days(year, rng)
    born = np.where(lots() < 0.03, "unknown", born)

    marital = np.array(["single", "married", "divorced", "widowed"])[
        np.where(
            age < 25,
            _pick(lots(), [0.95, 0.99, 1]),
            np.where(age < 65, _pick(lots(), [0.35, 0.8, 0.97]), _pick(lots(), [0.1, 0.5, 0.6])),
        )
    ]
    marital = np.where(lots() < 0.02, "R", marital)
    marital = np.where(relation == "spouse", "married", marital)
    marital = np.where(age < 16, "N", marital)
    married = marital == "married"

    most = np.select([age < 5, age < 12, age < 16, age < 20], [0, 1, 2, 4], 5)
    talent = lots() * 0.7 + 0.3 * np.isin(district, ["n1", "e1", "s1"])
    schooled = np.minimum(most, np.searchsorted([0.03, 0.12, 0.3, 0.6, 0.78], talent))
    schooling = np.where(age < 5, "N", np.array(SCHOOLING)[schooled])
    hidden = (age >= 5) & (lots() < 0.04)
    schooling = np.where(hidden, np.where(lots() < 0.6, "R", "D"), schooling)
    degree = schooling == "degree"

    work = np.where(
        age < 22, _pick(lots(), [0.2, 0.21, 0.35]), np.where(age < 62, _pick(lots(), [0.65, 0.8, 0.97]), 4)
    )
    work = np.array(WORKS)[work]
    work = np.where((work == "retired") & (age < 50), "none", work)
    work = np.where(
        (age >= 62) & (lots() < np.where(age < 70, 0.25, 0.04)),
        np.where(lots() < 0.5, "employee", "self"),
        work,
    )
    work = np.where(age < 15, "N", work)
    busy = np.isin(work, ["employee", "self"])
    spouse_work = np.where(married, np.where(lots() < 0.6, "yes", "no"), "N")
    spouse_work = np.where(married & (lots() < 0.03), "R", spouse_work)
    # Two earn only where two live: in a household of one the spouse, who lives elsewhere, does not work.
    spouse_work = np.where((spouse_work == "yes") & busy & (size < 2), "no", spouse_work)
    least = busy.astype(int) + ((spouse_work == "yes") & busy)
    full = (work == "retired") & (age >= 65)
    earners = np.minimum(np.maximum(least, rng.binomial(size, 0.4)), np.minimum(size - full, 6))
    tenure = np.where((tenure == "own") & (size >= 6) & (earners < children), "free", tenure)

    skill = np.select([degree, schooled >= 3], [0, 1], 2)
    chance = np.array(
        [
            [3, 2, 4, 3, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1],
            [1, 2, 0, 0, 3, 3, 3, 2, 2, 1, 2, 2, 1, 1],
            [0, 1, 0, 0, 1, 1, 2, 3, 3, 3, 3, 3, 5, 4],
        ]
    )
    chance = np.cumsum(chance / chance.sum(axis=1, keepdims=True), axis=1)
    occupation = np.array(OCCUPATIONS)[np.minimum((lots()[:, None] > chance[skill]).sum(axis=1), 13)]
    occupation = np.where(np.isin(occupation, ["21", "22"]) & ~degree, "32", occupation)
    south = np.char.startswith(district, "s")
    occupation = np.where(south & (occupation == "61"), "71", occupation)
    occupation = np.where(busy & (lots() < 0.02), "R", occupation)
    occupation = np.where(busy, occupation, "N")
    branch = np.where(np.isin(occupation, ["R", "N"]), occupation, [text[:1] for text in occupation])

    usual = np.select([np.isin(branch, ["1", "2"]), np.isin(branch, ["3", "4"])], [70_000, 40_000], 24_000)
    amount = usual * np.exp(0.5 * rng.standard_normal(rows)) * np.clip(0.5 + age / 60, 0.5, 1.3)
    step = np.select([lots() < 0.5, lots() < 0.8], [1000, 100], 1)
    wage = np.minimum((amount / step).round() * step, 400_000).astype(int)
    employee = work == "employee"
    refused = employee & (lots() < 0.06)
    wages = np.where(refused, "R", np.where(employee, wage.astype(str), "N"))
    week = np.where(lots() < 0.6, 40.0, np.round(np.clip(38 + 12 * rng.standard_normal(rows), 1, 80), 1))
    week = np.where((age >= 70) & (week >= 45), 20.0, week)
    known = ~np.isin(occupation, ["N", "R"])
    hours = np.where(known, np.where(lots() < 0.03, "R", [f"{value:.1f}" for value in week]), "N")
    craft = (busy * 3 + schooled + rng.binomial(5, 0.3, rows)) % len(TRADES)
    trade = np.where((work == "self") & (age >= 18), np.array(TRADES)[craft], "N")
    paid = (tenure == "rent") & np.isin(relation, ["head", "spouse"])
    capital = np.isin(district, ["n1", "e1"])
    price = np.where(capital, 900, 500) * np.exp(0.45 * rng.standard_normal(rows)) + 60 * size
    price = (price / 10).round().astype(int) * 10
    price = np.where(capital, np.maximum(price, 300), price)
    price = np.where(np.isin(occupation, ["91", "92"]), np.minimum(price, 1990), np.minimum(price, 5000))
    rent = np.where(paid, np.where(lots() < 0.04, 99999, price), -1).astype(str)
    since = np.maximum(year + 16, SURVEYED - rng.geometric(0.12, rows))
    since = np.where(age < 35, np.maximum(since, 2000), np.maximum(since, 1950))
    hired = np.where(lots() < 0.05, "unknown", _days(np.minimum(since, SURVEYED), rng))
    hired = np.where(employee & ~refused, hired, "N")
    shown = np.minimum(age, 90)
    stage = np.array(STAGES)[np.searchsorted([16, 30, 65], shown, side="right")]
    benefit = [BENEFITS.get(key, "no") for key in zip(work, stage, strict=True)]
    return pd.DataFrame(
        {
            "district": district,
            "region": [text[:1] for text in district],
            "age": shown.astype(str),
            "stage": stage,
            "born": born,
            "relation": relation,
            "size": size.astype(str),
            "children": children.astype(str),
            "earners": earners.astype(str),
            "marital": marital,
            "spouse_work": spouse_work,
            "schooling": schooling,
            "work": work,
            "occupation": occupation,
            "branch": branch,
            "wage": wages,
            "hours": hours,
            "trade": trade,
            "tenure": tenure,
            "rent": rent,
            "hired": hired,
            "benefit": benefit,
        }
    )


def _pick(lots: np.ndarray, ends: list[float]) -> np.ndarray:
    return np.searchsorted(ends, lots, side="right")


def _days(year: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    month, day = rng.integers(1, 13, year.size), rng.integers(1, 29, year.size)
    return np.array([f"{y:04d}-{m:02d}-{d:02d}" for y, m, d in zip(year, month, day, strict=True)])


def _before(days: pd.Series, day: str) -> pd.Series:
    return days.notna() & (days.fillna("") < day)


def _after(days: pd.Series, day: str) -> pd.Series:
    return days.notna() & (days.fillna("") >= day)


class _Cells:
    """The columns of a table as texts, by name, and what rules ask of them."""

    def __init__(self, table: pd.DataFrame) -> None:
        self._table = table

    def __getattr__(self, name: str) -> pd.Series:
        return self._table[name]

    def number(self, name: str) -> pd.Series:
        return pd.to_numeric(self._table[name], errors="coerce")

    def day(self, name: str) -> pd.Series:
        # Texts of ISO days are ordered as the days are; words are not days.
        return self._table[name].where(~self._table[name].isin(["unknown", "N"]))

    @property
    def grade(self) -> pd.Series:
        return self._table.schooling.map({text: place for place, text in enumerate(SCHOOLING)})

    @property
    def busy(self) -> pd.Series:
        return self._table.work.isin(["employee", "self"])

    @property
    def special(self) -> pd.Series:
        return self._table["occupation"].isin(["R", "N"])

    @property
    def rent_paid(self) -> pd.Series:
        rent = self.number("rent")
        return rent.where((rent >= 0) & (rent != 99999))

    @property
    def stage_told(self) -> pd.Series:
        age = self.number("age")
        return pd.Series(np.select([age < 16, age < 30, age < 65], STAGES[:3], STAGES[3]), self._table.index)

    @property
    def benefit_told(self) -> pd.Series:
        pairs = pd.Series(list(zip(self._table.work, self.stage_told, strict=True)), self._table.index)
        return pairs.map(lambda pair: BENEFITS.get(pair, "no"))


BROKEN: dict[str, Callable[[_Cells], pd.Series]] = {
    "region": lambda c: c.region != c.district.str[0],
    "stage": lambda c: c.stage != c.stage_told,
    "branch": lambda c: c.branch != c.occupation.where(c.special, c.occupation.str[0]),
    "benefit": lambda c: c.benefit != c.benefit_told,
    "marital": lambda c: (c.marital == "N") != (c.number("age") < 16),
    "spouse_work": lambda c: (c.spouse_work == "N") != (c.marital != "married"),
    "schooling": lambda c: (c.schooling == "N") != (c.number("age") < 5),
    "work": lambda c: (c.work == "N") != (c.number("age") < 15),
    "occupation": lambda c: (c.occupation == "N") == c.busy,
    "wage": lambda c: (c.wage == "N") != (c.work != "employee"),
    "hours": lambda c: (c.hours == "N") != c.special,
    "trade": lambda c: (c.trade == "N") != ((c.work != "self") | (c.number("age") < 18)),
    "rent": lambda c: (c.rent == "-1") != ((c.tenure != "rent") | ~c.relation.isin(["head", "spouse"])),
    "hired": lambda c: (c.hired == "N") != c.wage.isin(["N", "R"]),
    "young head": lambda c: (c.relation == "head") & (c.number("age") < 16),
    "spouse not married": lambda c: (c.relation == "spouse") & (c.marital != "married"),
    "alone and no head": lambda c: (c.number("size") == 1) & (c.relation != "head"),
    "children not fewer than persons": lambda c: c.number("children") >= c.number("size"),
    "more earners than persons": lambda c: c.number("earners") > c.number("size"),
    "child without children": lambda c: (c.relation == "child") & (c.number("children") == 0),
    "works and nobody earns": lambda c: c.busy & (c.number("earners") == 0),
    "two work and one earns": lambda c: (c.spouse_work == "yes") & c.busy & (c.number("earners") < 2),
    "schooling under 12": lambda c: (c.number("age") < 12) & (c.grade >= 2),
    "degree under 20": lambda c: (c.number("age") < 20) & (c.grade >= 5),
    "retired under 50": lambda c: (c.work == "retired") & (c.number("age") < 50),
    "profession without degree": lambda c: c.occupation.isin(["21", "22"]) & (c.grade < 5),
    "born before 1995, under 20": lambda c: (c.number("age") < 20) & _before(c.day("born"), "1995-01-01"),
    "born after 1964, 60 or more": lambda c: (c.number("age") >= 60) & _after(c.day("born"), "1965-01-01"),
    "born too far from 30 to 59": lambda c: (
        (c.number("age") >= 30)
        & (c.number("age") < 60)
        & (_before(c.day("born"), "1950-01-01") | _after(c.day("born"), "1995-01-01"))
    ),
    "hired before 2000, under 35": lambda c: _before(c.day("hired"), "2000-01-01") & (c.number("age") < 35),
    "institution and no head": lambda c: (c.tenure == "institution") & (c.relation != "head"),
    "institution with children": lambda c: (c.tenure == "institution") & (c.number("children") > 0),
    "cheap rent in a capital": lambda c: (c.rent_paid < 300) & c.district.isin(["n1", "e1"]),
    "dear rent on low pay": lambda c: (c.rent_paid >= 2000) & c.occupation.isin(["91", "92"]),
    "owners of large households": lambda c: (
        (c.tenure == "own") & (c.number("size") >= 6) & (c.number("earners") < c.number("children"))
    ),
    "long hours of the old": lambda c: (c.number("hours") >= 45) & (c.number("age") >= 70),
    "fishing in the south": lambda c: c.district.str.startswith("s") & (c.occupation == "61"),
    "old students": lambda c: (c.number("age") >= 65) & (c.work == "student"),
    "full benefit and all earn": lambda c: (
        (c.work == "retired") & (c.number("age") >= 65) & (c.number("earners") >= c.number("size"))
    ),
}


def violations(table: pd.DataFrame) -> dict[str, int]:
    """Count, for every rule whose columns the table has, the rows of released texts that break it."""
    found = {}
    for name, broken in BROKEN.items():
        with suppress(KeyError):
            found[name] = int(broken(_Cells(table)).sum())
    return found


def strangers(table: pd.DataFrame, real: pd.DataFrame) -> dict[str, int]:
    """Count, column by column, released texts that the column cannot hold."""
    lists = {
        name: set(real[name]) for name in real if real[name].nunique() < 100 and name not in ("born", "hours")
    }
    lists |= {
        "age": {str(age) for age in range(91)},
        "trade": {*TRADES, "N", "else"},
        "schooling": {*SCHOOLING, "R", "D", "N"},
    }
    lists |= {
        "size": {str(n) for n in range(1, 10)},
        "children": {str(n) for n in range(9)},
        "earners": {str(n) for n in range(7)},
    }
    spans = {"wage": (0, 400_000, "R N"), "hours": (1, 80, "R N"), "rent": (0, 5000, "99999 -1")}
    found = {name: int((~table[name].isin(values)).sum()) for name, values in lists.items() if name in table}
    for name, (low, high, words) in spans.items():
        if name not in table:
            continue
        rest = table[name][~table[name].isin(words.split())]
        found[name] = int((~pd.to_numeric(rest, errors="coerce").between(low, high)).sum())
    for name, low, words in (("born", "1910-01-01", "unknown"), ("hired", "1950-01-01", "unknown N")):
        rest = table[name][~table[name].isin(words.split())]
        days = pd.to_datetime(rest, format="%Y-%m-%d", errors="coerce")
        found[name] = int((~days.between(low, "2020-12-31")).sum())
    return found
