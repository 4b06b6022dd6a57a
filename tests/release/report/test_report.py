"""The report shows the right numbers, in one file that needs nothing else, whatever the names in it."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import vl_convert
from hypothesis import given
from hypothesis import strategies as st

from populace.core.marginals import Domain, Marginal, tabulate
from populace.core.number_format import format_percent_bound
from populace.inference.gls.count_intervals import CountIntervals, intervals
from populace.inference.gls.interval_half_width import interval_half_width
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import Measurement, Measurements
from populace.release.bundle import Release
from populace.release.report import charts, render
from populace.release.report.bars import (
    MAX_BARS,
    Bar,
    group_largest_codes,
    group_ordered_codes,
    label_bins,
    make_bars,
)
from populace.release.report.comparison import (
    GAUSSIAN,
    LAPLACE,
    CodeColumns,
    Comparison,
    NoiseShape,
    Quality,
    compare_marginal,
)
from populace.release.report.dependence_tree import list_tree
from populace.release.report.render import to_plain
from populace.release.report.report_data import ReportDocument, _summarize, build_report
from populace.release.statement.cost import BudgetStage
from populace.release.statement.statement import Statement
from populace.release.table_files import encode_table
from populace.schema.columns.numeric_columns import DecimalColumn, IntegerColumn
from populace.schema.conditions.rules import Totals
from populace.schema.schema import Schema
from tests.helpers import releases


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    table, schema = releases.small_sample()
    return releases.make(
        releases.measure(table, schema, ledger=tmp_path_factory.mktemp("l") / "ledger.db", epsilon="3")
    )


@pytest.fixture(scope="module")
def document(release: Release) -> ReportDocument:
    return documented(release)


def documented(release: Release) -> ReportDocument:
    codes = encode_table(release.synthetic, schema=release.measurements.schema)
    return build(release.statement, release.measurements, codes)


def build(statement: Statement, measurements: Measurements, codes: CodeColumns) -> ReportDocument:
    return build_report(statement, measurements=measurements, intervals=intervals(measurements), codes=codes)


@pytest.fixture
def no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Putting the scripts together takes a second; most tests do not need them."""
    monkeypatch.setattr(render, "load_scripts", lambda: "window.vegaEmbed = () => {};")


# --------------------------------------------------------------------------------- numbers


def test_distances_by_hand() -> None:
    item = Measurement(Marginal(("a",)), np.array([60, 40]), Fraction(1))
    found = compare_marginal(item, synthetic=np.array([5, 5]), total=100.0, shape=GAUSSIAN)
    assert found.distance == pytest.approx(0.1)
    assert found.noise_alone == pytest.approx(0.5 * 2 * (2 / np.pi) ** 0.5 / 100)
    assert found.error_bound == pytest.approx(found.distance + found.noise_alone)


@pytest.mark.parametrize(("shape", "name"), [(GAUSSIAN, "normal"), (LAPLACE, "laplace")])
def test_noise_alone_is_what_noise_alone_gives(shape: NoiseShape, name: str) -> None:
    """The synthetic rows are the real ones: distances average to `noise_alone`.

    Seed 1; with 400 tables of 50 cells the bands are at least five standard errors wide.
    """
    rng = np.random.default_rng(1)
    deviation, truth = 20.0, np.full(50, 200)
    scale = deviation if name == "normal" else deviation / 2**0.5
    noise = np.rint(getattr(rng, name)(0, scale, (400, 50))).astype(np.int64)
    found = [
        compare_marginal(
            Measurement(Marginal(("a",)), truth + drawn, Fraction(400)),
            synthetic=truth,
            total=10_000.0,
            shape=shape,
        )
        for drawn in noise
    ]
    assert np.mean([c.distance for c in found]) == pytest.approx(found[0].noise_alone, rel=0.02)
    assert not any(c.beyond_noise for c in found)


