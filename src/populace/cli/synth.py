"""populace synth: from a private file to a release folder."""

from __future__ import annotations

from populace.cli import options
from populace.cli.console import check_table_options, emit, emit_json, progress


def synth(
    data: options.Data,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    method: options.Method = "auto",
    workload: options.Workload = None,
    public: options.Public = None,
    inference: options.Inference = "tree",
    rows: options.Rows = None,
    where: options.Where = None,
    implicates: options.Implicates = 1,
    table_format: options.TableFormat = None,
    ledger: options.LedgerFile = None,
    dataset: options.Dataset = None,
    seed: options.Seed = None,
    no_report: options.NoReport = False,
    json: options.Json = False,
) -> None:
    """Make a synthetic table and all that must be said of it.

    The budget is booked in the ledger before the first row is read. The release folder holds the
    synthetic table, the privacy statement, the noisy measurements, the model, a codebook, a report that
    opens offline, and a manifest. Its path is the last line on stdout.

    From when all is measured until the release is whole, the measurements lie beside it, in a folder whose name
    ends in -measured. If fitting, drawing or writing fails they stay there, and fit and generate go on from them.

    \b
    Examples:
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out release
      populace synth adult.parquet --schema domain.json --epsilon 1 --delta 1e-9 --rows 50000 --out release
      populace synth people.csv --schema schema.toml --epsilon 2 --delta 0 --method independent --out release
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --workload wanted.toml --out release
      populace synth people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --where "age >= 65" --out release
    """
    from populace.api.reservation import resolve_ledger
    from populace.api.synthesize import check_generation, complete, measure
    from populace.cli.account import print_balance, start_run
    from populace.cli.notes import note_capped_rows, note_lost_in_noise, note_out_of_domain
    from populace.cli.preload import REPORT, WRITING, load_modules
    from populace.cli.safety_net import check_writable, safety_net

    check_writable(out, ledger=ledger)
    check_table_options(rows=rows, implicates=implicates, table_format=table_format)
    described, found = start_run(
        data,
        schema=schema,
        epsilon=epsilon,
        delta=delta,
        method=method,
        workload=workload,
        public=public,
        ledger=ledger,
        dataset=dataset,
    )
    check_generation(
        described, method=method, inference=inference, rows=rows, where=where, implicates=implicates
    )
    load_modules(*WRITING, *(() if no_report else REPORT))
    with safety_net(out, ledger=ledger, inference=inference) as net, progress() as moved:
        measurements = measure(
            data,
            schema=described,
            epsilon=epsilon,
            delta=delta,
            method=method,
            workload=workload,
            public=public,
            ledger=ledger,
            dataset=found.dataset,
            progress=moved,
        )
        net.keep()
        release = complete(
            measurements,
            inference=inference,
            rows=rows,
            where=where,
            implicates=implicates,
            seed=seed,
            like=data,
            ledger=resolve_ledger(ledger),
            progress=moved,
        )
        moved("writing the release" if no_report else "making the report", 0.0)
        release.save(out, format=table_format, report=not no_report)
    print_balance(found)
    note_capped_rows(release)
    note_out_of_domain(release)
    note_lost_in_noise(release)
    if json:
        emit_json({"release": str(out), "statement": release.statement})
    else:
        emit(str(out))
