"""Real public files behind schemas from their documentation: columns come back with their codes, types and rules."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import populace as pp
from populace.cli.main import main
from populace.methods.workload import Workload
from populace.schema.codec.table_codec import TableCodec
from populace.schema.schema import Schema
from tests.helpers.latent_class_model import simulate_rows
from tests.helpers.sampled_cases import sample_cases

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "data"
EXAMPLES = ROOT / "examples" / "schemas"
FILES = {
    "adult-raw": "adult-raw/adult_raw.csv.gz",
    "nhanes": "nhanes/NHANESraw.parquet",
    "nist2020-acs": "nist2020-acs/temporal_match2.parquet",
    "census-1980": "census-1980/ipums.parquet",
}
pytestmark = pytest.mark.skipif(not SHARED.is_dir(), reason="the public files are not beside the project")


def real(name: str) -> pa.Table:
    path = SHARED / FILES[name]
    if path.suffix == ".parquet":
        return pq.read_table(path)
    told = pacsv.ConvertOptions(strings_can_be_null=True)
    return pacsv.read_csv(pa.BufferReader(gzip.decompress(path.read_bytes())), convert_options=told)


def plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


@pytest.mark.parametrize("name", sample_cases(FILES, to=2))
def test_real_rows_lie_in_the_schema(name):
    """Categories come back as they went in, numbers in their bin, empty cells empty; no rule moves a real row."""
    schema, table = Schema.load(EXAMPLES / f"{name}.toml"), real(name)
    codec = TableCodec(schema)
    codes = codec.encode({column: table[column] for column in codec.input_columns})
    again = codec.decode(codes, rng=np.random.default_rng(1))
    assert {what: rows for what, rows in codec.count_violations(table).items() if rows} == {}
    for column in schema.columns:
        source = table[column].cast(plain(table[column].type))
        assert again[column].type == source.type, column
        assert again[column].null_count == source.null_count, column
        if schema.columns[column].kind in ("categorical", "ordinal"):
            assert again[column].combine_chunks().equals(source.combine_chunks()), column
    recoded = codec.encode({column: again[column] for column in codec.input_columns})
    assert all((recoded[name] == codes[name]).all() for name in codes)


def check_release(release: pp.Release, schema: Schema, table: pa.Table) -> None:
    synthetic = release.table if isinstance(release.table, pa.Table) else pa.Table.from_pandas(release.table)
    wanted = [name for name in table.column_names if name != schema.unit.id]
    assert synthetic.column_names == list(schema.columns)
    assert set(wanted) == set(schema.columns)
    assert {n: synthetic[n].type for n in wanted} == {n: plain(table[n].type) for n in wanted}
    assert not any(TableCodec(schema).count_violations(synthetic).values())
    assert 0.9 * table.num_rows < synthetic.num_rows < 1.1 * table.num_rows


@pytest.mark.parametrize("name", sample_cases([name for name in FILES if name != "nhanes"], to=1))
def test_a_release_has_the_types_of_its_source(name, tmp_path):
    schema, table = Schema.load(EXAMPLES / f"{name}.toml"), real(name)
    release = pp.synthesize(
        table, schema=schema, epsilon=1, delta="1e-9", method="independent", ledger=tmp_path / "ledger.db"
    )
    check_release(release, schema, table)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_release_by_mst_too(name, tmp_path):
    schema, table = Schema.load(EXAMPLES / f"{name}.toml"), real(name)
    release = pp.synthesize(
        table, schema=schema, epsilon=1, delta="1e-9", method="mst", ledger=tmp_path / "ledger.db"
    )
    check_release(release, schema, table)


def imported(tmp_path: Path, *words: str) -> Path:
    out = tmp_path / "schema.toml"
    assert main(["schema", "import", *words, "--out", str(out)]) == 0
    return out


@pytest.mark.slow
def test_the_survey_excerpt_keeps_every_column_and_rule(tmp_path):
    """Counted by hand, not by populace: 0 universes, zeros and functions broken in any released row."""
    folder = SHARED / "nist-acs"
    words = [str(folder / "ma2019.json"), "--dictionary", str(folder / "data_dictionary.json")]
    schema = imported(tmp_path, *words, "--overlay", "nist-acs")
    data, out = folder / "ma2019.csv", tmp_path / "out"
    options = {"--schema": schema, "--epsilon": "1", "--delta": "1e-5", "--method": "mst", "--out": out}
    options |= {"--ledger": tmp_path / "ledger.db", "--rows": "100000"}
    assert main(["synth", str(data), *(str(word) for pair in options.items() for word in pair)]) == 0
    source = pd.read_csv(data, dtype=str, keep_default_na=False)
    table = pd.read_csv(out / "synthetic.csv", dtype=str, keep_default_na=False)
    assert list(table.columns) == list(source.columns)
    assert len(table) == 100_000
    age, quarters = table.AGEP.astype(int), table.HOUSING_TYPE != "1"
    for column, least in {"MSP": 15, "EDU": 3, "PINCP": 15, "PINCP_DECILE": 15, "DREM": 5, "DPHY": 5}.items():
        assert ((table[column] == "N") == (age < least)).all(), column
    for column, code in {"NOC": "N", "OWN_RENT": "0", "WGTP": "0"}.items():
        assert ((table[column] == code) == quarters).all(), column
    assert (table.INDP[age < 16] == "N").all()
    assert (table.DVET[age < 17] == "N").all()
    family, children = (pd.to_numeric(table[name], errors="coerce") for name in ("NPF", "NOC"))
    assert not (family <= children).any()
    assert (table.PUMA.map(dict(zip(source.PUMA, source.DENSITY, strict=True))) == table.DENSITY).all()
    industries = dict(zip(source.INDP, source.INDP_CAT, strict=True))
    known = table.INDP.isin(industries)
    assert (table.INDP[known].map(industries) == table.INDP_CAT[known]).all()
    # Codes and how they are written, too: 5000.0, 01 and 1 are different texts.
    for column in ("SEX", "MSP", "HISP", "RAC1P", "EDU", "DVET", "PUMA", "OWN_RENT", "PINCP_DECILE"):
        assert set(table[column]) <= set(source[column]) | {"4"}, column
    assert table.PINCP[table.PINCP != "N"].str.fullmatch(r"-?[0-9]+\.0").all()


@pytest.mark.slow
def test_rows_of_the_1940_schema_run_through_mst(tmp_path):
    """98 columns, some of 10,000 codes: rows of a documented model stand in for the confidential file."""
    folder = SHARED / "nist2018-colorado"
    words = [str(folder / "colorado-specs.json"), "--dictionary", str(folder / "codebook.cbk")]
    schema = Schema.load(imported(tmp_path, *words, "--overlay", "nist2018"))
    assert len(schema.columns) == 98
    table = simulate_rows(schema, rows=3000, rng=np.random.default_rng(1940))
    release = pp.synthesize(
        table, schema=schema, epsilon=1, delta="1e-9", method="mst", ledger=tmp_path / "l.db"
    )
    assert release.table.schema == table.schema
    assert not any(TableCodec(schema).count_violations(release.table).values())


@pytest.mark.slow
def test_the_queries_for_1940_fit_its_schema(tmp_path):
    """Wage bins 0 | 1–9 | 10–19 | 20–50 | 51 of the challenge's winner, in hundreds; cities by state."""
    folder = SHARED / "nist2018-colorado"
    words = [str(folder / "colorado-specs.json"), "--dictionary", str(folder / "codebook.cbk")]
    schema = Schema.load(imported(tmp_path, *words, "--overlay", "nist2018"))
    queries = EXAMPLES.parent / "workloads" / "census1940.toml"
    rounds = Workload.load(queries, schema).rounds
    bins = (0, *[1] * 9, *[2] * 10, *[3] * 31, 4)
    assert {own.groups for groupings in rounds.coarse.values() for own in groupings} == {bins}
    cities, labels = rounds.column("CITY").classes, schema.columns["CITY"].labels
    denver = schema.columns["CITY"].level(
        next(code for code, label in labels.items() if label == "Denver, CO")
    )
    same = [schema.columns["CITY"].values[code] for code in cities.members[cities.groups[denver]]]
    assert len(same) > 3
    assert all(labels[code].endswith(", CO") for code in same)


@pytest.mark.slow
def test_rows_of_the_1940_schema_run_through_its_queries(tmp_path):
    folder = SHARED / "nist2018-colorado"
    words = [str(folder / "colorado-specs.json"), "--dictionary", str(folder / "codebook.cbk")]
    schema = Schema.load(imported(tmp_path, *words, "--overlay", "nist2018"))
    table = simulate_rows(schema, rows=3000, rng=np.random.default_rng(1940))
    release = pp.synthesize(
        table,
        schema=schema,
        epsilon=1,
        delta="1e-9",
        method="nist2018",
        workload=EXAMPLES.parent / "workloads" / "census1940.toml",
        ledger=tmp_path / "l.db",
    )
    assert release.table.schema == table.schema
    assert not any(TableCodec(schema).count_violations(release.table).values())
