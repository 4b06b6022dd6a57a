"""Fitting a model to tables: estimation, descent, proportional fitting, projections."""
