"""The population of a study, whose answers are known: a public file, invented people, or rows of a fitted model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from populace.api.generate import generate
from populace.api.request import list_private_datasets, resolve_ledger
from populace.api.stage_folders import load_model
from populace.core.errors import DataError, UsageError
from populace.privacy.ledger.account import normalize_name
from populace.private.public_table import check_not_private
from populace.schema.schema import Schema
from populace.simulation.population import simulate_population
from populace.studies.study import Study, StudyQuery
from populace.survey.design.design import Design
from populace.survey.estimate_result import Estimate
from populace.survey.queries.queries import Queries
from populace.survey.variance.public_estimates import estimate_public_rows
from populace.survey.variance.sampled_rows import SampledRows


@dataclass(frozen=True, kw_only=True, eq=False)
class Truth:
    """A whole population, and what may be said of it.

    `internal` says why no result may leave the house; it is empty where everything is public or invented.
    """

    table: pa.Table
    schema: Schema
    words: str
    internal: str = ""

    @property
    def size(self) -> int:
        """The number of persons."""
        return int(self.table.num_rows)

    @cached_property
    def rows(self) -> SampledRows:
        """Everybody, for conditions and columns."""
        return SampledRows(self.table, Design(schema=self.schema))

    def count(self, condition: str | None) -> int:
        """Return how many meet a condition."""
        return int(self.rows.meets(condition).sum())

    def answer(self, queries: tuple[StudyQuery, ...]) -> list[Estimate]:
        """Return the true answers of queries."""
        asked = Queries(schema=self.schema, queries=tuple(each.query for each in queries))
        return estimate_public_rows(self.table, design=Design(schema=self.schema), queries=asked)


def open_truth(study: Study, *, ledger: Path | str | None = None) -> Truth:
    """Return the population of a study."""
    source = study.truth
    schema = None if source.schema is None else Schema.load(source.schema)
    if source.file is not None and schema is not None:
        table = read_table(source.file)
        return Truth(
            table=table,
            schema=schema,
            words=f"{table.num_rows:,} rows of the file {source.file.name}",
            internal=find_private_files(study, schema=schema, ledger=ledger),
        )
    if source.model is not None:
        release = generate(load_model(source.model), rows=source.rows, seed=study.seed, like=pa.table({}))
        rehearsed = release.measurements.record.rehearsal
        return Truth(
            table=release.table,
            schema=release.measurements.schema if schema is None else schema,
            words=f"{release.table.num_rows:,} rows of the fitted model {source.model.name}",
            internal=f"the model {source.model.name} was measured with rehearsal noise, which protects nobody"
            if rehearsed
            else find_private_files(study, schema=None, ledger=ledger),
        )
    table, own = simulate_population(households=source.households or 1, seed=source.population_seed or 0)
    return Truth(
        table=table,
        schema=own if schema is None else schema,
        words=f"{table.num_rows:,} invented persons of the embedded population",
        internal=find_private_files(study, schema=None, ledger=ledger),
    )


def find_private_files(study: Study, *, schema: Schema | None, ledger: Path | str | None) -> str:
    """Return why the study is for internal use alone: a file that is not public, as far as anybody declared."""
    accounts = list_private_datasets(resolve_ledger(ledger))
    learn = study.nonresponse.learn if study.nonresponse else None
    learns_public = study.nonresponse is not None and study.nonresponse.public
    for path, public in ((study.truth.file, study.truth.public), (learn, learns_public)):
        if path is None:
            continue
        if not public:
            return f"{path.name} is not declared public"
        try:
            check_not_private(path, accounts=accounts)
        except UsageError:
            return f"{path.name} has an account in the ledger"
    known = {normalize_name(name) for name in accounts}
    learnt = study.nonresponse.learn_schema if study.nonresponse else None
    for each in (schema, None if learnt is None else Schema.load(learnt)):
        if each is not None and each.dataset is not None and normalize_name(each.dataset) in known:
            return f"the dataset {each.dataset!r} has an account in the ledger"
    return ""


def read_table(path: Path) -> pa.Table:
    """Return a table of a file that is not protected."""
    try:
        return pa.parquet.read_table(path) if path.suffix == ".parquet" else pa.csv.read_csv(path)
    except FileNotFoundError:
        raise UsageError(f"there is no file {str(path)!r}.", hint="check the path in the study") from None
    except (OSError, pa.ArrowException):
        raise DataError(f"{str(path)!r} is no table.", hint="give a Parquet or CSV file") from None


def digest_inputs(study: Study) -> str:
    """Return a digest of all that decides about the runs of a study: its file, and those that it names."""
    found = hashlib.sha256(study.content.encode())
    answer = study.nonresponse
    learn, learn_schema = (None, None) if answer is None else (answer.learn, answer.learn_schema)
    schemas = [learn_schema, study.truth.schema, *(method.schema for method in study.methods)]
    model = [] if study.truth.model is None else sorted(study.truth.model.iterdir())
    for path in (*schemas, study.truth.file, learn, *model):
        if path is not None and path.is_file():
            found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()[:16]