def test_what_noise_cannot_explain_is_told() -> None:
    item = Measurement(Marginal(("a",)), np.array([600, 400]), Fraction(100))
    far = compare_marginal(item, synthetic=np.array([400, 600]), total=1000.0, shape=GAUSSIAN)
    near = compare_marginal(item, synthetic=np.array([590, 410]), total=1000.0, shape=GAUSSIAN)
    few = compare_marginal(item, synthetic=np.array([2, 2]), total=1000.0, shape=GAUSSIAN)
    loud = replace(item, variance=Fraction(10**6))
    lost = compare_marginal(loud, synthetic=np.array([590, 410]), total=1000.0, shape=GAUSSIAN)
    assert [c.beyond_noise for c in (far, near, few, lost)] == [True, False, False, False]
    assert [c.quality for c in (far, near, few, lost)] == [
        Quality.ROUGH,
        Quality.CLOSE,
        Quality.ROUGH,
        Quality.LOST,
    ]


@pytest.mark.parametrize(
    ("truth", "beyond", "reading"),
    [
        (0.09, False, Quality.CLOSE),
        (0.11, True, Quality.ROUGH),
        (0.24, False, Quality.ROUGH),
        (0.26, False, Quality.WEAK),
        (0.49, True, Quality.WEAK),
        (0.51, False, Quality.LOST),
        (0.51, True, Quality.FAR),
    ],
)
def test_the_reading_follows_how_far_the_truth_may_be(truth: float, beyond: bool, reading: Quality) -> None:
    for noise in (0.0, truth / 2, truth):
        found = Comparison(distance=truth - noise, noise_alone=noise, beyond_noise=beyond)
        assert found.quality is reading


# --------------------------------------------------------------------------------- bars and trees


@given(st.integers(1, 400), st.integers(0, 5), st.integers(0, 10**6))
def test_every_code_is_in_exactly_one_bar(values: int, special: int, seed: int) -> None:
    ends = [(str(code), str(code)) for code in range(values + special)]
    counts = np.random.default_rng(seed).integers(-50, 50, len(ends))
    for slots in (
        group_ordered_codes(ends, values=values),
        group_largest_codes(ends, values=values, counts=counts),
    ):
        assert sorted(code for slot in slots for code in slot.codes) == list(range(len(ends)))
        assert len(slots) <= MAX_BARS
        assert len({slot.label for slot in slots}) == len(slots)
        assert [slot.codes for slot in slots if slot.special] == [(values + code,) for code in range(special)]


def test_bars_add_codes_and_their_intervals() -> None:
    """Without a second source for the total, five codes of variance 4 have an interval of variance 20."""
    items = [Measurement(Marginal(("a",)), np.arange(100), Fraction(4))]
    found = CountIntervals(items, space=ModelSpace(domain=Domain({"a": 100})))
    slots = group_ordered_codes([(str(code), str(code)) for code in range(100)], values=100)
    shown = make_bars(found, "a", slots=slots, synthetic=np.arange(100), total=4950.0)
    assert sum(bar.measured for bar in shown) == pytest.approx(1)
    assert [bar.measured for bar in shown] == pytest.approx([bar.synthetic for bar in shown])
    assert shown[0].label == "0–4"
    assert shown[0].margin == pytest.approx(float(interval_half_width(np.array(20.0), noise=4.0)) / 4950)


def test_bins_of_whole_and_other_numbers_are_named_alike() -> None:
    edges = (0, 2_500, 60_000, 100_000)
    whole = IntegerColumn(name="a", min=0, max=100_000, starts=edges[:-1])
    other = DecimalColumn(name="a", edges=tuple(Fraction(edge) for edge in edges))
    names = [slot.label for slot in group_ordered_codes(label_bins(whole), values=3)]
    assert names == ["0–2.5k", "2.5k–60k", "60k–100k", "(empty)"]
    assert names == [slot.label for slot in group_ordered_codes(label_bins(other), values=3)]
    fine = DecimalColumn(name="a", edges=tuple(Fraction(edge, 2) for edge in range(101)))
    assert [slot.label for slot in group_ordered_codes(label_bins(fine), values=100)][:2] == [
        "0–2.5",
        "2.5–5",
    ]


