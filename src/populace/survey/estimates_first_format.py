"""The first format of estimates.json and estimates.csv: some keys of the design and all notes have other words.

Releases of that format verify for ever. Everything else knows the words of the current format alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from populace.survey import estimate_notes as notes

_KEYS = {"max_weight": "most_weight", "max_design_effect": "most_effect"}
_NOTES = {
    notes.SUPPRESSED: "too few to say",
    notes.VARIANCE_NOT_ESTIMABLE: "noise hides the sampling error, which may be smaller than told",
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


def read_first_format(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document of the first format in the words of the current one."""
    keys, words = ({old: new for new, old in each.items()} for each in (_KEYS, _NOTES))
    return _translate(document, keys=keys, words=words)


def write_first_format(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document in the words of the first format.

    >>> row = {"query": "income", "note": notes.SUPPRESSED}
    >>> write_first_format({"design": {"max_weight": "12"}, "estimates": [row]})["design"]
    {'most_weight': '12'}
    """
    return _translate(document, keys=_KEYS, words=_NOTES)


def _translate(
    document: Mapping[str, Any], *, keys: Mapping[str, str], words: Mapping[str, str]
) -> dict[str, Any]:
    rows = [dict(row) for row in document["estimates"]]
    for row in rows:
        for one, other in words.items():
            row["note"] = row["note"].replace(one, other)
    design = {keys.get(key, key): value for key, value in document["design"].items()}
    return {**document, "design": design, "estimates": rows}
