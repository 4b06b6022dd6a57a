"""The report opens in a browser without a network: every open chart is drawn and the console stays empty."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import populace as pp
from populace.api.synthesize import synthesize
from populace.schema.schema import Schema
from populace.simulation.sample_survey import simulate_survey
from populace.studies.simulate import simulate
from populace.studies.study import FigureKind
from tests.evaluation.test_score_files import SCHEMA, people
from tests.helpers.small_studies import write_study

BROWSER = shutil.which("chromium")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="chromium is not installed"),
]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    table, schema = simulate_survey()
    release = synthesize(
        table, schema=schema, epsilon="1", delta="1e-9", method="mst", ledger=folder / "l.db"
    )
    release.save(folder / "out")
    return folder / "out" / "report.html"


@pytest.fixture(scope="module")
def hierarchy_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hierarchy")
    units = [f"{county:02d}|{tract:02d}" for county in range(50) for tract in range(20)]
    schema = Schema.parse(
        f'[table]\nunit = "person"\n[geography]\nlevels = ["county", "tract"]\nunits = {json.dumps(units)}\n'
        '[columns.sex]\nkind = "categorical"\nvalues = ["f", "m"]\nother = "f"\n'
    )
    rows = [unit.split("|") for unit in units for _ in range(5)]
    table = pa.table(
        {
            "county": [county for county, _ in rows],
            "tract": [tract for _, tract in rows],
            "sex": ["f", "m", "f", "m", "m"] * len(units),
        }
    )
    release = synthesize(
        table,
        schema=schema,
        epsilon="1",
        delta="1e-9",
        method="topdown",
        dataset="tracts",
        ledger=folder / "l.db",
    )
    page = folder / "report.html"
    page.write_text(release.report(), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    pp.evaluate(people(600, 1), people(500, 2), schema=SCHEMA, areas=["AREA"]).save(folder / "out")
    return folder / "out" / "evaluation.html"


def browse(page: Path, *, width: int, profile: Path) -> tuple[str, list[str]]:
    """Return the page as drawn, and everything the console said. The page's own policy makes a request an error."""
    done = subprocess.run(
        [
            BROWSER or "",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
            f"--window-size={width},2000",
            "--virtual-time-budget=20000",
            "--enable-logging=stderr",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


@pytest.mark.parametrize("width", [1200, 390])
def test_the_report_draws_itself_offline(report: Path, tmp_path: Path, width: int) -> None:
    drawn, console = browse(report, width=width, profile=tmp_path / "profile")
    assert console == []
    assert 'data-ready="yes"' in drawn
    # Budget, pairs and twelve columns; some browsers lay out the four folded ones before they are opened.
    assert drawn.count('class="marks"') in (14, 18)


@pytest.mark.parametrize("width", [1200, 390])
def test_the_report_of_a_hierarchy_draws_itself_offline(
    hierarchy_report: Path, tmp_path: Path, width: int
) -> None:
    drawn, console = browse(hierarchy_report, width=width, profile=tmp_path / "profile")
    assert console == []
    assert 'data-ready="yes"' in drawn
    # Margins, ranking, errors, the producer's and the user's view, bias, B, simulated B and budget.
    assert drawn.count('class="marks"') == 9
    assert "… 10 more" in drawn


@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_of_a_study_opens_offline(tmp_path: Path, width: int) -> None:
    figures = "".join(f'[[figures]]\nkind = "{kind.value}"\n' for kind in FigureKind)
    simulate(write_study(tmp_path, more=figures), tmp_path / "out", seeds=3, workers=1)
    drawn, console = browse(tmp_path / "out" / "study.html", width=width, profile=tmp_path / "profile")
    assert console == []
    # Noise, context, methods and bias, and intervals at two ε; each for wide pages and for phones.
    assert drawn.count("<svg") == 2 * (4 + 2)


@pytest.mark.parametrize("width", [1280, 400])
def test_the_internal_evaluation_draws_itself_offline(evaluation: Path, tmp_path: Path, width: int) -> None:
    drawn, console = browse(evaluation, width=width, profile=tmp_path / "profile")
    assert console == []
    assert 'data-ready="yes"' in drawn
    # The sample size, the heat map and five columns.
    assert drawn.count('class="marks"') == 7
    # Beyond the worst, rows wait behind a button.
    assert len(re.findall(r"<tr[^>]* hidden", drawn)) > 20
    assert "aria-expanded" in drawn


def test_a_broken_report_would_be_noticed(report: Path, tmp_path: Path) -> None:
    text = report.read_text(encoding="utf-8")
    broken = tmp_path / "broken.html"
    broken.write_text(
        text.replace("</body>", '<img src="https://example.org/x.png"><script>missing()</script></body>'),
        encoding="utf-8",
    )
    _, console = browse(broken, width=1200, profile=tmp_path / "profile")
    assert any("missing is not defined" in line for line in console)
    assert any("example.org" in line and "Security Policy" in line for line in console)
