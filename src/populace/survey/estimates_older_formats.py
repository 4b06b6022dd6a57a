"""Older formats of estimates.json and estimates.csv: some keys of the design and some notes have other words.

The first format has other keys and notes. The first two know nothing of what a design declares since, and follow from
other questions: their estimates are read, compared with their own files and the ledger, and not computed again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from populace.survey import estimate_notes as notes

# The second format said this where noise hides a sampling variance: a bound was shown then.
_BOUND_SHOWN = "sampling variance not estimable at this ε; conservative bound shown"
# What designs declare since the third format.
_NEW_KEYS = ("design_effect", "rows")
_KEYS = {"max_weight": "most_weight", "max_design_effect": "most_effect"}
_NOTES = {
    notes.SUPPRESSED: "too few to say",
    _BOUND_SHOWN: "noise hides the sampling error, which may be smaller than told",
    notes.SAMPLE_ONLY: "of the sample: no sampling error",
    notes.PUBLIC_TOTAL: "a public total of the design",
    notes.COMPLETE_CASES: "complete rows only: right if values are missing by chance",
    notes.CELL_MEANS: "missing values as the complete rows of their cell",
    notes.NEAREST_DONORS: "missing values from the nearest complete rows",
    notes.IMPUTATION_NOT_ESTIMABLE: "its error is in the sampling error: noise hides it",
    notes.CALIBRATED_SUM: "added up with weights that meet the public totals",
    notes.CALIBRATED_TABLE: "counted by the groups of the public totals, then weighted to meet them",
    notes.CALIBRATED_ROWS: "weighted before noise was added, to meet the public totals",
    notes.SHRINKAGE_MOVED: "shrinking the weights moved it by ",
    notes.SHRINKAGE_UNCOVERED: ", which no error here contains",
}


def read_older_format(document: Mapping[str, Any], *, form: int) -> dict[str, Any]:
    """Return a document of an older format in the words of the current one."""
    if form != 1:
        return dict(document)
    keys, words = ({old: new for new, old in each.items()} for each in (_KEYS, _NOTES))
    return _translate(document, keys=keys, words=words)


def write_older_format(document: Mapping[str, Any], *, form: int) -> dict[str, Any]:
    """Return a document in the words of an older format.

    >>> row = {"query": "income", "note": notes.SUPPRESSED}
    >>> write_older_format({"design": {"max_weight": "12", "rows": None}, "estimates": [row]}, form=1)["design"]
    {'most_weight': '12'}
    """
    design = {key: value for key, value in document["design"].items() if key not in _NEW_KEYS}
    found = {**document, "design": design}
    return _translate(found, keys=_KEYS, words=_NOTES) if form == 1 else found


def _translate(
    document: Mapping[str, Any], *, keys: Mapping[str, str], words: Mapping[str, str]
) -> dict[str, Any]:
    rows = [dict(row) for row in document["estimates"]]
    for row in rows:
        for one, other in words.items():
            row["note"] = row["note"].replace(one, other)
    design = {keys.get(key, key): value for key, value in document["design"].items()}
    return {**document, "design": design, "estimates": rows}
