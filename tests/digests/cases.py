"""Every repeatable run whose files are recorded: a name, and a function that writes them into a folder."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.csv
import pyarrow.parquet as pq

import populace as pp

from . import inputs
from .internals import METHODS, main, on_public_rows, population, repeatable_noise, sample, write_split_key

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Case:
    """A run, and whether it is left to the slow tests."""

    run: Callable[[Path], None]
    slow: bool


CASES: dict[str, Case] = {}


def case(name: str, *, slow: bool = False) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Put a run into the list."""

    def listed(run: Callable[[Path], None]) -> Callable[[Path], None]:
        CASES[name] = Case(run, slow)
        return run

    return listed


def synthesize(data: Any, schema: str, out: Path, *, report: bool = False, **more: Any) -> None:
    """Make a release of a table with repeatable noise, and save it."""
    with tempfile.TemporaryDirectory() as place:
        options = {"epsilon": "2", "delta": "1e-6", "seed": 5, **more}
        release = pp.synthesize(
            data,
            schema=pp.Schema.parse(schema),
            ledger=Path(place) / "ledger.db",
            noise=repeatable_noise(11),
            **options,
        )
        release.save(out, report=report)


def estimate(
    data: Any, schema: str, design: str, queries: str, out: Path, *, report: bool = False, **more: Any
) -> None:
    """Make estimates from a survey with repeatable noise, and save them."""
    read = pp.Schema.parse(schema)
    with tempfile.TemporaryDirectory() as place:
        found = pp.estimate(
            data,
            schema=read,
            design=pp.Design.parse(design, schema=read),
            queries=pp.Queries.parse(queries, schema=read),
            ledger=Path(place) / "ledger.db",
            noise=repeatable_noise(12),
            **{"epsilon": "20", "delta": "1e-6", **more},
        )
        found.save(out, report=report)


def say(words: list[str]) -> str:
    """Return what a command prints."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(io.StringIO()):
        code = main(words)
    if code:
        raise RuntimeError(f"populace {' '.join(words)} ended with {code}")
    return told.getvalue()


# ------------------------------------------------------------------------------------- every method on two tables

NEEDS_PUBLIC = frozenset({"dpsyn"})


def method_case(method: str, table: str) -> None:
    """Put a method's run on a table into the list."""

    @case(f"method {method} on {table}", slow=(method, table) == ("gem", "people"))
    def run(out: Path) -> None:
        make = {"people": inputs.people, "trips": inputs.trips}[table]
        schema = {"people": inputs.PEOPLE, "trips": inputs.TRIPS}[table]
        known = {"public": make(1000, seed=2)} if method in NEEDS_PUBLIC else {}
        synthesize(make(300, seed=1), schema, out, method=method, **known)


for _method in sorted(name for name, value in METHODS.items() if not value.counts_units):
    for _table in ("people", "trips"):
        method_case(_method, _table)


# ------------------------------------------------------------------------------------------- what else a run can do


@case("rules")
def rules(out: Path) -> None:
    synthesize(inputs.people(300, seed=3), inputs.RULES, out)


@case("geography")
def geography(out: Path) -> None:
    synthesize(inputs.counted_people(), inputs.GEOGRAPHY, out, method="topdown")


@case("totals")
def totals(out: Path) -> None:
    synthesize(inputs.people(300, seed=3), inputs.RULES + inputs.TOTALS, out)


@case("public table")
def public_table(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, public=inputs.people(2000, seed=2))


@case("public table for field groups")
def public_groups(out: Path) -> None:
    known = inputs.people(1000, seed=2)
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, public=known, method="field-groups")


@case("learnt domains")
def learnt(out: Path) -> None:
    synthesize(inputs.people(2000, seed=4), inputs.LEARN, out, epsilon="8")


@case("learnt domains without delta", slow=True)
def learnt_pure(out: Path) -> None:
    schema = inputs.LEARN.replace('values = "learn"', 'values = ["none", "part", "full"]')
    synthesize(inputs.people(2000, seed=4), schema, out, epsilon="8", delta="0")


