"""Plans of hierarchical releases: what they foretell is what the release states, and what makes no sense is refused."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import populace as pp
from populace.core.errors import UsageError
from populace.inference.hierarchy.measured_hierarchy import MeasuredHierarchy
from populace.methods.topdown.level_budget import read_level_budget
from populace.methods.workload import Workload
from populace.planning.level_plan import GeographyPlan, LevelVerdict, describe_level
from populace.planning.level_plan_page import render_level_plan
from populace.planning.level_plan_text import format_level_plan
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.schema.schema import Schema
from populace.schema.toml_table import TomlTable
from populace.simulation.linked_population import simulate_households_by_area
from tests.helpers.sampled_cases import sample_cases
from tests.helpers.small_geography import COLUMNS, geography_schema, invent_persons

INVARIANT = '[[invariants]]\nby = ["county"]\n'
ZEROS = "[[zeros]]\nwhen = \"sex == 'm' and age >= 60\"\n"
BUDGET = """
[levels]
all = 1
county = 3
tract = 6
[[queries]]
columns = []
share = 2
[[queries]]
columns = ["sex", "age"]
share = 5
[[queries]]
columns = ["age"]
share = 1
coarse = { age = ["0..59", "60.."] }
"""


def plan_of(schema: Schema, **more: Any) -> GeographyPlan:
    found = pp.plan(schema, population=400, **({"epsilon": 2, "delta": "1e-9"} | more))
    assert isinstance(found, GeographyPlan)
    return found


def workload_of(text: str, schema: Schema) -> Workload:
    import tomllib

    return Workload(weights={}, levels=read_level_budget(TomlTable("", tomllib.loads(text)), schema=schema))


@pytest.mark.parametrize("delta", ["1e-9", "0"])
@pytest.mark.parametrize("more", sample_cases(["", INVARIANT, ZEROS, INVARIANT + ZEROS], to=2))
def test_planned_variances_are_those_of_the_release(more: str, delta: str, tmp_path: Path) -> None:
    schema = Schema.parse(COLUMNS + more)
    asked: dict[str, Any] = {"epsilon": 2, "delta": delta}
    measured = pp.measure(invent_persons(), schema=schema, dataset="land", ledger=tmp_path / "l.db", **asked)
    release = pp.generate(pp.fit(measured))
    stated = ReleasedHierarchy.of(measured, release.model)
    found = plan_of(schema, **asked)
    noise = [item.variance for item in measured.items if item.variance]
    assert [each.noise.variance for each in found.questions] == noise
    assert math.isclose(sum(float(each.share) for each in found.questions), 1)
    for level in range(found.spine.depth):
        for clique in ((), ("sex",), ("sex", "age")):
            planned = found.variance(clique, level=level)
            assert np.array_equal(planned, stated.estimates.variance(clique, level=level)), (level, clique)


def test_a_budget_file_is_followed(tmp_path: Path) -> None:
    schema = geography_schema()
    found = plan_of(schema, workload=workload_of(BUDGET, schema))
    assert [round(level.share, 6) for level in found.levels] == [0.1, 0.3, 0.6]
    # A coarse query is asked, and has no margin of its own.
    assert [table.name for table in found.levels[0].tables] == ["total", "sex", "age", "sex × age"]
    assert found.levels[0].tables[2].noise is None


def test_margins_shrink_with_epsilon_and_averages_follow_the_population() -> None:
    schema = geography_schema()
    weak, strong = plan_of(schema, epsilon=1), plan_of(schema, epsilon=4)
    for level, better in zip(weak.levels, strong.levels, strict=True):
        assert better.total.margin < level.total.margin
        assert level.total.average == 400 / level.units


def test_a_target_finds_the_least_epsilon() -> None:
    schema = geography_schema()
    found = plan_of(schema, epsilon=None, target_error=0.25)
    assert found.epsilon == found.epsilon_for_target
    assert 0.9 * 0.25 < found.levels[-1].total.relative <= 0.25


def refused() -> Iterator[tuple[dict[str, Any], str, str]]:
    yield {"shares": {"sex": {"f": 0.5}}}, "", "neither shares of values nor a public table"
    yield {"like": invent_persons()}, "", "neither shares of values nor a public table"
    yield {"epsilon": None}, "", "neither epsilon nor a target error"
    yield {"target_error": 0.1}, '[[invariants]]\nby = ["tract"]\n', "known exactly"
    yield {"epsilon": None, "target_error": 1e-9}, "", "no epsilon up to 100"


@pytest.mark.parametrize(("more", "text", "message"), list(refused()))
def test_what_makes_no_sense_is_refused(more: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        plan_of(Schema.parse(COLUMNS + text), **more)


@pytest.mark.slow
def test_text_page_and_json_say_the_same() -> None:
    found = plan_of(Schema.parse(COLUMNS + INVARIANT))
    document = found.to_json()
    assert [level["level"] for level in document["levels"]] == ["all", "county", "tract"]
    assert document["levels"][1]["verdict"] == LevelVerdict.EXACT.value
    assert document["spent"] == 0
    assert set(document["megabytes"]) == set(found.file_sizes)
    lines, page = "\n".join(format_level_plan(found)), render_level_plan(found)
    for level in found.levels:
        sentence = describe_level(level, found)
        assert sentence in lines
        assert sentence in page
    assert "tract totals: ±" in repr(found)
    assert "margin of totals" in found._repr_html_()


@pytest.mark.slow
def test_the_plan_of_linked_tables_states_the_margins_of_both_as_the_release_does(tmp_path: Path) -> None:
    tables, schema = simulate_households_by_area(households=60)
    plan = plan_of(schema)
    release = pp.synthesize(
        tables, schema=schema, epsilon=2, delta="1e-9", method="topdown", seed=0, ledger=tmp_path / "l.db"
    )
    items = release.measurements.items
    for members, measured in (
        (False, MeasuredHierarchy.of(schema, items)),
        (True, MeasuredHierarchy.of_members(schema, items)),
    ):
        for level, clique in itertools.product(range(4), measured.plan.list_tables()):
            stated = measured.estimates.variance(clique, level=level)
            assert np.array_equal(plan.variance(clique, level=level, members=members), stated)
    text = "\n".join(format_level_plan(plan))
    assert "household: total" in text
    assert "person: total" in text
    assert "in households and persons" in text
    assert "total of the whole table: known exactly" in text
    assert "all totals" not in text
    assert "2.5 to be in each household" in text
    assert "person: total" in render_level_plan(plan)
    assert {table["table"] for level in plan.to_json()["levels"] for table in level["queries"]} == {
        "household",
        "person",
    }
