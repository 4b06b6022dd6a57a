"""What the note of an estimate may say."""

from __future__ import annotations

# Noise decides that a subpopulation is too small; the note says no more than that.
SUPPRESSED = "suppressed: indistinguishable from noise"
VARIANCE_NOT_ESTIMABLE = "sampling variance not estimable at this ε; expected size shown"
SAMPLE_ONLY = "unweighted sample frequency: no sampling error"
NO_ROWS = "no rows"
# A number that totals of the design decide is as exact as they are, and nothing is spent on it.
PUBLIC_TOTAL = "public control total: exact"

COMPLETE_CASES = "complete cases only: unbiased if missing completely at random"
CELL_MEANS = "missing values imputed by cell means"
NEAREST_DONORS = "missing values imputed from the nearest donors"
IMPUTATION_NOT_ESTIMABLE = "imputation variance not estimable on its own; included in the sampling error"

HOT_DECK = "missing values imputed from donors of limited use, rows left over weighted up"
RESPONSE_WEIGHTS = "respondents weighted up to all rows of their cell"
CALIBRATED_WEIGHTS = "weights calibrated to the control totals"
CALIBRATED_SUM = "sum of weights calibrated to the control totals"
CALIBRATED_TABLE = "noisy table raked to the control totals"
CALIBRATED_ROWS = "rows calibrated to the control totals before noise was added"
# Followed by how far, and by what is not covered.
SHRINKAGE_MOVED = "weight shrinkage moved it by "
SHRINKAGE_UNCOVERED = ", which no error covers"
