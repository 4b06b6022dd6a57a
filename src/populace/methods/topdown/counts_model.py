"""Integer tables of the smallest units as a model, so that rows are drawn and files are kept as for other methods."""

from __future__ import annotations

import numpy as np

from populace.core.array_types import Floats, Ints
from populace.core.errors import ReleaseError
from populace.core.marginals import Clique
from populace.inference.graph.propagation import FORBIDDEN
from populace.inference.model import Model
from populace.schema.geocodes import GEOCODE
from populace.schema.schema import Schema

# The model of an empty table expects as good as no rows.
MIN_TOTAL = 1e-9


def build_counts_model(tables: Ints, schema: Schema) -> Model:
    """Return the model that has just these counts, over units and cells.

    >>> schema = Schema.parse('[geography]\\nlevels = ["county"]\\nunits = ["A", "B"]\\n[columns.sex]\\n'
    ...                       'kind = "categorical"\\nvalues = ["f", "m"]\\nother = "f"')
    >>> model = build_counts_model(np.array([[3, 0], [2, 5]]), schema)
    >>> model.total, read_counts(model).tolist()
    (10.0, [[3, 0], [2, 5]])
    """
    clique = (GEOCODE, *(name for name in schema.domain if name != GEOCODE))
    potential = np.full(tables.shape, FORBIDDEN)
    np.log(tables, out=potential, where=tables > 0)
    total = int(tables.sum())
    return Model(
        domain=schema.domain,
        groupings={},
        potentials={clique: potential} if total else {},
        total=float(total) if total else MIN_TOTAL,
        within={},
        exact=(clique,) if total else (),
    )


def read_counts(model: Model) -> Ints:
    """Return the counts that `build_counts_model` made a model of: (smallest units, *shape of the cells)."""
    clique = (GEOCODE, *(name for name in model.domain if name != GEOCODE))
    potentials = dict(model.potentials)
    potential = potentials.pop(clique, None)
    others = (model.groupings, model.targets, model.hidden, potentials)
    if any(others) or model.recoding is not None or (potential is None and round(model.total) > 0):
        raise _not_counts()
    if potential is None:
        return np.zeros(model.domain.shape(clique), dtype=np.int64)
    counts: Floats = np.rint(np.exp(potential))
    if model.exact != (clique,) or counts.sum() != model.total:
        raise _not_counts()
    return counts.astype(np.int64)


def read_unit_counts(model: Model, *, columns: Clique) -> Ints:
    """Return the integer tables of the smallest units, of which the model of linked tables has the exact counts."""
    clique = (GEOCODE, *columns)
    if not model.potentials:
        return np.zeros(model.domain.shape(clique), dtype=np.int64)
    if model.exact != (clique,):
        raise _not_counts()
    found: Ints = np.rint(model.grouped_marginal(clique)).astype(np.int64)
    return found


def _not_counts() -> ReleaseError:
    return ReleaseError(
        "the model does not hold the integer tables of a geography.",
        hint="use a model that was fitted to measurements of the method 'topdown'",
    )
