"""A simulation study as a value: which population, how it is sampled, which methods answer which queries, how often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from pathlib import Path

from populace.core.errors import UsageError
from populace.schema.hints import quote_names
from populace.schema.toml_table import TomlTable
from populace.survey.queries.queries import Query


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthSource:
    """Where the population comes from: the embedded one, a fitted model, or a file.

    Only a file that is declared `public` and has no account in the ledger leaves a study publishable.
    """

    schema: Path | None = None
    households: int | None = None
    """How many households the embedded population has; None where the truth is no embedded population."""
    population_seed: int | None = None
    model: Path | None = None
    rows: int | None = None
    file: Path | None = None
    public: bool = False


class SampleKind(StrEnum):
    """How rows are drawn from the population."""

    ALL = "all"
    SRS = "srs"
    STRATIFIED = "stratified"
    POISSON = "poisson"
    CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDesign:
    """A sampling design. `rates` are rates of those who meet a condition, which the estimators do not know."""

    kind: SampleKind = SampleKind.ALL
    n: int | None = None
    rate: Fraction | None = None
    rates: tuple[tuple[str, Fraction], ...] = ()
    strata: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    psu: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Nonresponse:
    """Who does not answer: probability 1/(1 + e^−x), where x is the intercept plus terms times their coefficients.

    A term is a column of numbers or a condition. Coefficients are given, or learnt from the file `learn`: of the schema
    of the study, or of one of its own, `learn_schema`, in whose words `learn_column` and `learn_terms` say the same.
    """

    column: str
    code: str
    terms: tuple[str, ...]
    intercept: float = 0.0
    coefficients: tuple[float, ...] = ()
    learn: Path | None = None
    learn_schema: Path | None = None
    learn_column: str | None = None
    learn_terms: tuple[str, ...] = ()
    public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StudyMethod:
    """A method that answers the queries: its kind, and the design, missing values and totals that it works with.

    With `pieces` it sees one of so many secret pieces of the sample, and `share` is its part of every ε.
    """

    name: str
    kind: str
    tables: TomlTable
    method: str = "auto"
    schema: Path | None = None
    """A schema of its own for synthesis, such as one with a geography."""
    pieces: int = 1
    share: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyQuery:
    """A query, and for a count the subpopulation of public size that it lies `within`."""

    query: Query
    within: str | None = None


class FigureKind(StrEnum):
    """What a figure of the report shows."""

    NOISE = "noise"
    CONTEXT = "context"
    METHODS = "methods"
    BIAS = "bias"
    INTERVALS = "intervals"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure: its kind, and of which queries, methods and ε; empty means all of them."""

    kind: FigureKind
    title: str
    caption: str = ""
    queries: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    epsilon: tuple[Fraction, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Study:
    """A whole study, as its file declares it."""

    path: Path
    title: str
    about: str
    seeds: int
    seed: int
    epsilon: tuple[Fraction, ...]
    delta: Fraction
    truth: TruthSource
    sample: SampleDesign
    nonresponse: Nonresponse | None
    methods: tuple[StudyMethod, ...]
    queries: tuple[StudyQuery, ...]
    figures: tuple[Figure, ...]
    content: str
    """All that decides about a run, as text: two studies that agree in it share their runs."""

    def __post_init__(self) -> None:
        if not self.epsilon or not self.methods or not self.queries:
            raise UsageError(
                "a study needs epsilon, [[methods]] and [[queries]].",
                hint="docs/reference/study.md has the keys of a study file",
            )
        for what, names in (
            ("methods", [each.name for each in self.methods]),
            ("queries", [each.query.name for each in self.queries]),
        ):
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise UsageError(
                    f"two {what} are named {quote_names(twice)}.", hint="give each a name of its own"
                )
            for figure in self.figures:
                if strange := set(getattr(figure, what)) - set(names):
                    raise UsageError(
                        f"figure {figure.title!r} shows {what} that there are not: {quote_names(sorted(strange))}.",
                        hint=f"{what} are {quote_names(names)}",
                    )
        shown = [each for figure in self.figures for each in figure.epsilon if each not in self.epsilon]
        if shown:
            raise UsageError(
                f"a figure shows epsilon {float(shown[0]):g}, which is not run.",
                hint="name one of those under epsilon",
            )
