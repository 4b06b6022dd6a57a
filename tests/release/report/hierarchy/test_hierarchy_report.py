"""The report of a hierarchical release: its numbers by hand, what it cannot know, its size and its charts."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import vl_convert

import populace as pp
from populace.core.marginals import Marginal
from populace.measurements.measurements import Measurement, Measurements
from populace.release.bundle import Release
from populace.release.hierarchy.released_hierarchy import ReleasedHierarchy
from populace.release.report import render
from populace.release.report.hierarchy.bias_charts import asymmetry_chart
from populace.release.report.hierarchy.hierarchy_document import HierarchyDocument, LevelBias
from populace.release.report.hierarchy.hierarchy_report import (
    MAX_POINTS,
    MAX_RANKED,
    MAX_SAMPLED,
    build_hierarchy_report,
)
from populace.release.report.hierarchy.nonnegativity_bias import TRUE_CLASS_ENDS, classify_bias
from populace.release.report.hierarchy.published_hierarchy import PublishedHierarchy
from populace.release.report.hierarchy.render_hierarchy import chart_specs, render_hierarchy_report
from populace.release.report.render import embed_json, to_plain
from populace.schema.schema import Schema

COLUMNS = """
[columns.race]
kind = "categorical"
values = ["a", "b", "c"]
other = "c"
[columns.sex]
kind = "categorical"
values = ["f", "m"]
other = "f"
"""


def make_schema(paths: list[str], *, levels: list[str], more: str = "") -> Schema:
    units = json.dumps(paths)
    table = '[table]\ndataset = "tiny"\nunit = "person"\n'
    return Schema.parse(
        f"{table}[geography]\nlevels = {json.dumps(levels)}\nunits = {units}\n{COLUMNS}{more}"
    )


def make_release(
    schema: Schema, folder: Path, *, epsilon: str = "2", delta: str = "1e-9", people: int = 600
) -> Release:
    rng = np.random.default_rng(5)
    geography = schema.geography
    assert geography is not None
    paths = geography.paths()
    chosen = np.sort(rng.integers(0, len(paths), people)) // 2
    table = pa.table(
        {
            **{
                level: [paths[unit][place] for unit in chosen] for place, level in enumerate(geography.levels)
            },
            "race": rng.choice(["a", "b"], people, p=[0.9, 0.1]),
            "sex": rng.choice(["f", "m"], people),
        }
    )
    return pp.synthesize(
        table, schema=schema, epsilon=epsilon, delta=delta, method="topdown", ledger=folder / "ledger.db"
    )


@pytest.fixture(scope="module")
def schema() -> Schema:
    paths = [f"{county}|{tract}" for county, tracts in (("A", 4), ("B", 1)) for tract in range(1, 1 + tracts)]
    return make_schema(paths, levels=["county", "tract"])


@pytest.fixture(scope="module")
def release(schema: Schema, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return make_release(schema, tmp_path_factory.mktemp("hierarchy"))


@pytest.fixture(scope="module")
def document(release: Release) -> HierarchyDocument:
    return describe(release)


def describe(release: Release) -> HierarchyDocument:
    return build_hierarchy_report(release.statement, measurements=release.measurements, model=release.model)


@pytest.fixture
def no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "load_scripts", lambda: "window.vegaEmbed = () => {};")


def least_squares(measurements: Measurements) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and covariance of the cells of all smallest units, by one dense regression."""
    schema = measurements.schema
    shape = schema.domain.shape(schema.domain)
    codes = dict(zip(schema.domain, np.indices(shape).reshape(len(shape), -1), strict=True))
    rows, values, weights = [], [], []
    for item in measurements.items:
        marginal = item.marginal
        sizes = marginal.shape(schema.domain)
        seen = [
            codes[name] if (found := marginal.grouping(name)) is None else np.array(found.groups)[codes[name]]
            for name in marginal.clique
        ]
        flat = np.ravel_multi_index(seen, sizes) if sizes else np.zeros(len(codes["race"]), dtype=int)
        rows.append(flat == np.arange(item.counts.size)[:, None])
        values.append(item.counts.ravel())
        weights.append(np.full(item.counts.size, 1 / float(item.variance)))
    design, weight = np.concatenate(rows).astype(float), np.concatenate(weights)
    covariance = np.linalg.inv(design.T @ (design * weight[:, None]))
    return covariance @ design.T @ (weight * np.concatenate(values)), covariance


