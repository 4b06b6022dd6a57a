"""Item nonresponse as a logistic model, given or learnt from a public file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute

from populace.core.array_types import Floats, Truth
from populace.core.errors import UsageError
from populace.schema.schema import Schema
from populace.studies.study import Nonresponse
from populace.studies.truths import read_table
from populace.survey.design.design import Design
from populace.survey.variance.sampled_rows import SampledRows

MAX_STEPS, CONVERGED = 50, 1e-9


def nonresponse_probabilities(model: Nonresponse, rows: SampledRows) -> Floats:
    """Return how likely each row is not to answer; who has no answer to give keeps what there is."""
    if model.learn is None:
        coefficients = np.array([model.intercept, *model.coefficients])
    else:
        coefficients = learn_coefficients(model, schema=rows.design.schema)
    x = _design_matrix(model.terms, rows) @ coefficients
    return np.asarray(np.where(rows.known(model.column), 1 / (1 + np.exp(-x)), 0.0))


def learn_coefficients(model: Nonresponse, *, schema: Schema) -> Floats:
    """Return the intercept and the coefficients of whether an answer is missing, from the rows of a file."""
    if model.learn is None:
        raise UsageError("[nonresponse] names no file.", hint='write learn = "public.csv"')
    described = schema if model.learn_schema is None else Schema.load(model.learn_schema)
    rows, column = (
        SampledRows(read_table(model.learn), Design(schema=described)),
        model.learn_column or model.column,
    )
    missing = rows.meets(f"{column} is missing")
    # Who was not asked says nothing about answering.
    asked = missing | rows.known(column)
    return fit_logistic(_design_matrix(model.learn_terms, rows)[asked], missing[asked])


def fit_logistic(x: Floats, y: Truth) -> Floats:
    """Return the maximum-likelihood coefficients of a logistic regression, by Newton's method.

    Source: iteratively reweighted least squares, McCullagh and Nelder 1989.

    >>> x = np.array([[1.0, 0.0]] * 4 + [[1.0, 1.0]] * 4)
    >>> fit_logistic(x, np.array([1, 0, 0, 0, 1, 1, 1, 0], dtype=bool)).round(4).tolist()
    [-1.0986, 2.1972]
    """
    found = np.zeros(x.shape[1])
    for _ in range(MAX_STEPS):
        mean = 1 / (1 + np.exp(-x @ found))
        curvature = (x * (mean * (1 - mean))[:, None]).T @ x
        step = np.linalg.lstsq(curvature, x.T @ (y - mean), rcond=None)[0]
        found = found + step
        if np.abs(step).max() < CONVERGED:
            return found
    raise UsageError(
        "the logistic model of nonresponse does not converge.",
        hint="leave out terms that decide alone whether an answer is missing",
    )


def _design_matrix(terms: Sequence[str], rows: SampledRows) -> Floats:
    """Return a column of ones, and one for each term: a column of numbers, or a condition."""
    schema = rows.design.schema
    parts = [np.ones(len(rows.weight))]
    for term in terms:
        parts.append(
            np.nan_to_num(rows.numbers(term))
            if term in schema.columns
            else rows.meets(term).astype(np.float64)
        )
    return np.stack(parts, axis=1)


def drop_answers(table: pa.Table, model: Nonresponse, *, silent: Truth) -> pa.Table:
    """Return a table in which some rows have the code of a missing answer."""
    place = table.column_names.index(model.column)
    column = table.column(place)
    code = pa.scalar(model.code).cast(column.type)
    return table.set_column(place, model.column, pa.compute.if_else(pa.array(silent), code, column))
