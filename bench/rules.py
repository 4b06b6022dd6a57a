"""Rules in every released row: none broken in a million rows, as many rows as asked, and no accuracy lost by them.

    python bench/rules.py                              all four tables, the default
    python bench/rules.py --data stress --epsilon 1

ma2019, national2019: the American Community Survey excerpts with the rules of the shipped overlay.
sample: the survey of `populace demo`.
stress: invented persons behind 40 rules that depend on each other (`forty_rules`): chains of universes, zeros over
three columns, functions of functions, a hierarchy, days, a split column, learnt bins and values, a public total.

Releases are made by `auto`. Broken rules are counted here, by hand, from the written file. A million rows are drawn by
`populace generate` from the first release. `without` is the same schema with the same codes but no rules: the code for
rows outside a universe is a missing code, and a function is a column of its own. Errors are the mean total variation
over all pairs and 100 triples (tools/score.py beside the shared data; of days it is given the year).

Claims: no rule broken, exactly a million rows, and the error with rules at most that without plus two standard errors.
`--keep FILE` remembers finished lines.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd
from error import COMMAND, SHARED, here, score

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tests.helpers.forty_rules import draw_persons, strangers, violations
from tests.helpers.forty_rules_schema import persons_schema

Counts = dict[str, int]
ROWS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Ruled:
    """A table with its schema, who counts its broken rules, and which of its columns are days."""

    data: Path
    schema: Path
    broken: Callable[[pd.DataFrame], Counts]
    days: Sequence[str] = ()


def read(file: Path) -> pd.DataFrame:
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def acs(name: str, place: Path) -> Ruled:
    folder = SHARED / "data" / "nist-acs"
    schema = place / f"{name}.toml"
    words = ["schema", "import", str(folder / f"{name}.json"), "--overlay", "nist-acs", "--out", str(schema)]
    words += ["--dictionary", str(folder / "data_dictionary.json")]
    subprocess.run([*COMMAND, *words], check=True, capture_output=True)
    real = read(folder / f"{name}.csv")
    return Ruled(data=folder / f"{name}.csv", schema=schema, broken=lambda t: acs_broken(t, real))


def acs_broken(table: pd.DataFrame, real: pd.DataFrame) -> Counts:
    """Count rows that break what the overlay declares; functions as the real rows show them."""
    age, home = table.AGEP.astype(int), table.HOUSING_TYPE == "1"
    family, children, school = (pd.to_numeric(table[c], errors="coerce") for c in ("NPF", "NOC", "EDU"))
    density = dict(zip(real.PUMA, real.DENSITY.astype(float), strict=True))
    industry = dict(zip(real.INDP, real.INDP_CAT, strict=True))
    poor = table.POVPIP != "N"
    ages = {"MSP": 15, "EDU": 3, "PINCP": 15, "PINCP_DECILE": 15, "DREM": 5, "DPHY": 5}
    homes = {"NOC": "N", "OWN_RENT": "0", "WGTP": "0"}
    most = {5: 3, 12: 4, 15: 5, 18: 8}
    rows = {f"{c} by age": (age >= least) == (table[c] == "N") for c, least in ages.items()}
    rows |= {f"{c} by housing": home == (table[c] == out) for c, out in homes.items()}
    rows |= {f"EDU under {under}": (age < under) & (school >= grade) for under, grade in most.items()}
    rows |= {
        "INDP under 16": (age < 16) & (table.INDP != "N"),
        "DVET under 17": (age < 17) & (table.DVET != "N"),
        "family in group quarters": ~home & (table.NPF != "N"),
        "family not larger than its children": family <= children,
        "children without family": (table.NPF == "N") & (children >= 1),
        "spouse in group quarters": ~home & (table.MSP == "1"),
        "adult at home without poverty ratio": home & (age >= 15) & ~poor,
        "poverty ratio in institutions": (table.HOUSING_TYPE == "2") & poor,
        "poverty ratio of children elsewhere": (table.HOUSING_TYPE == "3") & (age < 15) & poor,
        "PUMA → DENSITY": table.PUMA.map(density) != table.DENSITY.astype(float),
        # Codes of other excerpts have no real row here to tell their category.
        "INDP → INDP_CAT": table.INDP.map(industry).fillna(table.INDP_CAT) != table.INDP_CAT,
    }
    return {name: int(each.sum()) for name, each in rows.items()}


def sample(place: Path) -> Ruled:
    from populace.simulation.population import LABOUR_FORCE, POPULATION_SCHEMA
    from populace.simulation.sample_survey import simulate_survey as survey

    table, schema = survey()
    data, file = place / "sample.csv", place / "sample.toml"
    table.select(list(schema.columns)).to_pandas().to_csv(data, index=False)
    file.write_text(POPULATION_SCHEMA)
    return Ruled(data=data, schema=file, broken=lambda t: sample_broken(t, LABOUR_FORCE), days=["moved_in"])


def sample_broken(table: pd.DataFrame, force: dict[str, str]) -> Counts:
    """Count rows of the survey that break what its codebook declares."""
    age = table.age.astype(int)
    working = table.work.isin(["employed", "self-employed"])
    schooled = ["no diploma", "high school", "some college", "bachelor", "advanced"]
    ages = {"marital_status": 15, "education": 3, "work": 15, "income": 15}
    rows = {f"{c} by age": (age >= least) == (table[c] == "N") for c, least in ages.items()}
    rows |= {f"{c} by work": working == (table[c] == "N") for c in ("hours", "commute_km")}
    rows |= {
        "area → county": table.county != table.area.str[:2],
        "county → region": table.region != table.county.str[:1],
        "work → labour force": table.labour_force != table.work.map(force),
        "householder under 15": (table.relationship == "householder") & (age < 15),
        "spouse not married": (table.relationship == "spouse") & (table.marital_status != "married"),
        "partner married": (table.relationship == "partner") & (table.marital_status == "married"),
        "alone and no householder": (table.household_size == "1") & (table.relationship != "householder"),
        "children not fewer than persons": table.children.astype(int) >= table.household_size.astype(int),
        "schooling under 15": (age < 15) & table.education.isin(schooled),
        "loss of others": (pd.to_numeric(table.income, errors="coerce") < 0)
        & (table.work != "self-employed"),
    }
    return {name: int(each.sum()) for name, each in rows.items()}


def stress(place: Path) -> Ruled:
    real = draw_persons(20_000)
    data, file = place / "stress.csv", place / "stress.toml"
    real.to_csv(data, index=False)
    file.write_text(persons_schema(real))

    def broken(table: pd.DataFrame) -> Counts:
        """Count broken rules and codes; a total is broken by each row too many or too few."""
        share = real.district.value_counts() * (len(table) / len(real))
        off = int((table.district.value_counts().reindex(share.index, fill_value=0) - share).abs().sum())
        odd = sum(strangers(table, real).values())
        return {**violations(table), "total by district": off, "codes that are none": odd}

    return Ruled(data=data, schema=file, broken=broken, days=["born", "hired"])


def bare(file: Path, copy: Path) -> Path:
    """Write the schema without its rules: the same codes, every column on its own."""
    from populace.schema.columns.column import CategoricalColumn
    from populace.schema.schema import Schema

    schema = Schema.load(file)
    columns = {}
    for name, column in schema.columns.items():
        if name in schema.layout.functions and not isinstance(column, CategoricalColumn):
            values = tuple(sorted(set(column.map.values())))
            columns[name] = CategoricalColumn(name=name, values=values, other=values[0])
            continue
        outside = () if column.outside is None else (column.outside,)
        columns[name] = replace(
            column,
            missing=(*column.missing, *outside),
            universe=None,
            outside=None,
            function_of=(),
            parent=None,
            map={},
        )
    copy.write_text(replace(schema, columns=columns, zeros=(), totals=()).to_toml())
    return copy


def run(words: Sequence[str]) -> tuple[float, float]:
    """Run a command of populace and return its seconds by the clock and of the processor."""
    begun = time.perf_counter()
    with tempfile.TemporaryFile("w+") as said:
        threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        child = subprocess.Popen([*COMMAND, *words], stdout=said, stderr=said, env=os.environ | threads)
        _, status, used = os.wait4(child.pid, 0)
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(words)}\n{said.read()}")
    return time.perf_counter() - begun, used.ru_utime + used.ru_stime


def released(ruled: Ruled, *, schema: Path, epsilon: str, out: Path) -> dict[str, float]:
    """Make a release of the default number of rows, and score it."""
    words = ["synth", str(ruled.data), "--schema", str(schema), "--epsilon", epsilon, "--delta", "1e-5"]
    words += ["--ledger", str(out.with_suffix(".db")), "--out", str(out), "--no-report"]
    wall, cpu = run(words)
    files = [years(file, ruled.days) for file in (ruled.data, out / "synthetic.csv")]
    told = score(*files)
    return {"pairs": told["tv2"], "triples": told["tv3"], "wall_s": wall, "cpu_s": cpu}


def years(file: Path, days: Sequence[str]) -> Path:
    """Return a copy of a file with years in place of days, which the ruler does not read."""
    if not days:
        return file
    table = read(file)
    for name in days:
        table[name] = table[name].str[:4]
    copy = file.with_suffix(".years.csv")
    table.to_csv(copy, index=False)
    return copy


def measured(name: str, epsilon: str, *, runs: int, place: Path) -> dict[str, object]:
    """Return what a table gives at an epsilon: broken rules of a million rows, errors with and without rules."""
    ruled = (
        {"sample": sample, "stress": stress}[name](place)
        if name in ("sample", "stress")
        else acs(name, place)
    )
    plain = bare(ruled.schema, place / "bare.toml")
    outs = [place / f"with-{number}" for number in range(runs)]
    found = [released(ruled, schema=ruled.schema, epsilon=epsilon, out=out) for out in outs]
    wall, cpu = run(["generate", str(outs[0]), "--rows", str(ROWS), "--out", str(place / "million")])
    table = read(place / "million" / "synthetic.csv")
    without = [
        released(ruled, schema=plain, epsilon=epsilon, out=place / f"without-{number}")
        for number in range(runs)
    ]
    lost = ruled.count_violations(read(place / "without-0" / "synthetic.csv"))
    return {
        "rows": len(table),
        "broken": ruled.count_violations(table),
        "small": sum(sum(ruled.count_violations(read(out / "synthetic.csv")).values()) for out in outs),
        "lost": sum(lost.values()),
        "draw": [wall, cpu],
        "with": found,
        "without": without,
    }


def lines(name: str, epsilon: str, told: dict) -> list[str]:
    """Return what is printed of a table at an epsilon."""
    broken = {rule: count for rule, count in told["broken"].items() if count}
    wall, cpu = told["draw"][:2]
    good = told["rows"] == ROWS and not broken and not told["small"]
    found = [
        f"{name} at epsilon {epsilon}: {told['rows']} rows, {len(told['broken'])} rules, "
        f"broken {sum(broken.values())}{f' {broken}' if broken else ''}: {'holds' if good else 'MISSED'}",
        f"    also {told['small']} in {len(told['with'])} releases of the usual size; without rules {told['lost']} in "
        f"one; a million rows drawn in {wall:.0f} s, {cpu:.0f} of the processor",
    ]
    for kind in ("with", "without"):
        mean = {key: statistics.mean(run[key] for run in told[kind]) for key in told[kind][0]}
        found.append(
            f"    {kind:8} pairs {mean['pairs']:.4f} ({spread(told[kind], 'pairs'):.4f})  "
            f"triples {mean['triples']:.4f} ({spread(told[kind], 'triples'):.4f})  "
            f"wall {mean['wall_s']:.0f} s  cpu {mean['cpu_s']:.0f} s"
        )
    for error in ("pairs", "triples"):
        ours, theirs = (statistics.mean(run[error] for run in told[kind]) for kind in ("with", "without"))
        doubt = 2 * math.hypot(
            *(spread(told[kind], error) / len(told[kind]) ** 0.5 for kind in ("with", "without"))
        )
        found.append(
            f"    {error} {ours:.4f} ≤ {theirs:.4f} + {doubt:.4f}: {'holds' if ours <= theirs + doubt else 'MISSED'}"
        )
    return found


def spread(runs: Sequence[dict[str, float]], key: str) -> float:
    return statistics.stdev([run[key] for run in runs]) if len(runs) > 1 else 0.0


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=["ma2019", "national2019", "sample", "stress"])
    ask.add_argument("--epsilon", nargs="+", default=["1", "10"])
    ask.add_argument("--runs", type=int, default=3)
    ask.add_argument("--keep", type=Path)
    told = ask.parse_args()
    done = {}
    if told.keep is not None and told.keep.exists():
        done = {
            tuple(each["key"]): each["found"] for each in map(json.loads, told.keep.read_text().splitlines())
        }
    print(f"{here()}, auto, delta 1e-5, {told.runs} runs each")
    for name in told.data:
        for epsilon in told.epsilon:
            found = done.get((name, epsilon))
            if found is None:
                with tempfile.TemporaryDirectory() as place:
                    found = measured(name, epsilon, runs=told.runs, place=Path(place))
                if told.keep is not None:
                    with told.keep.open("a") as file:
                        file.write(json.dumps({"key": [name, epsilon], "found": found}) + "\n")
            print(*lines(name, epsilon, found), sep="\n", flush=True)


if __name__ == "__main__":
    main()
