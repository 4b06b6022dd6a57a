"""From a study file to a `Study`."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from populace.core.errors import SchemaError, UsageError
from populace.core.pretty_json import pretty_json
from populace.schema.bounded_parsing import read_text_file
from populace.schema.hints import quote_names
from populace.schema.toml_table import TomlTable, read_toml_table
from populace.simulation.population import HOUSEHOLDS, SEED
from populace.studies.study import (
    Figure,
    FigureKind,
    Nonresponse,
    SampleDesign,
    SampleKind,
    Study,
    StudyMethod,
    StudyQuery,
    TruthSource,
)
from populace.studies.study_methods import METHOD_KINDS
from populace.survey.design.design_reader import DESIGN_TABLES
from populace.survey.queries.queries import read_query

_KEYS = (
    "title", "about", "seeds", "seed", "epsilon", "delta",
    "truth", "sample", "nonresponse", "methods", "queries", "figures",
)  # fmt: skip
# What is shown and how often it is run may change without another run.
_FREE_KEYS = ("title", "about", "seeds", "figures")
EMBEDDED = "embedded"
DEFAULT_SEEDS = 100


def load_study(path: Path | str) -> Study:
    """Read a study from its file; paths in it start from the folder that it is in."""
    path = Path(path)
    return read_study(read_text_file(path, what="study", refuse=UsageError), path=path)


def read_study(text: str, *, path: Path) -> Study:
    """Return the study that a TOML text declares."""
    hint = 'write texts in quotes, as in [truth] and population = "embedded"'
    document = read_toml_table(text, name=repr(str(path)), hint=hint)
    document.allow(_KEYS)
    home = path.parent
    seeds, seed = document.integer("seeds"), document.integer("seed")
    if seeds is not None and seeds < 1:
        raise UsageError(f"seeds is {seeds}.", hint="run each method once at least")
    answer = document.table("nonresponse", place="[nonresponse]")
    return Study(
        path=path,
        title=document.text("title") or path.stem,
        about=document.text("about") or "",
        seeds=DEFAULT_SEEDS if seeds is None else seeds,
        seed=seed or 0,
        epsilon=_read_epsilons(document),
        delta=document.number("delta") or Fraction(0),
        truth=_read_truth(document.table("truth", place="[truth]"), home),
        sample=_read_sample(document.table("sample", place="[sample]")),
        nonresponse=_read_nonresponse(answer, home) if answer.items else None,
        methods=tuple(_read_method(each, home) for each in document.tables("methods")),
        queries=tuple(_read_study_query(each) for each in document.tables("queries")),
        figures=tuple(_read_figure(each) for each in document.tables("figures")),
        content=pretty_json(_to_plain({k: v for k, v in document.items.items() if k not in _FREE_KEYS})),
    )


def _to_plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _to_plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_to_plain(each) for each in value]
    return value if isinstance(value, bool | int | str) else str(value)


def _read_epsilons(document: TomlTable) -> tuple[Fraction, ...]:
    found = sorted(set(document.numbers("epsilon")))
    if found and found[0] <= 0:
        raise UsageError(f"epsilon holds {float(found[0]):g}.", hint="give numbers above 0")
    return tuple(found)


def _read_flag(table: TomlTable, key: str) -> bool:
    value = table.items.get(key, False)
    if not isinstance(value, bool):
        raise table.error(f": {key} is neither true nor false.", hint=f"write {key} = true")
    return value


def _read_path(table: TomlTable, key: str, home: Path) -> Path | None:
    text = table.text(key)
    return None if text is None else home / text


def _read_truth(table: TomlTable, home: Path) -> TruthSource:
    table.allow(("population", "households", "seed", "model", "rows", "file", "public", "schema"))
    if sum(key in table for key in ("population", "model", "file")) != 1:
        raise table.error(
            " has no population, or several.", hint='give one of population = "embedded", model, file'
        )
    if "population" in table and table.text("population") != EMBEDDED:
        raise table.unknown_choice("population", [EMBEDDED])
    if "file" in table and "schema" not in table:
        raise table.error(" names a file without its schema.", hint='write schema = "schema.toml"')
    households, seed = table.integer("households"), table.integer("seed")
    embedded = "population" in table
    return TruthSource(
        schema=_read_path(table, "schema", home),
        households=(HOUSEHOLDS if households is None else households) if embedded else None,
        population_seed=(SEED if seed is None else seed) if embedded else None,
        model=_read_path(table, "model", home),
        rows=table.integer("rows"),
        file=_read_path(table, "file", home),
        public=_read_flag(table, "public"),
    )


def _read_sample(table: TomlTable) -> SampleDesign:
    table.allow(("design", "n", "rate", "rates", "strata", "sizes", "psu"))
    kind = table.choice("design", default=SampleKind.ALL)
    rates, sizes = (table.table(key, place=f"[sample.{key}]") for key in ("rates", "sizes"))
    choices: dict[SampleKind, list[tuple[str, ...]]] = {
        SampleKind.ALL: [()],
        SampleKind.SRS: [("n",), ("rate",), ("rate", "rates")],
        SampleKind.STRATIFIED: [("strata", "sizes")],
        SampleKind.POISSON: [("rate",), ("rate", "rates")],
        SampleKind.CLUSTER: [("psu", "n"), ("psu", "n", "rate")],
    }
    wanted = choices[kind]
    given = {key for key in table.items if key != "design"}
    if given not in [set(each) for each in wanted]:
        raise table.error(
            f": design {kind.value!r} does not go with {quote_names(sorted(given)) or 'nothing else'}.",
            hint="give " + ", or ".join(" and ".join(each) or "nothing else" for each in wanted),
        )
    found = SampleDesign(
        kind=kind,
        n=table.integer("n"),
        rate=table.number("rate"),
        rates=tuple((condition, rates.number(condition) or Fraction(0)) for condition in rates.items),
        strata=table.text("strata"),
        sizes={stratum: sizes.integer(stratum) or 0 for stratum in sizes.items},
        psu=table.text("psu"),
    )
    for rate in [*([found.rate] if found.rate is not None else []), *(rate for _, rate in found.rates)]:
        if not 0 < rate <= 1:
            raise table.error(f": a rate is {float(rate):g}.", hint="give rates above 0 and up to 1")
    if found.n is not None and found.n < 1:
        raise table.error(f": n is {found.n}.", hint="draw one at least")
    return found


def _read_nonresponse(table: TomlTable, home: Path) -> Nonresponse:
    table.allow(
        ("column", "code", "intercept", "coefficients", "learn", "terms", "public", "schema", "learn_column")
    )
    given = table.table("coefficients", place="[nonresponse.coefficients]")
    column, code = table.text("column"), table.text("code")
    if column is None or code is None:
        raise table.error(" has no column, or no code.", hint='write column = "INCOME" and code = "refused"')
    if ("learn" in table) == ("coefficients" in table) or ("learn" in table) != ("terms" in table):
        raise table.error(
            " has neither coefficients nor a file to learn them from, or both.",
            hint="give intercept and coefficients, or learn and terms",
        )
    translated = isinstance(table.items.get("terms"), Mapping)
    if len({translated, "schema" in table, "learn_column" in table}) > 1:
        raise table.error(
            " learns from a file of another schema without saying all that is called otherwise there.",
            hint='write schema = "schema.toml", learn_column = "PINCP" and terms = { "age" = "AGEP" }',
        )
    words = table.table("terms", place="[nonresponse.terms]") if translated else None
    terms = table.texts("terms") if words is None else tuple(words.items)
    return Nonresponse(
        column=column,
        code=code,
        terms=terms or tuple(given.items),
        intercept=float(table.number("intercept") or 0),
        coefficients=tuple(float(given.number(term) or 0) for term in given.items),
        learn=_read_path(table, "learn", home),
        learn_schema=_read_path(table, "schema", home),
        learn_column=table.text("learn_column"),
        learn_terms=terms if words is None else tuple(words.text(term) or "" for term in terms),
        public=_read_flag(table, "public"),
    )


def _read_method(table: TomlTable, home: Path) -> StudyMethod:
    table.allow(("name", "kind", "method", "schema", "pieces", "share", *DESIGN_TABLES))
    kind = table.text("kind") or ""
    if kind not in METHOD_KINDS:
        if "kind" in table:
            raise table.unknown_choice("kind", list(METHOD_KINDS))
        raise table.error(" has no kind.", hint=f"choose one of {quote_names(METHOD_KINDS)}")
    pieces, share = table.integer("pieces"), table.number("share")
    if (pieces is not None and pieces < 1) or (share is not None and not 0 < share <= 1):
        raise table.error(
            ": pieces or share is out of range.", hint="give pieces from 1, and a share up to 1"
        )
    own = {key: value for key, value in table.items.items() if key in DESIGN_TABLES}
    return StudyMethod(
        name=table.text("name") or kind,
        kind=kind,
        tables=TomlTable(table.place, own),
        method=table.text("method") or "auto",
        schema=_read_path(table, "schema", home),
        pieces=1 if pieces is None else pieces,
        share=Fraction(1) if share is None else share,
    )


def _read_study_query(table: TomlTable) -> StudyQuery:
    rest = {key: value for key, value in table.items.items() if key != "within"}
    return StudyQuery(query=read_query(TomlTable(table.place, rest)), within=table.text("within"))


def _read_figure(table: TomlTable) -> Figure:
    table.allow(("kind", "title", "caption", "queries", "methods", "epsilon"))
    if "kind" not in table:
        raise SchemaError(
            f"{table.place} has no kind.",
            hint=f"choose one of {quote_names(each.value for each in FigureKind)}",
        )
    one = table.items.get("epsilon")
    kind = table.choice("kind", default=FigureKind.METHODS)
    return Figure(
        kind=kind,
        title=table.text("title") or kind.value,
        caption=table.text("caption") or "",
        queries=table.texts("queries"),
        methods=table.texts("methods"),
        epsilon=table.numbers("epsilon")
        if isinstance(one, list)
        else tuple(filter(None, [table.number("epsilon")])),
    )
