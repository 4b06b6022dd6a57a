"""The methods by name: where each is, what it spends of δ, and what it cannot do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from fractions import Fraction
from importlib import import_module
from typing import Any

from populace.core.errors import UsageError
from populace.core.marginals import Domain
from populace.methods.oracle import Strategy
from populace.methods.workload import Workload
from populace.privacy.accounting.budget import Budget
from populace.schema.schema import Schema
from populace.schema.unit import PrivacyUnit

AUTO = "adaptive"
# All pairs of so many columns are 130,816; a method that looks at every one of them takes minutes there.
MAX_COLUMNS = 512


class Delta(Enum):
    """What becomes of the δ that a method is offered."""

    SPENT = "spent"
    NONE = "none, whatever is offered: its noise is pure"
    KEYS = "all of it is set aside: to tell keys, or for one question with Gaussian noise"


class PublicTableUse(Enum):
    """What a method does with a public table."""

    NOTHING = "it has no use for one"
    IF_GIVEN = "it uses one that is given"
    ALWAYS = "it needs one"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Home:
    """Where a method is: a module beside this one, its function, and one that refuses before anything is spent.

    A method with `queries` reads how a workload is asked in rounds; the function of that name refuses what it cannot,
    and that of `shares` returns the least share of the budget that an answer gets.
    One with `slack` cannot use δ below some ε; the function of that name says so, from public facts alone.
    """

    module: str
    strategy: str
    check: str | None = None
    queries: str | None = None
    shares: str | None = None
    slack: str | None = None
    delta: Delta = Delta.SPENT
    public: PublicTableUse = PublicTableUse.NOTHING
    uses_workload: bool = True
    """Whether it heeds a workload."""
    columns: int | None = None
    """How many columns it can take, where it looks at all pairs of them."""

    def load(self, name: str) -> Any:
        return getattr(import_module(f"populace.methods.{self.module}"), name)


_HOMES = {
    "adaptive": _Home(
        module="adaptive.adaptive",
        strategy="measure_adaptive",
        public=PublicTableUse.IF_GIVEN,
        columns=MAX_COLUMNS,
    ),
    "aim": _Home(module="aim", strategy="measure_aim", columns=MAX_COLUMNS),
    "copula": _Home(
        module="literature.copula.copula", strategy="measure_copula", uses_workload=False, columns=MAX_COLUMNS
    ),
    "dpsyn": _Home(
        module="dpsyn.dpsyn",
        strategy="measure_dpsyn",
        check="check_dpsyn",
        slack="can_use_delta",
        delta=Delta.KEYS,
        public=PublicTableUse.ALWAYS,
        uses_workload=False,
        columns=MAX_COLUMNS,
    ),
    "field-groups": _Home(
        module="field_groups",
        strategy="measure_field_groups",
        check="check_field_groups",
        delta=Delta.NONE,
        public=PublicTableUse.IF_GIVEN,
        uses_workload=False,
    ),
    "gem": _Home(module="literature.gem.gem", strategy="measure_gem", columns=MAX_COLUMNS),
    "histogram": _Home(
        module="histogram.histogram",
        strategy="measure_histogram",
        check="check_histogram",
        delta=Delta.NONE,
        uses_workload=False,
    ),
    "histogram-exponential": _Home(
        module="histogram.histogram",
        strategy="measure_histogram_exponential",
        check="check_histogram_exponential",
        delta=Delta.NONE,
        uses_workload=False,
    ),
    "independent": _Home(module="independent", strategy="measure_independent", uses_workload=False),
    "mst": _Home(module="mst", strategy="measure_mst", uses_workload=False),
    "mwem": _Home(module="literature.mwem", strategy="measure_mwem", columns=MAX_COLUMNS),
    "nist2018": _Home(
        module="nist2018.nist2018",
        strategy="measure_nist2018",
        queries="check_queries",
        shares="smallest_share",
    ),
    "pmw": _Home(module="literature.pmw", strategy="measure_pmw", columns=MAX_COLUMNS),
    "privbayes": _Home(
        module="literature.privbayes", strategy="measure_privbayes", uses_workload=False, columns=MAX_COLUMNS
    ),
    "stability": _Home(
        module="stability.stability",
        strategy="measure_stability",
        check="check_stability",
        delta=Delta.KEYS,
        uses_workload=False,
    ),
}


class _Methods(Mapping[str, Strategy]):
    """The methods, each loaded when it is asked for: a run needs one of them."""

    def __getitem__(self, name: str) -> Strategy:
        home = _HOMES[name]
        found: Strategy = home.load(home.strategy)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


METHODS: Mapping[str, Strategy] = _Methods()
PURE = frozenset(name for name, home in _HOMES.items() if home.delta is Delta.NONE)
TELLING = frozenset(name for name, home in _HOMES.items() if home.delta is Delta.KEYS)


def resolve_name(name: str) -> str:
    """Return the name of the method that will run: `auto` stands for one of them.

    >>> resolve_name("auto"), resolve_name("independent")
    ('adaptive', 'independent')
    """
    found = AUTO if name == "auto" else name
    if found not in METHODS:
        known = ["auto", *METHODS]
        near = get_close_matches(name, known, n=1)
        raise UsageError(
            f"there is no method {name!r}.",
            hint=f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}",
        )
    return found


def usable_delta(method: str, *, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Fraction:
    """Return the δ that a method takes of what it is offered: nothing where it could not use it at this ε.

    >>> offered = {"epsilon": Fraction(1, 40), "delta": Fraction(1, 2), "unit": PrivacyUnit()}
    >>> [str(usable_delta(method, **offered)) for method in ("histogram", "mst", "dpsyn")]
    ['0', '1/2', '0']
    """
    home = _HOMES.get(method)
    if home is not None and home.slack is not None and not home.load(home.slack)(epsilon, unit=unit):
        return Fraction(0)
    return Fraction(0) if method in PURE else delta


def discovery_delta(method: str, *, delta: Fraction, learning: Fraction) -> Fraction:
    """Return the part of δ to set aside for telling keys; `learning` is what learning domains takes of it."""
    return delta if method in TELLING else learning


def check_public(method: str, *, given: bool) -> None:
    """Refuse a public table where a method has no use for it, and a method that needs one without it."""
    home = _HOMES.get(method)
    if home is None:
        return
    if given and home.public is PublicTableUse.NOTHING:
        able = " or ".join(
            name for name, other in _HOMES.items() if other.public is not PublicTableUse.NOTHING
        )
        raise UsageError(
            f"the method {method!r} has no use for a public table.", hint=f"leave it out, or use {able}"
        )
    if not given and home.public is PublicTableUse.ALWAYS:
        raise UsageError(
            f"the method {method!r} needs a public table.", hint="give --public FILE, or use --method auto"
        )


def check_query_rounds(method: str, workload: Workload, *, domain: Domain) -> None:
    """Refuse, before anything is spent, a workload in rounds where a method has none, and what its rounds cannot do."""
    home = _HOMES.get(method)
    if home is None:
        return
    if home.queries is not None:
        home.load(home.queries)(workload, domain=domain)
    elif workload.rounds is not None:
        able = " or ".join(name for name, other in _HOMES.items() if other.queries is not None)
        raise UsageError(
            f"the workload says how its marginals are asked in rounds; the method {method!r} has none.",
            hint=f"leave out [rounds], [columns] and coarse, or use {able}",
        )


def uses_workload(method: str) -> bool:
    """Say whether a method heeds a workload.

    >>> uses_workload("aim"), uses_workload("mst")
    (True, False)
    """
    return method not in _HOMES or _HOMES[method].uses_workload


def check_noise_fits(method: str, workload: Workload, *, domain: Domain, budget: Budget) -> None:
    """Refuse, before anything is spent, a budget so small that noise of some question might not fit 64 bits.

    No method gives an answer about a column less than a 1000th of an even share, or one about a pair, or about what is
    wanted, less than a 100th, unless the curator says so: a method with `shares` tells the least share of its rounds.
    """
    columns, home = len(domain), _HOMES.get(method)
    parts = 1000 * columns + 100 * (math.comb(columns, 2) + len(workload.weights))
    if home is not None and home.shares is not None:
        least = home.load(home.shares)(workload, domain=domain, budget=budget)
        if not budget.can_afford(least):
            raise UsageError(
                f"the workload leaves an answer {float(least):.1g} of the budget: noise might not fit 64 bits.",
                hint="let the first round take about half, and give weights that differ less",
            )
    if not budget.can_afford(Fraction(1, parts)):
        raise UsageError(
            f"epsilon is too small for {columns} columns: noise might not fit 64 bits.",
            hint="raise epsilon, give a delta above 0, or leave out columns",
        )


def check_method(method: str, schema: Schema, *, epsilon: Fraction, delta: Fraction) -> None:
    """Refuse, from public facts alone and before anything is spent, what a method could not do."""
    home = _HOMES.get(method)
    if home is not None and home.columns is not None and len(schema.domain) > home.columns:
        raise UsageError(
            f"the method {method!r} looks at all pairs of columns: of {len(schema.domain)} columns; "
            f"{home.columns} is the most.",
            hint="use --method mst or --method independent, or leave columns out of the schema",
        )
    if home is not None and home.check is not None:
        home.load(home.check)(schema, epsilon=epsilon, delta=delta)
