"""Names: hints for those that were nearly right, and the name of a table by its path."""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Iterable
from pathlib import Path

# Behind these another suffix says what is packed.
_PACKED = (".gz",)


def fold_name(name: str) -> str:
    """Return a name without what the eye overlooks: blanks at its ends, case and Unicode form.

    >>> fold_name(" Ａge") == fold_name("age")
    True
    """
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to the given one, if one is near.

    >>> did_you_mean("lables", ["values", "labels"])
    'labels'
    >>> did_you_mean("aeg", ["sex", "age"])
    'age'
    >>> did_you_mean("weight", ["values", "labels"])
    """
    by_fold = {fold_name(candidate): candidate for candidate in reversed(list(known))}
    if fold_name(name) in by_fold:
        return by_fold[fold_name(name)]
    # Two letters that changed places are a third of a short name.
    near = difflib.get_close_matches(fold_name(name), by_fold, n=1, cutoff=0.7 if len(name) > 4 else 0.65)
    return by_fold[near[0]] if near else None


def suggest(name: str, known: Iterable[str], *, otherwise: str) -> str:
    """Return a hint for a name that is not known: the nearest one that is, or else another hint.

    >>> suggest("lables", ["values", "labels"], otherwise="name a key")
    "did you mean 'labels'?"
    """
    near = did_you_mean(name, known)
    return f"did you mean {near!r}?" if near else otherwise


def quote_names(names: Iterable[str]) -> str:
    """Return a few names for a message, quoted, with the number of those left out.

    >>> quote_names("abcdefg")
    "'a', 'b', 'c', 'd', 'e' and 2 more"
    """
    return _list_few([repr(name if len(name) <= 60 else name[:59] + "…") for name in names])


def quote_in_text(names: Iterable[str]) -> str:
    """Return some names in quotes, a few of many, for a sentence.

    >>> quote_in_text(["a", "b"])
    '“a”, “b”'
    """
    return _list_few([f"“{name}”" for name in names])


def _list_few(quoted: list[str]) -> str:
    shown = ", ".join(quoted[:5])
    return f"{shown} and {len(quoted) - 5} more" if len(quoted) > 5 else shown


def table_stem(path: Path) -> str:
    """Return the name of a table by its path: that of its file without suffixes, or of the folder of a pattern.

    >>> [table_stem(Path(each)) for each in ("people.csv", "people.csv.gz", "parts/*.parquet", "survey.2019.dta")]
    ['people', 'people', 'parts', 'survey.2019']
    """
    while any(mark in path.name for mark in "*?[") and not path.exists():
        path = path.absolute().parent
    return Path(path.stem).stem if path.suffix.lower() in _PACKED else path.stem
