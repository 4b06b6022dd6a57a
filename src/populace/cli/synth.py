"""populace synth: from a private file to a release folder."""

from __future__ import annotations

from populace.cli import options
from populace.cli.console import check_new_folder, emit, emit_json, progress, say


def synth(
    data: options.Data,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    method: options.Method = "auto",
    rows: options.Rows = None,
    table_format: options.TableFormat = None,
    ledger: options.LedgerFile = None,
    seed: options.Seed = None,
    json: options.Json = False,
) -> None:
    """Make a synthetic table and everything that must be said about it.

    The budget is booked in the ledger before the first row is read. The release folder holds the
    synthetic table, the privacy statement, the noisy measurements, a codebook, a report that opens
    offline, and a manifest. Its path is the last line on stdout.

    \b
    Examples:
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out release
      populace synth adult.parquet --schema domain.json --epsilon 1 --delta 1e-9 --out release --rows 50000
      populace synth people.csv --schema schema.toml --epsilon 2 --delta 0 --method independent --out release
    """
    from populace.pipeline import synthesize
    from populace.schema.schema import Schema

    check_new_folder(out)
    with progress() as moved:
        release = synthesize(
            data,
            schema=Schema.load(schema),
            epsilon=epsilon,
            delta=delta,
            method=method,
            rows=rows,
            seed=seed,
            ledger=ledger,
            progress=moved,
        )
        release.save(out, format=table_format.value if table_format else None)
    told = release.statement
    say(f"released with epsilon {told['epsilon']}, delta {told['delta']}; read {out / 'statement.md'}")
    if json:
        emit_json({"release": str(out), "statement": told})
    else:
        emit(str(out))
