"""The contrasts of a product domain, axis by axis, against projectors written out."""

from __future__ import annotations

from functools import reduce
from itertools import product

import numpy as np
import pytest

from populace.core.marginals import Domain
from populace.inference.hierarchy.effect_basis import EffectBasis, reflect_axes


@pytest.mark.parametrize("sizes", [(2,), (1, 3), (3, 2, 2), (8, 2, 63), (100, 2), (2, 130, 3), (70, 90)])
def test_contrasts_are_orthonormal_and_split_into_effects(sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sizes)
    domain = Domain({f"x{i}": size for i, size in enumerate(sizes)})
    basis, tables = EffectBasis(domain), rng.normal(size=(3, *sizes))
    contrasts = reflect_axes(tables)
    np.testing.assert_allclose(reflect_axes(contrasts), tables, atol=1e-11)
    np.testing.assert_allclose((contrasts**2).sum(), (tables**2).sum())
    for held in product((False, True), repeat=len(sizes)):
        expected = tables
        for axis, is_held in enumerate(held, 1):
            mean = expected.mean(axis=axis, keepdims=True)
            expected = expected - mean if is_held else np.broadcast_to(mean, expected.shape)
        effect = sum(1 << bit for bit, is_held in enumerate(held) if is_held)
        own = contrasts.reshape(3, -1) * (basis.effect_of == effect)
        np.testing.assert_allclose(basis.transform(own).reshape(tables.shape), expected, atol=1e-11)


def test_the_matrix_of_several_axes_is_a_product() -> None:
    whole = reflect_axes(np.eye(12).reshape(12, 3, 2, 2)).reshape(12, 12)
    axes = [reflect_axes(np.eye(size)) for size in (3, 2, 2)]
    np.testing.assert_allclose(whole, reduce(np.kron, axes), atol=1e-12)


@pytest.mark.parametrize("clique", [(), ("b",), ("c", "a"), ("a", "b", "c")])
def test_queries_and_loadings(clique: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    domain = Domain({"a": 3, "b": 2, "c": 4})
    basis = EffectBasis(domain)
    cells = np.eye(24).reshape(24, 3, 2, 4)
    lost = tuple(1 + axis for axis, name in enumerate(domain) if name not in clique)
    order = [name for name in domain if name in clique]
    summed = cells.sum(axis=lost).transpose(0, *(1 + order.index(name) for name in clique))
    query = summed.reshape(24, -1).T
    counts = rng.integers(0, 9, size=(2, *domain.shape(clique)))
    found = np.zeros((2, 24))
    basis.add_query(found, clique, counts=counts, precision=0.5)
    np.testing.assert_allclose(basis.transform(found), counts.reshape(2, -1) @ query / 2, atol=1e-12)
    projectors = [
        reflect_axes(cells).reshape(24, 24)
        @ np.diag((basis.effect_of == effect).astype(float))
        @ reflect_axes(cells).reshape(24, 24)
        for effect in range(basis.effects)
    ]
    precision = basis.query_precision(clique)
    np.testing.assert_allclose(
        sum(p * own for p, own in zip(precision, projectors, strict=True)), query.T @ query, atol=1e-12
    )
    for effect, projector in enumerate(projectors):
        lengths = np.einsum("mi,ij,mj->m", query, projector, query)
        np.testing.assert_allclose(lengths, basis.cell_loadings(clique)[effect], atol=1e-12)
        np.testing.assert_allclose(lengths, basis.row_loadings(query)[:, effect], atol=1e-12)
