"""populace measure: the only stage that reads private rows and spends budget."""

from __future__ import annotations

from populace.cli import options
from populace.cli.console import check_new_folder, emit, emit_json, progress


def measure(
    data: options.Data,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    method: options.Method = "auto",
    ledger: options.LedgerFile = None,
    json: options.Json = False,
) -> None:
    """Measure a private table: noisy counts and their price, the first of three stages.

    What it writes may be published, and everything after it costs no budget: fit and generate can be
    run again and again from the same measurements.

    \b
    Example:
      populace measure people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out measured
      populace fit measured --out model
      populace generate model --out release
    """
    from populace import pipeline
    from populace.schema.schema import Schema

    check_new_folder(out)
    with progress() as moved:
        measurements = pipeline.measure(
            data,
            schema=Schema.load(schema),
            epsilon=epsilon,
            delta=delta,
            method=method,
            ledger=ledger,
            progress=moved,
        )
    measurements.save(out)
    if json:
        emit_json({"measurements": str(out)})
    else:
        emit(str(out))
