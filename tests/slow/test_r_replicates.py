"""Replicate weights of synthetic rows give R's survey package the variances that they give here."""

from __future__ import annotations

import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from populace.core.marginals import Marginal, tabulate
from populace.measurements.measurements import Measurement
from populace.schema.schema import Schema
from populace.survey.calibration.replicate_weights import make_replicate_weights
from populace.survey.design.design_parts import ControlTotals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed"),
]

SCRIPT = """
suppressMessages(library(survey))
d <- read.csv("{path}")
design <- svrepdesign(data = d, weights = ~weight, repweights = "^rep[0-9]+$", type = "other",
                      combined.weights = TRUE, scale = {scale!r}, rscales = rep(1, {count}), mse = FALSE)
total <- svytotal(~POOR, design)
mean <- svyby(~POOR, ~SEX, design, svymean)
cat(sprintf("%.12g", c(coef(total), SE(total), coef(mean), SE(mean))), sep = "\\n")
"""


def test_totals_and_means_of_groups(tmp_path):
    rng = np.random.default_rng(8)
    schema = Schema.from_sizes({"AGE": 4, "SEX": 2, "POOR": 2})
    codes = {name: rng.integers(0, size, 1_500).astype(np.uint8) for name, size in schema.domain.items()}
    pair = Marginal(("AGE", "POOR"))
    noisy = Measurement(pair, tabulate(pair, codes=codes, domain=schema.domain), Fraction(100))
    ages = ControlTotals(
        by=Marginal(("AGE",)), populations=tuple(map(Fraction, (4000, 3000, 2000, 1000))), binnings=()
    )
    found = make_replicate_weights(
        codes, schema=schema, controls=[ages], measurements=[noisy], sample=1_500.0, rng=rng, replicates=25
    )
    path = tmp_path / "rows.csv"
    pd.DataFrame({**codes, **found.columns()}).to_csv(path, index=False)
    script = tmp_path / "run.R"
    script.write_text(SCRIPT.format(path=path, count=25, scale=found.scale))
    told = subprocess.run(["Rscript", str(script)], capture_output=True, text=True, check=True).stdout
    expected = []
    poor, women = codes["POOR"] == 1, codes["SEX"] == 1
    statistics = [
        lambda w: w @ poor,
        *(lambda w, part=part: (w @ (poor & part)) / (w @ part) for part in (~women, women)),
    ]
    values = [each(found.weights) for each in statistics]
    errors = []
    for each in statistics:
        again = np.array([each(column) for column in found.replicates.T])
        errors.append((found.scale * ((again - again.mean()) ** 2).sum()) ** 0.5)
    expected = [values[0], errors[0], *values[1:], *errors[1:]]
    assert [float(line) for line in told.split()] == pytest.approx(expected, rel=1e-6)