@given(st.integers(1, 24), st.integers(0, 5))
def test_special_bars_always_have_their_label(plain: int, special: int) -> None:
    shown = [
        Bar(label=str(place), special=place >= plain, measured=0.1, margin=0.1, synthetic=0.1)
        for place in range(plain + special)
    ]
    found = charts.choose_labels(shown)
    assert found == sorted(found)
    assert set(range(plain, plain + special)) <= set(found)
    assert len(found) <= charts.MAX_LABELS
    assert len(found) == len(shown) or len(shown) > charts.MAX_LABELS
    assert 0 in found


def test_trees_hang_from_their_middle() -> None:
    path = [(str(number), str(number + 1), 0.5) for number in range(100)]
    found = list_tree(path)
    assert len(found) == 101
    assert found[0].column == "50"
    assert max(branch.depth for branch in found) == 50
    assert list_tree([("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0)]) == ()
    two = list_tree([("a", "b", 1.0), ("c", "d", 1.0)])
    assert [branch.depth for branch in two] == [0, 1, 0, 1]


# --------------------------------------------------------------------------------- document


def test_the_document_covers_everything_worst_first(document: ReportDocument, release: Release) -> None:
    assert {column.name for column in document.columns} == set(releases.FEW)
    assert len(document.pairs) == 4
    assert document.unmeasured == ()
    for found in (document.columns, document.pairs):
        distances = [part.comparison.error_bound for part in found]
        assert distances == sorted(distances, reverse=True)
    assert document.rows == release.synthetic.num_rows
    assert [stage.label for stage in document.stages][1::2] == ["measure 5 columns", "measure 4 pairs"]
    assert len(document.tree) == 5
    assert document.alone == ()


def test_the_report_tells_how_sure_the_counts_are(
    document: ReportDocument, release: Release, no_script: None
) -> None:
    found = intervals(release.measurements)
    assert [len(sure.columns) for sure in document.precision] == [0, *[1] * 5, *[2] * 4]
    assert document.estimated_total == float(found.of().estimate)
    for sure in document.precision:
        interval = found.of(*sure.columns)
        assert sure.margin == pytest.approx(float(np.median(interval.half_width)))
        assert (sure.cells, sure.share) == (interval.estimate.size, sure.margin / document.estimated_total)
    pairs = [sure.margin for sure in document.precision if len(sure.columns) == 2]
    assert pairs == sorted(pairs, reverse=True)
    page = render.render_report(document)
    assert f"± {math.ceil(document.precision[0].margin)}</strong> (95 % margin of error)." in page
    assert f"4 pairs: ± {math.ceil(pairs[-1])} to {math.ceil(pairs[0])} rows" in page
    column = next(column for column in document.columns if column.name == "sex")
    assert column.bars[0].margin == pytest.approx(found.of("sex").half_width[0] / document.estimated_total)


def test_public_rows_are_told_as_such(release: Release, no_script: None) -> None:
    measured = release.measurements
    counts = np.array(release.synthetic.num_rows)
    known = replace(measured.schema, totals=(Totals(clique=(), counts=counts),))
    found = documented(replace(release, measurements=replace(measured, schema=known)))
    assert found.precision[0].margin == 0
    assert found.estimated_total == int(counts)
    assert "The number of rows is public." in render.render_report(found)


def test_the_summary_leads_with_the_worst(document: ReportDocument) -> None:
    column, pair = document.columns[0], document.pairs[0]
    assert document.summary[0].startswith(f"Worst column, {column.name}: estimated error at most ")
    assert format_percent_bound(column.comparison.error_bound) in document.summary[0]
    assert document.summary[1].startswith(f"Worst pair, {' × '.join(pair.columns)}: ")
    for line, expected in zip(document.summary[2:], (5, 4), strict=True):
        whole, *parts = (int(number) for number in re.findall(r"\d+", line))
        assert whole == sum(parts) == expected


def again(release: Release, *, kept: int) -> Release:
    """Return a release as if no pair had been chosen, and the columns measured a second time."""
    measured = release.measurements
    items = (*measured.items[:6], *measured.items[1 : 1 + kept])
    return replace(release, measurements=replace(measured, items=items))


def test_repeated_measurements_are_told_and_combined(release: Release, no_script: None) -> None:
    found = documented(again(release, kept=4))
    assert [stage.label for stage in found.stages][-1] == "measure 4 columns again"
    once = {each.columns: each.deviation for each in documented(release).precision}
    twice = {each.columns: each.deviation for each in found.precision}
    for number, name in enumerate(releases.FEW):
        before, now = once[name,], twice[name,]
        assert before is not None
        assert now == pytest.approx(before / 2**0.5 if number < 4 else before)
    assert found.alone == releases.FEW
    assert found.summary[-1].startswith("No pair was measured")
    assert "No pair was measured" in render.render_report(found)


def test_the_worst_is_that_of_the_largest_number_shown(release: Release) -> None:
    first, second = documented(release).columns[:2]
    bound = replace(
        first, comparison=Comparison(distance=0.4, noise_alone=0.2, beyond_noise=False, likely=0.1)
    )
    likely = replace(
        second, comparison=Comparison(distance=0.3, noise_alone=0.2, beyond_noise=False, likely=0.2)
    )
    (line,) = (
        line for line in _summarize([bound, likely], [], alone=(), tied=False) if line.startswith("Worst")
    )
    assert line.startswith(f"Worst column, {second.name}: bootstrap estimate of its error 20")


def test_columns_in_no_pair_are_named(release: Release, no_script: None) -> None:
    measured = release.measurements
    fewer = replace(release, measurements=replace(measured, items=measured.items[:-1]))
    found = documented(fewer)
    assert found.alone == ("income",)
    assert "In no measured pair: income." in render.render_report(found)
    assert "independent of all others" not in render.render_report(documented(release))


def test_stages_of_one_name_have_places_of_their_own() -> None:
    stage = BudgetStage(label="measure 6 columns", noise="± 5 rows", mechanism="noise", share=0.5)
    rows = charts.budget_chart([stage, stage])["data"]["values"]
    assert [row["place"] for row in rows] == [0, 1]


def test_noise_beyond_the_whole_is_cut_and_told(release: Release, no_script: None) -> None:
    measured = release.measurements
    loud = tuple(replace(item, variance=Fraction(10**12)) for item in measured.items)
    found = documented(replace(release, measurements=replace(measured, items=loud)))
    assert all(charts.is_clipped(column) for column in found.columns)
    assert charts.column_chart(found.columns[0])["layer"][0]["encoding"]["y"]["scale"]["domain"] == [
        -1.0,
        1.0,
    ]
    assert render.render_report(found).count("<dd>beyond the axis</dd>") == 5
    assert found.summary[0].endswith("dominated by noise, no bound on its error.")
    quiet = documented(release)
    assert "<dd>beyond the axis</dd>" not in render.render_report(quiet)
    assert charts.column_chart(quiet.columns[0])["layer"][0]["encoding"]["y"]["scale"] == {}


def test_the_document_is_plain_json_and_keeps_the_promise_exact(
    document: ReportDocument, release: Release
) -> None:
    told = json.loads(json.dumps(to_plain(document), allow_nan=False))
    assert told["statement"] == release.statement
    assert told["columns"][0]["comparison"]["quality"] in list(Quality)


def test_the_document_depends_on_released_things_alone(
    document: ReportDocument, release: Release, tmp_path: Path
) -> None:
    """A report made from the loaded folder is the same: nothing else was needed."""
    release.save(tmp_path / "out")
    assert documented(Release.load(tmp_path / "out")) == document


def test_a_model_that_misses_is_called_out(release: Release) -> None:
    schema = release.measurements.schema
    codes = encode_table(release.synthetic, schema=schema)
    codes["sex"] = np.zeros_like(codes["sex"])
    found = build(release.statement, release.measurements, codes)
    sex = next(column for column in found.columns if column.name == "sex")
    assert sex.comparison.beyond_noise


def test_no_rows_and_nothing_measured_still_give_a_report(release: Release, no_script: None) -> None:
    empty = replace(release, synthetic=release.synthetic.slice(0, 0))
    assert documented(empty).rows == 0
    render.render_report(documented(empty))
    measured = release.measurements
    without = documented(replace(release, measurements=replace(measured, items=measured.items[1:])))
    assert without.precision[0].columns == ()
    only_total = Measurements(schema=measured.schema, items=measured.items[:1], record=measured.record)
    bare = documented(replace(release, measurements=only_total))
    assert bare.summary == ("Nothing was measured but the number of rows.",)
    assert bare.unmeasured == releases.FEW
    render.render_report(bare)


# --------------------------------------------------------------------------------- page


def test_the_page_needs_nothing_from_elsewhere(document: ReportDocument) -> None:
    page = render.render_report(document)
    assert len(page.encode()) < 3_000_000
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)([^"']*)""", markup) == []
    assert re.findall(r"@import|url\(|https?:", markup) == []
    assert "<script src" not in page
    assert json.loads(embedded(page, "document")) == to_plain(document)
    specs = json.loads(embedded(page, "charts"))
    assert set(re.findall(r'data-chart="([^"]+)"', page)) == set(specs)
    assert render.render_report(document) == page


def embedded(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.slow
def test_every_kind_of_chart_is_valid(document: ReportDocument) -> None:
    specs = [
        charts.budget_chart(document.stages),
        charts.column_chart(document.columns[0]),
        charts.pairs_chart(document.pairs),
    ]
    for spec in specs:
        picture = vl_convert.vegalite_to_svg({**spec, "width": 400})
        assert picture.count("<path") > 5
    assert "age × income" in vl_convert.vegalite_to_svg({**specs[2], "width": 600})
    with pytest.raises(ValueError, match="Vega-Lite"):
        vl_convert.vegalite_to_svg({"mark": "no such mark", "data": {"values": [{}]}, "encoding": 3})


def test_names_cannot_break_the_page(release: Release, tmp_path: Path, no_script: None) -> None:
    nasty = '</script><script>alert("x")</script><!--'
    schema = Schema.from_sizes({nasty: 2, "b": 3})
    table = releases.pa.table({nasty: [0, 1] * 50, "b": [0, 1] * 50})
    made = releases.make(releases.measure(table, schema, ledger=tmp_path / "l.db"))
    page = render.render_report(documented(made))
    clean = render.render_report(documented(release))
    assert page.count("<script") == clean.count("<script")
    assert page.count("</script") == clean.count("</script")
    assert "<!--" not in page
    assert json.loads(embedded(page, "document"))["columns"]


def test_a_table_of_many_columns_is_folded(tmp_path: Path, release: Release, no_script: None) -> None:
    schema = Schema.from_sizes({f"column_{number}": 2 + number % 40 for number in range(110)})
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(0, size, 500) for name, size in schema.domain.items()}
    items = [
        Measurement(
            Marginal((name,)),
            tabulate(Marginal((name,)), codes=codes, domain=schema.domain),
            Fraction(9),
        )
        for name in schema.domain
    ]
    measured = Measurements(schema=schema, items=tuple(items), record=release.measurements.record)
    page = render.render_report(build(release.statement, measured, codes))
    assert page.count("<figure>") == 110
    before, _ = page.split("<summary>The next 98 columns</summary>")
    assert before.count("<figure>") == 12
    assert len(page) + 1_000_000 < 3_000_000


def test_the_stamp_is_a_banner(release: Release, no_script: None) -> None:
    record = replace(release.measurements.record, rehearsal=True)
    stamped = replace(release, measurements=replace(release.measurements, record=record))
    assert 'class="stamp" role="alert">REHEARSAL' in render.render_report(documented(stamped))
    assert 'class="stamp"' not in render.render_report(documented(release))