def test_margins_are_those_of_one_regression(release: Release, document: HierarchyDocument) -> None:
    estimates, covariance = least_squares(release.measurements)
    units = [np.repeat(np.arange(5), 6) == unit for unit in range(5)]
    areas = {"all": [np.ones(30, bool)], "county": [np.any(units[:4], axis=0), units[4]], "tract": units}
    for level in document.levels:
        variances = [area @ covariance @ area for area in np.array(areas[level.name], dtype=float)]
        expected = 1.96 * np.sqrt(variances)
        assert level.units == len(expected)
        assert level.margin == pytest.approx(np.median(expected), rel=0.03)
        assert level.margin_high == pytest.approx(np.quantile(expected, 0.95), rel=0.03)
        errors = [point.error for point in document.errors if point.level == level.name]
        assert sorted(errors) == pytest.approx(sorted(np.sqrt(2 / np.pi * np.array(variances))))
    detailed = document.precision[-1]
    assert (detailed.level, detailed.name, detailed.counts) == ("tract", "race × sex", 30)
    margins = 1.96 * np.sqrt(np.diag(covariance))
    assert detailed.margin == pytest.approx(np.median(margins), rel=0.03)
    by_unit = {unit.unit: unit for unit in document.sample.shown}
    for name, unit in zip(("A 1", "A 2", "A 3", "A 4", "B 1"), units, strict=True):
        assert by_unit[name].unbiased == pytest.approx(estimates[unit].sum())


def test_published_numbers_are_those_of_the_rows(release: Release, document: HierarchyDocument) -> None:
    rows = release.synthetic
    counts = [f"{c} {t}" for c, t in zip(rows["county"].to_pylist(), rows["tract"].to_pylist(), strict=True)]
    assert document.people == rows.num_rows
    for unit in document.sample.shown:
        assert unit.published == counts.count(unit.unit)
    assert [ranked.level for ranked in document.ranked] == ["county"]
    published = [unit.published for unit in document.ranked[0].shown]
    assert published == sorted(published, reverse=True)
    assert sum(published) == document.people
    total = document.precision[8]
    assert (total.level, total.name) == ("tract", "total")
    known = [unit for unit in document.sample.shown if unit.published]
    assert total.relative == pytest.approx(np.median([unit.margin / unit.published for unit in known]))
    assert total.above_margin == np.mean([unit.published > unit.margin for unit in document.sample.shown])


def test_bias_by_hand(release: Release, document: HierarchyDocument) -> None:
    shown = PublishedHierarchy.of(release.measurements, model=release.model)
    estimates, _ = least_squares(release.measurements)
    difference = shown.tables[-1].ravel() - estimates
    level = document.bias[-1]
    assert level.level == "tract"
    for each in level.classes:
        low, high = (-np.inf if each.low is None else each.low), (np.inf if each.high is None else each.high)
        inside = difference[(estimates >= low) & (estimates < high)]
        assert each.counts == len(inside)
        assert each.mean == pytest.approx(inside.mean())
        up, down = (inside[inside > 0] ** 2).sum(), (inside[inside < 0] ** 2).sum()
        assert each.asymmetry == pytest.approx((up - down) / (up + down))
    assert sum(each.counts for each in level.classes) == 30


def test_shares_add_up_and_have_their_noise(release: Release, document: HierarchyDocument) -> None:
    assert sum(each.share for each in document.shares) == pytest.approx(1, abs=1e-6)
    assert len(document.shares) == len(document.stages) == 12
    assert [each.level for each in document.shares] == ["all"] * 4 + ["county"] * 4 + ["tract"] * 4
    for each, item in zip(document.shares, release.measurements.items, strict=True):
        assert each.deviation**2 == pytest.approx(float(item.variance))