@case("where")
def where(out: Path) -> None:
    synthesize(inputs.people(300, seed=3), inputs.RULES, out, where="age >= 3 and sex == 'f'")


@case("implicates")
def implicates(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, implicates=3, rows=120)


@case("where and implicates")
def where_implicates(out: Path) -> None:
    more = {"where": "work == 'full' or age < 3", "implicates": 2, "rows": 50}
    synthesize(inputs.people(300, seed=3), inputs.RULES, out, **more)


@case("gum")
def gum(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, inference="gum", method="mst")


@case("gum with rules")
def gum_rules(out: Path) -> None:
    synthesize(inputs.people(300, seed=3), inputs.RULES, out, inference="gum")


@case("workload")
def workload(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, workload=workload_of(inputs.WORKLOAD, out))


@case("workload for aim")
def workload_aim(out: Path) -> None:
    asked = workload_of(inputs.WORKLOAD, out)
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, workload=asked, method="aim")


@case("triples")
def triples(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, workload="triples")


@case("rounds")
def rounds(out: Path) -> None:
    asked = workload_of(inputs.ROUNDS, out)
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, workload=asked, method="nist2018")


def workload_of(text: str, out: Path) -> Path:
    """Write a workload beside a folder, and return where it is."""
    path = out.with_suffix(".toml")
    path.write_text(text, encoding="utf-8")
    return path


@case("pure")
def pure(out: Path) -> None:
    synthesize(inputs.people(300, seed=1), inputs.PEOPLE, out, delta="0")


@case("no rows")
def no_rows(out: Path) -> None:
    synthesize(inputs.people(0, seed=1), inputs.PEOPLE, out)


@case("parquet")
def parquet(out: Path) -> None:
    path = out.with_suffix(".parquet")
    pq.write_table(inputs.trips(300, seed=1), path)
    synthesize(path, inputs.TRIPS, out)


@case("csv")
def csv(out: Path) -> None:
    path = out.with_suffix(".csv")
    pyarrow.csv.write_csv(inputs.people(300, seed=1), path)
    synthesize(path, inputs.PEOPLE, out)


@case("report of a release", slow=True)
def report(out: Path) -> None:
    synthesize(inputs.people(300, seed=3), inputs.RULES, out, report=True)


@case("report of learnt domains", slow=True)
def report_learnt(out: Path) -> None:
    synthesize(inputs.people(2000, seed=4), inputs.LEARN, out, report=True, epsilon="8")


@case("sample population", slow=True)
def sample_population(out: Path) -> None:
    table, schema = population(households=400)
    synthesize(table, schema.to_toml(), out, report=True)


@case("sample population with mst", slow=True)
def sample_population_mst(out: Path) -> None:
    table, schema = population(households=400)
    synthesize(table, schema.to_toml(), out, method="mst")


@case("three stages")
def stages(out: Path) -> None:
    """Measure, then fit and draw by commands."""
    with tempfile.TemporaryDirectory() as place:
        measured, fitted = Path(place) / "measured", Path(place) / "fitted"
        table = inputs.people(300, seed=3)
        made = pp.measure(
            table,
            schema=pp.Schema.parse(inputs.RULES),
            epsilon="2",
            delta="1e-6",
            ledger=Path(place) / "ledger.db",
            noise=repeatable_noise(11),
        )
        measured.mkdir()
        made.save(measured)
        say(["fit", str(measured), "--out", str(fitted)])
        drawn = ["--seed", "5", "--no-report", "--format", "parquet", "--out", str(out / "release")]
        out.mkdir()
        say(["generate", str(fitted), "--ledger", str(Path(place) / "ledger.db"), *drawn])
        fitted.rename(out / "fitted")


# -------------------------------------------------------------------------------------------------------- estimates


