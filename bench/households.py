"""Linked tables: what a release of households and persons together is worth beside one of each table alone.

    python bench/households.py [--seeds N] [--survey FOLDER] [--persons N]

Alone, a table is synthesized with the same unit and with the share of the budget that it got in the linked run. The
share is the precision (1 / variance, which is what a budget buys) of all counts whose columns are all of that table,
each counted once. The number of persons is a column of the household table, alone as in the linked run, and of the
pairs that are compared; for persons, counts inside any one place belong to their table. What was spent on choosing, and
counts of columns of both tables or of two persons, belong to neither. Persons alone have up to `max_rows` rows per
household. Rules that name columns of one table alone hold there too. Across the two tables the comparison is with
independent tables that have no error of their own: the product of the true single distributions. Total variation, mean
and range over seeds; noise is never seeded, so two calls differ. The truth is all persons; where `max_rows` leaves some
out, its error alone is printed, and the same comparison with the persons that it keeps. The third population is another
one, with other households, four persons at most (one in seventeen is left out), wider age bins and two columns less.
The survey is read from --survey, the other populations are simulated.
"""

from __future__ import annotations

import argparse
import itertools
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd

import populace as pp
from populace.privacy.accounting.budget import Budget
from populace.schema.conditions.condition_parser import condition_columns, parse_condition
from populace.schema.linked.linked_reader import list_unit_columns
from populace.schema.linked.linked_tables import LinkedTables
from populace.schema.unit import PrivacyUnit
from populace.simulation.linked_population import LINKED_SCHEMA, simulate_households

