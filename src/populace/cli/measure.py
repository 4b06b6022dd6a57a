"""populace measure: the only stage that reads private rows and spends budget."""

from __future__ import annotations

from populace.cli import options
from populace.cli.console import emit, emit_json, progress


def measure(
    data: options.Data,
    schema: options.SchemaFile,
    epsilon: options.Epsilon,
    delta: options.Delta,
    out: options.Out,
    method: options.Method = "auto",
    workload: options.Workload = None,
    public: options.Public = None,
    ledger: options.LedgerFile = None,
    dataset: options.Dataset = None,
    json: options.Json = False,
) -> None:
    """Take noisy counts of a private table, and pay for them.

    The first of three stages, and the only one that costs budget. What it writes may be published.
    The next two, fit and generate, can be run again and again from the same measurements. If it fails after the
    budget was booked, what was answered by then is kept in a folder whose name ends in -measured or -answers.

    \b
    Example:
      populace measure people.csv --schema schema.toml --epsilon 1 --delta 1e-9 --out measured
      populace fit measured --out model
      populace generate model --out release
    """
    from populace.api import synthesize as pipeline
    from populace.cli.account import print_balance, start_run
    from populace.cli.preload import WRITING, load_modules
    from populace.cli.safety_net import check_writable, safety_net
    from populace.cli.stages import save_measurements

    check_writable(out, ledger=ledger)
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
    load_modules(*WRITING)
    with safety_net(out, ledger=ledger), progress() as moved:
        measurements = pipeline.measure(
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
        save_measurements(measurements, out)
    print_balance(found)
    if json:
        emit_json({"measurements": str(out)})
    else:
        emit(str(out))
