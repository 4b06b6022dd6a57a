"""A fitted model: a distribution over the whole domain, held as potentials on a junction tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Clique, Domain, Grouping
from populace.core.number_format import count_of
from populace.core.pretty_json import pretty_json
from populace.core.untrusted_files import (
    read_arrays,
    read_stage,
    refuse_parse_errors,
    require_int,
    require_text,
)
from populace.inference.constraints.recoding import Recoding
from populace.inference.factor import Table
from populace.inference.gls.observations import observe
from populace.inference.graph.joint_tables import JointTables
from populace.inference.graph.junction_tree import JunctionTree, junction_tree
from populace.inference.graph.propagation import Propagation
from populace.inference.model_space import ModelSpace
from populace.measurements.measurements import FILES as MEASUREMENT_FILES
from populace.measurements.measurements import Measurement, Measurements
from populace.schema.conditions.rules import Rules

FORMAT = "populace model 3"
FILES = ("model.json", "model.npz")


@dataclass(frozen=True, eq=False, kw_only=True)
class Model:
    """The distribution ∝ exp(Σ potentials) over the grouped domain, the number of rows, and shares inside groups.

    `potentials` are logarithms on cliques of the domain in which grouped columns are seen through their grouping;
    `within[column][code]` is a code's share of its group. Columns in no clique are uniform. `hidden` variables, with
    their sizes, carry rules between columns; no row shows them. Rows drawn from the model have its counts of the
    `exact` cliques. `targets` are expected counts, by group, that rows should have even where the potentials say
    otherwise: the tree holds only so many tables. In a `gradual` model the tree holds single columns and rules alone,
    and targets are all that ties columns together: rows come to them by many moves. With a `recoding`, the domain is
    the recoded one, and rows are expanded to the columns they stand for. `measurements_digest` names what it was fitted
    to, `measurements` is that itself where it is at hand, and `rehearsal` tells whether it was made with repeatable
    noise.

    >>> import populace as pp
    >>> model = pp.Model(domain=Domain({"sex": 2}), groupings={}, potentials={}, total=8.0, within={})
    >>> model.save("model")
    >>> pp.Model.load("model")
    Model of 1 column, 0 cliques, 8 rows
    """

    domain: Domain
    groupings: Mapping[str, Grouping]
    potentials: Mapping[Clique, Table]
    total: float
    within: Mapping[str, Table]
    hidden: Mapping[str, int] = field(default_factory=dict)
    exact: tuple[Clique, ...] = ()
    targets: Mapping[Clique, Table] = field(default_factory=dict)
    gradual: bool = False
    recoding: Recoding | None = None
    measurements_digest: str = ""
    rehearsal: bool = False
    measurements: Measurements | None = None

    def __post_init__(self) -> None:
        # Sums over another layout may differ in the last digit, and rows with them: a model that is loaded again must
        # be laid out as the one that was saved.
        for name in ("potentials", "within", "targets"):
            tables = getattr(self, name).items()
            laid = {key: np.asarray(table, dtype=np.float64, order="C") for key, table in tables}
            object.__setattr__(self, name, laid)
        grouped = self.full_domain
        sound = (
            math.isfinite(self.total)
            and self.total > 0
            and not set(self.hidden) & set(self.domain)
            and all(size > 0 for size in self.hidden.values())
            and set(self.groupings) == set(self.within) <= set(self.domain)
            and all(
                g.column == name and len(g.groups) == self.domain[name] for name, g in self.groupings.items()
            )
            and all(set(clique) <= set(grouped) for clique in self.potentials)
            and all(any(set(clique) <= set(held) for held in self.potentials) for clique in self.exact)
            and all(t.shape == grouped.shape(clique) for clique, t in self.potentials.items())
            and all(np.isfinite(table).all() for table in self.potentials.values())
            and all(self._sound_shares(name) for name in self.groupings)
            and all(self._sound_target(clique, table) for clique, table in self.targets.items())
            and (self.recoding is None or self.recoding.recoded == self.domain)
        )
        if not sound:
            raise UsageError(
                "the parts of the model do not fit together.",
                hint="give finite potentials of the domain's shapes, a positive total, and shares that sum to 1",
            )

    def __repr__(self) -> str:
        parts = count_of(len(self.domain), "column"), count_of(len(self.potentials), "clique")
        return f"Model of {', '.join(parts)}, {count_of(round(self.total), 'row')}"

    def space(self, rules: Rules) -> ModelSpace:
        """Return the space of the model's rows under some rules."""
        return ModelSpace(domain=self.domain, rules=rules, groupings=self.groupings)

    @cached_property
    def grouped_domain(self) -> Domain:
        """The columns, grouped where they are."""
        return self.domain.group(self.groupings.values())

    @cached_property
    def full_domain(self) -> Domain:
        """The domain of the potentials: the grouped columns, then the hidden variables."""
        return Domain({**self.grouped_domain.sizes, **self.hidden})

    @cached_property
    def tree(self) -> JunctionTree:
        """The junction tree of the cliques; it follows from them. The root holds the largest exact clique."""
        largest = max(self.exact, key=self.full_domain.cells, default=())
        return junction_tree(self.potentials, domain=self.full_domain, root=largest)

    @cached_property
    def propagation(self) -> Propagation:
        """The plan of belief propagation on the tree."""
        return Propagation(self.tree, domain=self.full_domain)

    @cached_property
    def beliefs(self) -> tuple[Table, ...]:
        """The probabilities of the cells of every node of the tree; nodes agree on what they share."""
        return _read_only(self.propagation.beliefs(self.propagation.on_nodes(self.potentials.items())))

    @property
    def conditionals(self) -> tuple[Table, ...]:
        """The probabilities of every node's cells given its separator's, even where the separator's are next to 0."""
        return _read_only(self.propagation.conditionals(self.propagation.on_nodes(self.potentials.items())))

    @cached_property
    def _joints(self) -> JointTables:
        return self.propagation.joints(self.beliefs)

    def grouped_marginal(self, clique: Iterable[str]) -> Table:
        """Return the expected counts of any columns, grouped columns by group."""
        wanted = tuple(clique)
        if not set(wanted) <= set(self.domain):
            raise UsageError(
                f"the model does not have every column of {wanted}.", hint="ask for columns of its domain"
            )
        return self.total * self._joints.table(wanted)

    def marginal(self, clique: Iterable[str]) -> Table:
        """Return the expected counts of any columns, code by code.

        >>> model = Model(domain=Domain({"a": 2, "b": 2}), groupings={}, potentials={}, total=8.0, within={})
        >>> model.marginal(("b", "a"))
        array([[2., 2.],
               [2., 2.]])
        """
        wanted = tuple(clique)
        table = self.grouped_marginal(wanted)
        for axis, name in enumerate(wanted):
            if name in self.groupings:
                shape = tuple(-1 if i == axis else 1 for i in range(table.ndim))
                table = table.take(self.groupings[name].lookup, axis=axis) * self.within[name].reshape(shape)
        return table

    def loss(self, measurements: Iterable[Measurement]) -> float:
        """Return ½ Σ (expected − measured)² / variance over all measured cells, on the grouped domain."""
        found = 0.0
        for measurement in measurements:
            (seen,) = observe([measurement], domain=self.domain, groupings=self.groupings)
            missed = self.grouped_marginal(seen.clique) - seen.values
            found += 0.5 * float((missed**2 / seen.variance).sum())
        return found

    def save(self, folder: str | Path) -> None:
        """Write the model and, where they are at hand, the measurements it was fitted to."""
        self.write_files(Path(folder))
        if self.measurements is not None:
            self.measurements.save(folder)

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """Read what `save` wrote, bit for bit, with the measurements where they lie in the same folder."""
        folder = Path(folder)
        model = cls.read_files(folder)
        if not all((folder / name).is_file() for name in MEASUREMENT_FILES):
            return model
        return model.with_measurements(Measurements.load(folder))

    def with_measurements(self, measurements: Measurements) -> Model:
        """Return the model with the measurements it was fitted to at hand; others are refused."""
        if self.measurements_digest != measurements.digest:
            raise ReleaseError(
                "the model was fitted to other measurements.",
                hint="fit it again to these with `populace fit`",
            )
        return replace(self, measurements=measurements)

    def write_files(self, folder: Path) -> None:
        """Write `model.json` (everything but large numbers) and `model.npz` (potentials and shares)."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {f"potential{i}": table for i, table in enumerate(self.potentials.values())}
        arrays |= {f"within{i}": self.within[name] for i, name in enumerate(self.groupings)}
        arrays |= {f"target{i}": table for i, table in enumerate(self.targets.values())}
        np.savez_compressed(folder / "model.npz", **arrays)
        (folder / "model.json").write_text(pretty_json(self.to_json()) + "\n", encoding="utf-8")

    def to_json(self) -> dict[str, Any]:
        """Return `model.json`: everything but large numbers."""
        document = {
            "format": FORMAT,
            "measurements": self.measurements_digest,
            "rehearsal": self.rehearsal,
            "domain": dict(self.domain),
            "hidden": dict(self.hidden),
            "exact": [list(clique) for clique in self.exact],
            "total": float(self.total),
            "groupings": [{"column": name, "groups": list(g.groups)} for name, g in self.groupings.items()],
            "cliques": [list(clique) for clique in self.potentials],
            "targets": [list(clique) for clique in self.targets],
            "gradual": self.gradual,
        }
        return document | ({} if self.recoding is None else {"recoding": self.recoding.to_json()})

    @classmethod
    def read_files(cls, folder: Path) -> Model:
        """Read what `write_files` wrote, bit for bit; a file that is not ours, or does not fit together, is refused."""
        document = read_stage(folder, files=FILES, forms=(FORMAT,), verb="fit")
        with refuse_parse_errors(f"{' and '.join(FILES)} in {folder}", UsageError):
            domain = _parse_domain(document["domain"])
            groupings = {
                require_text(g["column"]): Grouping(g["column"], tuple(map(require_int, g["groups"])))
                for g in document["groupings"]
            }
            hidden = dict(_parse_domain(document["hidden"]))
            cliques, targets, exact = (
                [tuple(map(require_text, clique)) for clique in document[key]]
                for key in ("cliques", "targets", "exact")
            )
            grouped = domain.group(groupings.values())
            full = Domain({**grouped, **hidden})
            shapes = {f"potential{i}": full.shape(clique) for i, clique in enumerate(cliques)}
            shapes |= {f"within{i}": (len(g.groups),) for i, g in enumerate(groupings.values())}
            shapes |= {f"target{i}": grouped.shape(clique) for i, clique in enumerate(targets)}
            arrays = read_arrays(folder / "model.npz", shapes=shapes)
            return cls(
                domain=domain,
                groupings=groupings,
                potentials={clique: arrays[f"potential{i}"] for i, clique in enumerate(cliques)},
                total=float(document["total"]),
                within={name: arrays[f"within{i}"] for i, name in enumerate(groupings)},
                hidden=hidden,
                exact=tuple(exact),
                targets={clique: arrays[f"target{i}"] for i, clique in enumerate(targets)},
                gradual=bool(document.get("gradual", False)),
                recoding=Recoding.from_json(document["recoding"]) if "recoding" in document else None,
                measurements_digest=require_text(document["measurements"]),
                rehearsal=bool(document["rehearsal"]),
            )

    def _sound_target(self, clique: Clique, table: Table) -> bool:
        return (
            set(clique) <= set(self.domain)
            and table.shape == self.grouped_domain.shape(clique)
            and bool((table >= 0).all())
            and 0 < float(table.sum()) < math.inf
        )

    def _sound_shares(self, name: str) -> bool:
        grouping, shares = self.groupings[name], self.within[name]
        return (
            shares.shape == (len(grouping.groups),)
            and bool((shares >= 0).all())
            and np.allclose(np.bincount(grouping.lookup, weights=shares), 1.0)
        )


def _parse_domain(document: Mapping[str, Any]) -> Domain:
    return Domain({name: require_int(size, least=1) for name, size in document.items()})


def _read_only(tables: Iterable[Table]) -> tuple[Table, ...]:
    found = tuple(tables)
    for table in found:
        table.setflags(write=False)
    return found