def test_impossible_results_are_counted(
    release: Release, document: HierarchyDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [check.found for check in document.checks] == [0] * 5
    shown = PublishedHierarchy.of(release.measurements, model=release.model)
    wrong = [table.copy() for table in shown.tables]
    wrong[2][0, 0, 0] = -1
    wrong[0][0, 1, 1] += 1
    monkeypatch.setattr(ReleasedHierarchy, "published", tuple(wrong))
    found = describe(release)
    assert [check.found for check in found.checks[:2]] == [1, 2]
    assert "negative counts (1)" in found.summary[-1]
    assert "✕" in render_hierarchy_report(found)


def test_rules_and_invariants_are_told_and_checked(tmp_path: Path) -> None:
    zeros = "[[zeros]]\nwhen = \"race == 'c' and sex == 'm'\"\n"
    plain = make_schema(["A|1", "A|2", "B|1"], levels=["county", "tract"], more=zeros)
    release = make_release(plain, tmp_path)
    exact = Measurement(Marginal(()), np.array(600), Fraction(0))
    measured = replace(
        release.measurements,
        schema=replace(plain, invariants=("all",)),
        items=(exact, *release.measurements.items[1:]),
    )
    record = {**release.statement["record"], "spends": release.statement["record"]["spends"][1:]}
    stated = {**release.statement, "spends": release.statement["spends"][1:], "record": record}
    stated["neighbours"] = "replace-within-invariants"
    found = build_hierarchy_report(stated, measurements=measured, model=pp.fit(measured))  # type: ignore[arg-type]
    assert found.invariants == ("total of the whole table",)
    assert found.relation.startswith("one person replaced by another in the whole table")
    assert found.people == 600
    assert found.levels[0].has_exact_total
    assert found.levels[0].margin == 0
    assert all(point.level != "all" for point in found.errors)
    assert [(check.found, check.examined) for check in found.checks[2:4]] == [(0, 1), (0, 6)]
    page = render_hierarchy_report(found)
    assert "Published exactly (invariants): total of the whole table" in page
    assert describe(release).precision[-1].cells == 5


def test_the_report_knows_no_private_row(
    release: Release, document: HierarchyDocument, tmp_path: Path
) -> None:
    """Measurements and model from a folder, without the data and in another process's form, say all of it."""
    release.measurements.save(tmp_path / "measured")
    release.model.save(tmp_path / "model")
    again = build_hierarchy_report(
        release.statement,
        measurements=Measurements.load(tmp_path / "measured"),
        model=pp.Model.load(tmp_path / "model"),
    )
    assert embed_json(to_plain(again)) == embed_json(to_plain(document))
    given = set(inspect.signature(build_hierarchy_report).parameters)
    assert given == {"statement", "measurements", "model", "members"}


@pytest.mark.usefixtures("no_script")
def test_a_page_of_many_units_stays_small(tmp_path: Path) -> None:
    paths = [f"{county:02d}|{tract:03d}" for county in range(60) for tract in range(60)]
    release = make_release(make_schema(paths, levels=["county", "tract"]), tmp_path, people=3000)
    found = describe(release)
    assert len(found.errors) <= 3 * MAX_POINTS
    assert len(found.sample.shown) == MAX_SAMPLED
    assert len(found.ranked[0].shown) == 2 * MAX_RANKED
    assert [found.sample.shown[0].rank, found.sample.shown[-1].rank] == [1, 3600]
    specs = chart_specs(found)
    assert sum(len(spec["data"]["values"]) for spec in specs.values()) < 3000
    assert len(render_hierarchy_report(found)) < 1_000_000
    assert "… 20 more" in embed_json(specs["ranked-1"])


@pytest.mark.slow
def test_every_chart_has_title_description_and_units(document: HierarchyDocument) -> None:
    specs = chart_specs(document)
    classes = classify_bias(np.array([1.0, -1.0]), by=np.array([0.0, 10.0]), ends=TRUE_CLASS_ENDS)
    assert [(each.label, each.mean, each.asymmetry) for each in classes] == [
        ("0", 1, 1),
        ("10 to 20", -1, -1),
    ]
    spec = asymmetry_chart([LevelBias(level="tract", classes=classes)], of="true")
    drawn = {
        "precision",
        "user",
        "producer",
        "bias",
        "asymmetry",
        "simulated",
        "budget",
        "errors",
        "ranked-1",
    }
    assert set(specs) == drawn
    for each in (*specs.values(), spec):
        assert each["title"]["text"]
        assert any(unit in each["description"] for unit in ("in people", "without unit"))
        for width in (300, 900):
            assert "<path" in vl_convert.vegalite_to_svg({**each, "width": width})


def test_pure_privacy_has_wider_margins_than_normal_errors(schema: Schema, tmp_path: Path) -> None:
    """Of one Laplace count, 1.96 standard deviations hold less than 95 %."""
    release = make_release(schema, tmp_path, delta="0")
    shown = PublishedHierarchy.of(release.measurements, model=release.model)
    assert shown.laplace
    deviation = np.sqrt(shown.variance(("race", "sex"), level=2))
    assert (shown.margin(("race", "sex"), level=2) > 1.96 * deviation).all()


@pytest.mark.usefixtures("no_script")
def test_a_release_with_a_geography_has_this_report(release: Release) -> None:
    page = release.report()
    assert "Report of a hierarchical release" in page
    assert "“" not in page.split("<h1>")[1].split("</h1>")[0]


@pytest.mark.usefixtures("no_script")
def test_one_level_and_nobody(tmp_path: Path) -> None:
    """A geography of one level has the root above it; an empty table has no published count above 0."""
    release = make_release(make_schema(["A", "B"], levels=["county"]), tmp_path, people=1, epsilon="20")
    empty = replace(release.model, potentials={}, exact=(), total=1e-9)
    found = build_hierarchy_report(release.statement, measurements=release.measurements, model=empty)
    assert found.people == 0
    assert [ranked.level for ranked in found.ranked] == ["county"]
    assert all(each.relative is None for each in found.precision)
    assert "95 % margin of the whole total" in render_hierarchy_report(found)
