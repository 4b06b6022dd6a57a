import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest

from populace.core.errors import ReleaseError, UsageError
from populace.core.marginals import Domain, Grouping, Marginal
from populace.inference.model import Model
from populace.measurements.measurements import Measurement
from tests.helpers.least_squares import margin, random_clique

DOMAIN = Domain({"a": 4, "b": 3, "c": 2, "d": 3})
GROUPING = Grouping("a", (0, 1, 0, 1))
SHARES = np.array([0.25, 0.9, 0.75, 0.1])


def grouped_model(seed=0):
    rng = np.random.default_rng(seed)
    grouped = DOMAIN.group([GROUPING])
    cliques = [("a", "b"), ("b", "c")]
    return Model(
        domain=DOMAIN,
        groupings={"a": GROUPING},
        potentials={clique: rng.normal(0, 1, grouped.shape(clique)) for clique in cliques},
        total=120.0,
        within={"a": SHARES},
    )


def joint(model):
    """The whole distribution, code by code, by enumeration."""
    grouped = model.grouped_domain
    a, b, c, d = np.indices(grouped.shape(grouped))
    weights = np.exp(model.potentials["a", "b"][a, b] + model.potentials["b", "c"][b, c]) * (d >= 0)
    fine = weights.take(GROUPING.lookup, axis=0) * SHARES[:, None, None, None]
    return model.total * fine / fine.sum()


@pytest.mark.parametrize("seed", range(10))
def test_any_marginal_equals_enumeration(seed):
    model = grouped_model(seed)
    exact = joint(model)
    rng = np.random.default_rng(seed)
    for clique in [(), ("d", "a"), ("c", "a", "d"), *(random_clique(rng, DOMAIN, most=4) for _ in range(5))]:
        np.testing.assert_allclose(model.marginal(clique), margin(exact, clique, DOMAIN), rtol=1e-11)


def test_loss_counts_every_cell_with_its_own_variance():
    model = grouped_model()
    fine, pair = model.marginal(("a",)), model.grouped_marginal(("b", "a"))
    items = [
        Measurement(Marginal(("a",)), np.array([30, 20, 50, 10]), Fraction(4)),
        Measurement(Marginal(("b", "a"), (GROUPING,)), np.full((3, 2), 20), Fraction(9)),
    ]
    sums = fine[[0, 1]] + fine[[2, 3]]
    expected = ((sums - [80, 30]) ** 2 / (2 * 4)).sum() / 2 + ((pair - 20) ** 2 / 9).sum() / 2
    assert model.loss(items) == pytest.approx(expected)


def test_saved_and_loaded_bit_for_bit(tmp_path):
    model = grouped_model()
    model.save(tmp_path)
    again = Model.load(tmp_path)
    assert again.total == model.total
    assert dict(again.domain) == dict(model.domain)
    assert list(again.domain) == list(model.domain)
    assert dict(again.groupings) == dict(model.groupings)
    np.testing.assert_array_equal(again.within["a"], model.within["a"])
    assert list(again.potentials) == list(model.potentials)
    for clique, table in model.potentials.items():
        np.testing.assert_array_equal(again.potentials[clique], table)
    np.testing.assert_array_equal(again.marginal(("a", "d")), model.marginal(("a", "d")))


def test_the_same_model_gives_the_same_files(tmp_path):
    for name in ("one", "two"):
        grouped_model().save(tmp_path / name)
    for file in ("model.json", "model.npz"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def rewrite_json(folder, **changes):
    told = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(told | changes))


def rewrite_arrays(folder, **changes):
    with np.load(folder / "model.npz") as arrays:
        kept = {name: arrays[name] for name in arrays.files}
    np.savez(
        folder / "model.npz", **{name: value for name, value in (kept | changes).items() if value is not None}
    )


DAMAGE = {
    "no json": lambda f: (f / "model.json").unlink(),
    "no arrays": lambda f: (f / "model.npz").unlink(),
    "not json": lambda f: (f / "model.json").write_text("{"),
    "json of something else": lambda f: (f / "model.json").write_text("[1]"),
    "cut short": lambda f: (f / "model.npz").write_bytes((f / "model.npz").read_bytes()[:100]),
    "not an archive": lambda f: (f / "model.npz").write_bytes(b"nothing"),
    "other format": lambda f: rewrite_json(f, format="populace model 0"),
    "other domain": lambda f: rewrite_json(f, domain={"a": 4, "b": 5, "c": 2, "d": 3}),
    "lost column": lambda f: rewrite_json(f, domain={"a": 4, "b": 3, "d": 3}),
    "swapped columns": lambda f: rewrite_json(f, cliques=[["b", "a"], ["b", "c"]]),
    "no total": lambda f: rewrite_json(f, total=None),
    "negative total": lambda f: rewrite_json(f, total=-3.0),
    "infinite total": lambda f: rewrite_json(f, total=float("inf")),
    "lost potential": lambda f: rewrite_arrays(f, potential1=None),
    "wrong shape": lambda f: rewrite_arrays(f, potential0=np.zeros((2, 2))),
    "not numbers": lambda f: rewrite_arrays(f, potential0=np.full((2, 3), "x")),
    "not a number": lambda f: rewrite_arrays(f, potential0=np.full((2, 3), np.nan)),
    "pickled": lambda f: rewrite_arrays(f, potential0=np.array([{}], dtype=object)),
    "negative shares": lambda f: rewrite_arrays(f, within0=np.array([1.25, 0.9, -0.25, 0.1])),
    "shares over one": lambda f: rewrite_arrays(f, within0=np.array([0.5, 0.9, 0.75, 0.1])),
    "grouping of nothing": lambda f: rewrite_json(f, groupings=[{"column": "z", "groups": [0, 1]}]),
    "grouping too short": lambda f: rewrite_json(f, groupings=[{"column": "a", "groups": [0, 1, 0]}]),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_model_is_refused(tmp_path, damage):
    grouped_model().save(tmp_path)
    DAMAGE[damage](tmp_path)
    with pytest.raises(ReleaseError):
        Model.load(tmp_path)


def test_an_unknown_column_is_refused():
    with pytest.raises(UsageError, match="does not have"):
        grouped_model().marginal(("a", "z"))


def test_parts_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="do not fit"):
        dataclasses.replace(grouped_model(), total=0.0)


def test_a_model_is_laid_out_in_memory_as_it_is_when_it_is_loaded(tmp_path):
    """Otherwise sums differ in their last digits, and a seed may draw other rows from the loaded model."""
    model = grouped_model()
    turned = dataclasses.replace(
        model,
        potentials={clique: np.asfortranarray(table) for clique, table in model.potentials.items()},
        targets={("a", "b"): np.asfortranarray(np.ones((2, 3)), dtype=np.float32)},
    )
    turned.save(tmp_path)
    loaded = Model.load(tmp_path)
    for one, other in ((turned.potentials, loaded.potentials), (turned.targets, loaded.targets)):
        assert [(table.strides, table.dtype) for table in one.values()] == [
            (table.strides, table.dtype) for table in other.values()
        ]
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "model.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()