HERE = Path(__file__).resolve().parent
SURVEY = HERE.parents[1] / "shared" / "data" / "households"
EPSILON, DELTA = "1", "1e-9"
Tables = dict[str, pd.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One pair of linked tables, and the combinations across them that are looked at by name."""

    name: str
    tables: Tables
    schema: pp.Schema
    across: tuple[tuple[str, ...], ...]

    @property
    def linked(self) -> LinkedTables:
        assert self.schema.linked is not None
        return self.schema.linked

    @property
    def unit_columns(self) -> list[str]:
        return list_unit_columns(self.linked, self.schema.columns)


def survey_case(folder: Path) -> Case:
    tables = {name: pd.read_parquet(folder / f"{name}s.parquet") for name in ("household", "person")}
    across = (("HHIncome", "PAge"), ("HHDwelling", "POcc"), ("HHSize", "HHChildren", "PAge"))
    schema = pp.Schema.load(HERE.parent / "examples" / "schemas" / "household-survey.toml")
    return Case(name="household survey", tables=tables, schema=schema, across=across)


def sample_case() -> Case:
    tables, schema = simulate_households()
    across = (("tenure", "income"), ("children", "age"), ("region", "tenure", "age"))
    frames = {name: table.to_pandas() for name, table in tables.items()}
    return Case(name="simulated population", tables=frames, schema=schema, across=across)


def varied_case() -> Case:
    """Return other simulated households: fewer, of at most four persons with six columns, ages in wide bins."""
    tables, _ = simulate_households(households=12_000, seed=7)
    text = LINKED_SCHEMA.replace("max_rows = 6", "max_rows = 4").replace("[[zeros]]", "\n[[zeros]]")
    text = re.sub(r"edges = \[0, 3, [^]]*\]", "edges = [0, 15, 18, 30, 45, 60, 75, 90]", text)
    text = re.sub(r"\[tables\.person\.columns\.(education|health)\](.|\n)*?\n\n", "", text)
    text = re.sub(r"\[\[zeros\]\]\nwhen = \"age < 15 and education.*\n", "", text)
    frames = {name: table.to_pandas() for name, table in tables.items()}
    across = (("tenure", "income"), ("children", "age"), ("region", "tenure", "age"))
    return Case(name="other households", tables=frames, schema=pp.Schema.parse(text), across=across)


def bin_cells(frame: pd.DataFrame, columns: Sequence[str], *, case: Case) -> pd.DataFrame:
    """Return cells as codes of the schema: what is compared is what the schema tells apart."""
    import pyarrow as pa

    from populace.schema.codec.encoder import Encoder

    own = [*case.unit_columns, case.linked.count]
    known = {**{name: case.schema.columns[name] for name in own}, **case.linked.columns}
    return pd.DataFrame(
        {name: Encoder(known[name])(pa.array(frame[name], from_pandas=True)) for name in columns}
    )


def join(tables: Tables, *, case: Case) -> pd.DataFrame:
    """Return one row per person with the columns of the household."""
    linked = case.linked
    units, members = tables[linked.units], tables[linked.members]
    left = bin_cells(members, list(linked.columns), case=case).assign(
        _key=members[linked.member_key].to_numpy()
    )
    right = bin_cells(units, case.unit_columns, case=case).assign(_key=units[linked.unit_key].to_numpy())
    return left.merge(right, on="_key")


def distance(one: pd.DataFrame, other: pd.DataFrame, columns: Sequence[str]) -> float:
    shares = [frame[list(columns)].value_counts(normalize=True) for frame in (one, other)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def distance_from_independence(real: pd.DataFrame, columns: Sequence[str], *, own: Sequence[str]) -> float:
    """Return the error of tables that are right by themselves and know nothing of each other."""
    left = [name for name in columns if name in own]
    right = [name for name in columns if name not in own]
    joint = real.groupby(list(columns), observed=True).size() / len(real)
    one, other = (real.groupby(part, observed=True).size() / len(real) for part in (left, right))
    product = pd.DataFrame(np.outer(one, other), index=one.index, columns=other.index)
    flat = product.stack(list(range(product.columns.nlevels)), future_stack=True)
    flat.index = flat.index.set_names([*left, *right]).reorder_levels(list(columns))
    return float(flat.sub(joint, fill_value=0).abs().sum() / 2)


def mean_pairs(one: pd.DataFrame, other: pd.DataFrame, names: Sequence[str]) -> float:
    return statistics.fmean(distance(one, other, pair) for pair in itertools.combinations(names, 2))


def precision(epsilon: float) -> float:
    budget = Budget.of(Fraction(epsilon).limit_denominator(10**6), Fraction(DELTA), unit=PrivacyUnit())
    return 1 / float(budget.measure_noise(Fraction(1), marginals=1).variance)


def epsilon_of(share: float) -> str:
    """Return the epsilon whose whole budget is so large a share of the linked run's."""
    low, high = 0.001, float(EPSILON)
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if precision(middle) < share * precision(float(EPSILON)) else (low, middle)
    return f"{high:.4f}"


def find_shares(release: pp.Release, *, case: Case) -> dict[str, float]:
    """Return the share of the budget that went to counts inside each of the two tables."""
    linked = case.linked
    inside = {
        linked.units: [{*case.unit_columns, linked.count}],
        linked.members: [set(linked.names_at(place).values()) for place in linked.places],
    }
    whole = precision(float(EPSILON))
    return {
        name: sum(
            1 / float(item.variance)
            for item in release.measurements.items
            if item.marginal.clique and any(set(item.marginal.clique) <= each for each in sets)
        )
        / whole
        for name, sets in inside.items()
    }


def count_members(tables: Tables, *, case: Case) -> pd.DataFrame:
    """Return the table of units with the number of their members, at most `max_rows`, as a column."""
    linked = case.linked
    units, members = tables[linked.units], tables[linked.members]
    counts = members.groupby(linked.member_key).size().clip(upper=linked.max_rows)
    return units.assign(**{linked.count: units[linked.unit_key].map(counts).fillna(0).astype(int)})


def keep_members(tables: Tables, *, case: Case) -> Tables:
    """Return the tables with the first `max_rows` members of each unit: householder, partner, then as declared."""
    linked = case.linked
    people = tables[linked.members]
    role = people.get("relationship", pd.Series("", index=people.index))
    keys = {"_role": role.map({"householder": 0, "spouse": 1, "partner": 1}).fillna(2)}
    for number, (name, descending) in enumerate(linked.sort_keys):
        codes = bin_cells(people, [name], case=case)[name].astype(int).to_numpy()
        exact = pd.to_numeric(people[name], errors="coerce").fillna(-1).to_numpy() + codes / 1000
        keys[f"_{number}"] = pd.Series(-exact if descending else exact, index=people.index)
    ordered = people.assign(**keys).sort_values([linked.member_key, *keys], kind="stable")
    first = ordered.groupby(linked.member_key).cumcount() < linked.max_rows
    return {**tables, linked.members: ordered[first].drop(columns=list(keys)).reset_index(drop=True)}


def run_alone(case: Case, table: str, *, epsilon: str, seed: int, folder: Path) -> pd.DataFrame:
    """Return the synthetic rows of one table alone, with the same unit."""
    linked = case.linked
    unit_columns = [*case.unit_columns, linked.count]
    if table == linked.units:
        columns = {name: case.schema.columns[name] for name in unit_columns}
        unit = PrivacyUnit(name=linked.units, id=linked.unit_key)
        rows, others = count_members(case.tables, case=case), list(linked.columns)
    else:
        columns = dict(linked.columns)
        unit = PrivacyUnit(name=linked.units, id=linked.member_key, rows=linked.max_rows)
        rows, others = case.tables[table], unit_columns
    zeros = tuple(
        zero
        for zero in linked.zeros
        if not set(others)
        & {name.partition(".")[0] for name in condition_columns(parse_condition(zero.when))}
        and not any("." in name for name in condition_columns(parse_condition(zero.when)))
    )
    schema = pp.Schema(columns=columns, unit=unit, dataset="alone", zeros=zeros)
    ledger = folder / f"alone-{table}-{seed}-{time.monotonic_ns()}.db"
    release = pp.synthesize(rows, schema=schema, epsilon=epsilon, delta=DELTA, seed=seed, ledger=ledger)
    return bin_cells(release.table, list(columns), case=case)


def show(label: str, values: Sequence[float], *, beside: Sequence[float] = (), what: str = "alone") -> None:
    text = f"  {label:<44} {statistics.fmean(values):.4f}  ({min(values):.4f} to {max(values):.4f})"
    if beside:
        ratio = statistics.fmean(values) / statistics.fmean(beside)
        text += f"   {what} {statistics.fmean(beside):.4f}   ratio {ratio:.2f}"
    print(text, flush=True)


def compare(case: Case, *, seeds: int, folder: Path) -> list[pp.Release]:
    """Print the errors of one case, and return the linked releases."""
    linked = case.linked
    real = {
        linked.units: bin_cells(
            count_members(case.tables, case=case), [*case.unit_columns, linked.count], case=case
        ),
        linked.members: bin_cells(case.tables[linked.members], list(linked.columns), case=case),
    }
    joined = join(case.tables, case=case)
    kept_tables = keep_members(case.tables, case=case)
    kept, members = join(kept_tables, case=case), list(linked.columns)
    kept_rows = bin_cells(kept_tables[linked.members], members, case=case)
    pairs = list(itertools.product(case.unit_columns, linked.columns))
    found: dict[str, list[float]] = {}
    releases = []
    for seed in range(seeds):
        start = time.process_time()
        release = pp.synthesize(
            case.tables,
            schema=case.schema,
            epsilon=EPSILON,
            delta=DELTA,
            seed=seed,
            ledger=folder / f"l{case.name}{seed}.db",
        )
        seconds = time.process_time() - start
        synthetic = release.table
        shares = find_shares(release, case=case)
        for table, rows in real.items():
            names = list(rows.columns)
            rows_drawn = count_members(synthetic, case=case) if table == linked.units else synthetic[table]
            drawn = bin_cells(rows_drawn, names, case=case)
            found.setdefault(f"{table} pairs", []).append(mean_pairs(rows, drawn, names))
            found.setdefault(f"{table} share", []).append(shares[table])
            alone = run_alone(case, table, epsilon=epsilon_of(shares[table]), seed=seed, folder=folder)
            found.setdefault(f"{table} alone", []).append(mean_pairs(rows, alone, names))
            if table == linked.members:
                found.setdefault("kept", []).append(mean_pairs(kept_rows, drawn, names))
                found.setdefault("kept alone", []).append(mean_pairs(kept_rows, alone, names))
            half = run_alone(case, table, epsilon=epsilon_of(0.5), seed=seed, folder=folder)
            found.setdefault(f"{table} half", []).append(mean_pairs(rows, half, names))
        both = join(synthetic, case=case)
        for label, truth in (("across", joined), ("across kept", kept)):
            found.setdefault(label, []).append(
                statistics.fmean(distance(truth, both, pair) for pair in pairs)
            )
        for columns in case.across:
            found.setdefault(" × ".join(columns), []).append(distance(joined, both, columns))
        found.setdefault("seconds", []).append(seconds)
        releases.append(release)
    print(
        f"\n{case.name}: epsilon {EPSILON}, {seeds} seeds, {statistics.fmean(found['seconds']):.0f} CPU s a run"
    )
    for table in real:
        share = statistics.fmean(found[f"{table} share"])
        show(
            f"pairs inside {table} ({share:.0%} of the budget)",
            found[f"{table} pairs"],
            beside=found[f"{table} alone"],
            what="alone with that share",
        )
        show(f"  {table} alone with half the budget", found[f"{table} half"])
    free = statistics.fmean(distance_from_independence(joined, pair, own=case.unit_columns) for pair in pairs)
    show("all pairs across", found["across"], beside=[free], what="independent")
    for columns in case.across:
        free = distance_from_independence(joined, columns, own=case.unit_columns)
        show(" × ".join(columns), found[" × ".join(columns)], beside=[free], what="independent")
    left_out = 1 - len(kept) / len(joined)
    print(
        f"  max_rows = {linked.max_rows} leaves out {left_out:.1%} of {linked.members}s, which alone makes:"
    )
    show(f"pairs inside {linked.members}", [mean_pairs(real[linked.members], kept_rows, members)])
    lost = statistics.fmean(distance(joined, kept, pair) for pair in pairs)
    free = statistics.fmean(distance_from_independence(joined, pair, own=case.unit_columns) for pair in pairs)
    show("all pairs across", [lost], beside=[free], what="independent")
    print("  beside those that it keeps:")
    show(
        f"pairs inside {linked.members}",
        found["kept"],
        beside=found["kept alone"],
        what="alone with that share",
    )
    free = statistics.fmean(distance_from_independence(kept, pair, own=case.unit_columns) for pair in pairs)
    show("all pairs across", found["across kept"], beside=[free], what="independent")
    return releases


def list_families(tables: Tables, *, case: Case) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the ages of couples, and of householders and children."""
    people = tables[case.linked.members]
    key = case.linked.member_key
    ages = people[[key, "relationship", "age"]]
    heads = ages[ages.relationship == "householder"].rename(columns={"age": "head"})[[key, "head"]]
    mates = ages[ages.relationship.isin(["spouse", "partner"])].merge(heads, on=key)
    return mates, ages[ages.relationship == "child"].merge(heads, on=key)


def compare_families(case: Case, releases: Sequence[pp.Release]) -> None:
    """Print how near the ages of couples, and of parents and children, come to the real ones."""
    edges = [0, 3, 6, 10, 15, 18, *range(20, 95, 5), 200]
    decades = [0, 10, 20, 30, 40, 50, 60, 70, 80, 200]

    def cut(frame: pd.DataFrame, bins: Sequence[int]) -> pd.DataFrame:
        return pd.DataFrame({n: np.digitize(frame[n].astype(int), bins) for n in ("head", "age")})

    def gaps(frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"gap": (frame["head"].astype(int) - frame.age.astype(int)) // 5})

    real = list_families(case.tables, case=case)
    views: dict[str, tuple[int, Callable[[pd.DataFrame], pd.DataFrame]]] = {
        "ages of couples, the schema's bins": (0, lambda each: cut(each, edges)),
        "ages of couples, in tens": (0, lambda each: cut(each, decades)),
        "gap between partners, in fives": (0, gaps),
        "ages of parent and child, in tens": (1, lambda each: cut(each, decades)),
        "gap between parent and child, in fives": (1, gaps),
    }
    synthetic = [list_families(release.table, case=case) for release in releases]
    rng = np.random.default_rng(0)
    for label, (which, view) in views.items():
        mixed = real[which].assign(age=rng.permutation(real[which].age.to_numpy()))
        columns = list(view(real[which]).columns)
        free = distance(view(real[which]), view(mixed), columns)
        found = [distance(view(real[which]), view(each[which]), columns) for each in synthetic]
        show(label, found, beside=[free], what="independent")


def count_violations(case: Case, release: pp.Release, *, persons: int) -> None:
    """Draw so many persons from one model and count what breaks a rule, with code of its own."""
    each = release.table[case.linked.members].shape[0] / release.table[case.linked.units].shape[0]
    drawn = pp.generate(release.model, rows=round(1.02 * persons / each), seed=99).table
    frames = {
        name: pd.DataFrame(table) if isinstance(table, pd.DataFrame) else table.to_pandas()
        for name, table in drawn.items()
    }
    homes, people = frames[case.linked.units], frames[case.linked.members]
    key = case.linked.member_key
    age, related = people.age.astype(int), people.relationship
    head = people[related == "householder"].set_index(key)
    first = ~people[key].duplicated()
    oldest = people[key].map(head.age.astype(int))
    found = {
        "not exactly one householder": int(
            (
                people[related == "householder"].groupby(key).size().reindex(homes[key], fill_value=0) != 1
            ).sum()
        ),
        "householder not first": int((first != (related == "householder")).sum()),
        "householder or partner under 18": int(
            (related.isin(["householder", "spouse", "partner"]) & (age < 18)).sum()
        ),
        "two partners": int((related.isin(["spouse", "partner"]).groupby(people[key]).sum() > 1).sum()),
        "spouse not married": int(((related == "spouse") & (people.marital_status != "married")).sum()),
        "child not younger than the householder": int(((related == "child") & (age >= oldest)).sum()),
        "outside a universe": int(
            ((age < 15) != (people.marital_status == "N")).sum() + ((age < 15) != (people.work == "N")).sum()
        ),
        "size is not the number of persons": int(
            (
                homes.household_size.astype(int).to_numpy()
                != people.groupby(key).size().reindex(homes[key], fill_value=0).to_numpy()
            ).sum()
        ),
        "person without a household": int((~people[key].isin(homes[key])).sum()),
    }
    print(
        f"  {len(people):,} persons in {len(homes):,} households: {sum(found.values())} violations, {len(found)} rules"
    )
    for rule, count in found.items():
        if count:
            print(f"    {rule}: {count}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--survey", type=Path, default=SURVEY)
    parser.add_argument("--persons", type=int, default=10**6)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        if given.survey.is_dir():
            compare(survey_case(given.survey), seeds=given.seeds, folder=Path(made))
        for case in (sample_case(), varied_case()):
            releases = compare(case, seeds=given.seeds, folder=Path(made))
            compare_families(case, releases)
            # One case of so many persons is enough: the rules of the other are the same.
            few = 1 if case.name == "simulated population" else 10
            count_violations(case, releases[0], persons=given.persons // few)


if __name__ == "__main__":
    main()