def design_case(name: str) -> None:
    """Put the estimates of a design into the list."""

    @case(f"estimate {name}")
    def run(out: Path) -> None:
        design, queries = inputs.DESIGNS[name]
        estimate(inputs.survey(400, seed=6), inputs.SURVEY, design, queries, out)

    @case(f"estimate {name} without delta", slow=True)
    def run_pure(out: Path) -> None:
        design, queries = inputs.DESIGNS[name]
        estimate(inputs.survey(400, seed=6), inputs.SURVEY, design, queries, out, epsilon="4", delta="0")


for _name in inputs.DESIGNS:
    design_case(_name)


def example(name: str) -> tuple[str, str, str]:
    """Return the schema, the design and the queries of an example."""
    parts = ("schema", "design", "queries")
    found = [(EXAMPLES / f"survey/{name}-{part}.toml").read_text(encoding="utf-8") for part in parts]
    return found[0], found[1], found[2]


@case("estimate people of the examples", slow=True)
def estimate_people(out: Path) -> None:
    schema, design, queries = example("people")
    estimate(sample(households=2000)[0], schema, design, queries, out, report=True)


@case("estimate nhanes of the examples", slow=True)
def estimate_nhanes(out: Path) -> None:
    """On rows that are drawn from the schema: the real ones are not ours to keep."""
    schema, design, queries = example("nhanes")
    estimate(inputs.nhanes(1500, seed=7), schema, design, queries, out)


@case("report of estimates", slow=True)
def report_estimates(out: Path) -> None:
    design, queries = inputs.DESIGNS["psus"]
    estimate(inputs.survey(400, seed=6), inputs.SURVEY, design, queries, out, report=True)


@case("estimates on public rows")
def public_rows(out: Path) -> None:
    """Exact estimates of every design that has them."""
    out.mkdir()
    schema = pp.Schema.parse(inputs.SURVEY)
    for name in ("rows", "weights", "strata", "psus", "lonely", "replicates"):
        design, queries = inputs.DESIGNS[name]
        found = on_public_rows(
            inputs.survey(400, seed=6),
            design=pp.Design.parse(design, schema=schema),
            queries=pp.Queries.parse(queries, schema=schema),
        )
        told = [each.to_json() for each in found]
        (out / f"{name}.json").write_text(
            json.dumps({each["query"]: [] for each in told} | {"all": told}), encoding="utf-8"
        )


# --------------------------------------------------------------------------------------------- plan, weights, split


def plan_case(name: str, *, slow: bool = True, **options: Any) -> None:
    """Put a plan into the list."""

    @case(f"plan {name}", slow=slow)
    def run(out: Path) -> None:
        schema = options.get("schema", inputs.PEOPLE.replace(inputs.GROUPS, ""))
        asked = {"population": 5000, "epsilon": "1", "delta": "1e-6"}
        asked |= {key: value for key, value in options.items() if key != "schema"}
        found = pp.plan(pp.Schema.parse(schema), **asked)
        out.mkdir()
        (out / "plan.json").write_text(json.dumps(found.to_json(), indent=1), encoding="utf-8")


plan_case("of people", slow=False)
plan_case("of trips with mst", schema=inputs.TRIPS, method="mst")
plan_case("for a target error", epsilon=None, target_error=0.05)
plan_case("of few rows", population=60, epsilon="0.1")
plan_case("with shares", shares={"sex": {"f": 0.6, "m": 0.4}})
plan_case("of domains to learn", schema=inputs.LEARN)
plan_case("like a public table", schema=inputs.TRIPS, like=inputs.trips(400, seed=9))


@case("plan by command", slow=True)
def plan_command(out: Path) -> None:
    out.mkdir()
    schema = out / "schema.toml"
    schema.write_text(inputs.PEOPLE, encoding="utf-8")
    words = ["plan", "--schema", str(schema), "--population", "5000", "--epsilon", "1", "--delta", "1e-6"]
    told = say([*words, "--out", str(out / "plan.html")])
    (out / "plan.txt").write_text(told.replace(str(out), "OUT"), encoding="utf-8")


