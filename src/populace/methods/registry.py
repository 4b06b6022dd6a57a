"""The methods by name, each loaded when it is asked for: a run needs one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module

from populace.core.errors import UsageError
from populace.methods.method import Method
from populace.schema.schema import Schema

# What `auto` stands for: without a geography, and with one.
AUTO, AUTO_FOR_UNITS = "adaptive", "topdown"
# Where the value of each method is: a module beside this one, and its name there.
_HOMES = {
    "adaptive": ("adaptive.adaptive", "ADAPTIVE"),
    "aim": ("aim", "AIM"),
    "copula": ("literature.copula.copula", "COPULA"),
    "dpsyn": ("dpsyn.dpsyn", "DPSYN"),
    "field-groups": ("field_groups", "FIELD_GROUPS"),
    "gem": ("literature.gem.gem", "GEM"),
    "histogram": ("histogram", "HISTOGRAM"),
    "histogram-exponential": ("histogram", "HISTOGRAM_EXPONENTIAL"),
    "independent": ("independent", "INDEPENDENT"),
    "mst": ("mst", "MST"),
    "mwem": ("literature.mwem", "MWEM"),
    "nist2018": ("nist2018.nist2018", "NIST2018"),
    "pmw": ("literature.pmw", "PMW"),
    "privbayes": ("literature.privbayes", "PRIVBAYES"),
    "stability": ("stability", "STABILITY"),
    "topdown": ("topdown.topdown", "TOPDOWN"),
}


class _Methods(Mapping[str, Method]):
    """A mapping that imports a method when it is looked up."""

    def __getitem__(self, name: str) -> Method:
        module, value = _HOMES[name]
        found: Method = getattr(import_module(f"populace.methods.{module}"), value)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(_HOMES)

    def __len__(self) -> int:
        return len(_HOMES)


METHODS: Mapping[str, Method] = _Methods()


def find_method(name: str, *, schema: Schema | None = None) -> Method:
    """Return the method of a name; `auto` stands for one of them, by whether the schema has a geography.

    >>> find_method("auto").name, find_method("independent").title
    ('adaptive', 'Independent columns')
    """
    if name != "auto" and name not in METHODS:
        known = ["auto", *METHODS]
        near = get_close_matches(name, known, n=1)
        raise UsageError(
            f"there is no method {name!r}.",
            hint=f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(known)}",
        )
    if name == "auto":
        name = AUTO if schema is None or schema.geography is None else AUTO_FOR_UNITS
    return METHODS[name]