def weights_case(name: str, *words: str) -> None:
    """Put a file of weights into the list."""

    @case(f"weights {name}")
    def run(out: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            release, design = Path(place) / "release", Path(place) / "design.toml"
            synthesize(inputs.people(300, seed=1), inputs.PEOPLE, release, method="mst")
            design.write_text(inputs.WEIGHTING, encoding="utf-8")
            out.mkdir()
            kind = "parquet" if words else "csv"
            say(
                [
                    "weights",
                    str(release),
                    "--totals",
                    str(design),
                    "--out",
                    str(out / f"survey.{kind}"),
                    *words,
                ]
                + ([] if "--replicates" in words else ["--replicates", "12"])
            )


weights_case("with replicates")
weights_case("with a seed", "--seed", "9", "--replicates", "5", "--weight", "w")


def split_case(kind: str) -> None:
    """Put a split of a file into the list."""

    @case(f"split {kind}")
    def run(out: Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            data = folder / f"trips.{kind}"
            write = pyarrow.csv.write_csv if kind == "csv" else pq.write_table
            write(inputs.trips(300, seed=1), data)
            (folder / "schema.toml").write_text(inputs.TRIPS, encoding="utf-8")
            write_split_key(folder / "key", seed=13)
            words = ["--schema", str(folder / "schema.toml"), "--key", str(folder / "key")]
            say(["split", str(data), *words, "--shares", "1/2,0.3,0.2", "--out", str(out)])


split_case("csv")
split_case("parquet")


@case("schemas")
def schemas(out: Path) -> None:
    """The digests of all schemas, which are hidden elsewhere, and how they are written."""
    out.mkdir()
    texts = {"people": inputs.PEOPLE, "trips": inputs.TRIPS, "rules": inputs.RULES, "learn": inputs.LEARN}
    texts |= {"totals": inputs.RULES + inputs.TOTALS, "survey": inputs.SURVEY}
    for name, text in texts.items():
        schema = pp.Schema.parse(text)
        (out / f"{name}.toml").write_text(schema.to_toml(), encoding="utf-8")
        halves = schema.digest[:31], schema.digest[31:]
        (out / f"{name}.digest").write_text(" ".join(halves), encoding="utf-8")
    for path in sorted((EXAMPLES / "schemas").glob("*.toml")):
        schema = pp.Schema.load(path)
        (out / path.with_suffix(".digest").name).write_text(
            f"{schema.digest[:31]} {schema.digest[31:]}", encoding="utf-8"
        )


@case("ledger entries")
def ledger_entries(out: Path) -> None:
    """The digests of runs in a ledger, which are hidden elsewhere, and what it tells of them."""
    out.mkdir()
    with tempfile.TemporaryDirectory() as place:
        ledger = Path(place) / "ledger.db"
        common = {"epsilon": "1", "delta": "1e-6", "ledger": ledger, "noise": repeatable_noise(14)}
        made = pp.measure(
            inputs.people(300, seed=1), schema=pp.Schema.parse(inputs.PEOPLE), method="mst", **common
        )
        schema = pp.Schema.parse(inputs.SURVEY)
        design, queries = inputs.DESIGNS["psus"]
        told = pp.estimate(
            inputs.survey(400, seed=6),
            schema=schema,
            design=pp.Design.parse(design, schema=schema),
            queries=pp.Queries.parse(queries, schema=schema),
            **common,
        )
        for name, record in (("measured", made.record), ("estimated", told.record)):
            halves = f"{record.digest[:31]} {record.digest[31:]}"
            (out / f"{name}.digest").write_text(halves, encoding="utf-8")
        shown = say(["ledger", "show", "--ledger", str(ledger), "--json"])
        (out / "ledger.json").write_text(shown.replace(place, "PLACE"), encoding="utf-8")
