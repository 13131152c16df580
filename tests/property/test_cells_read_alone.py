"""Change one cell, and only that row's code may change: all readers, all domains.

Tables are written as texts, as a program would that does not know the policy; readers
and frames then give them whatever types they like. A refusal is visible and documented
(docs/theory/encoder.md), so every domain here has a slot for everything.
"""

import io
import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from corrdp.leakage import CountLayout, count_codes, iter_codes
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Replace,
    Slot,
    number_columns,
)
from corrdp.queries._columns import read_groups
from corrdp.tables._files import read_table

DOMAINS = {
    "number": NumberDomain(0, 1000, 10, Slot()),
    "boolean": BooleanDomain(Slot()),
    "numbers as categories": CategoryDomain((250, 1, 1000), True, Slot()),
    "texts of numbers": CategoryDomain(("250.0", "01", "1e3"), True, Slot()),
    "words": CategoryDomain(
        ("V58", "never", "2020-01-01", "True", "NA", ""), True, Slot()
    ),
    "merged": CategoryDomain(("1", "2", "x"), True, Slot(), groups={"g": ["1", "x"]}),
}
POLICY = Policy(
    tuple(Feature(name, "sensitive", domain) for name, domain in DOMAINS.items()),
    Label("label", CategoryDomain((0, 1), True, Replace(0)), 1.0),
)
NAMES = [*DOMAINS, "label"]
NUMBERS = number_columns([*POLICY.features])

# what programs take for numbers, booleans, dates, missing values; and what they do not
CELLS = st.sampled_from(
    [
        *("250.0", "250", "1", "1.0", "01", "1e3", "1000", "0", "0.5", "-3", "inf"),
        *("True", "TRUE", "true", "False", "maybe", "V58", "x", "q", "2", "1,5"),
        *("2020-01-01", "2021-05-06", "never", "NA", "null", "", "nan", "None", " 1"),
    ]
)


# Tables are small as drawn, and each costs several files: shrinking is not worth it.
FEW = settings(max_examples=15, phases=[Phase.generate])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cells")


def as_csv(table, separator=","):
    return table.to_csv(index=False, sep=separator)


def from_csv(table, folder):
    (folder / "t.csv").write_text(as_csv(table))
    return read_table(folder / "t.csv", NAMES, number_columns=NUMBERS)


def from_tsv(table, folder):
    (folder / "t.tsv").write_text(as_csv(table, "\t"))
    return read_table(folder / "t.tsv", NAMES, number_columns=NUMBERS)


def from_parquet(table, folder):
    pq.write_table(pa.table(dict(table)), folder / "t.parquet")
    return read_table(folder / "t.parquet", NAMES, number_columns=NUMBERS)


def from_arrow(table, folder):
    coded = {name: pa.array(table[name]).dictionary_encode() for name in NAMES}
    pf.write_feather(pa.table(coded), folder / "t.arrow")
    return read_table(folder / "t.arrow", NAMES, number_columns=NUMBERS)


def from_json_lines(table, folder):
    """Write numbers as numbers where they are, and leave empty cells out."""
    rows = table.map(_typed).to_dict("records")
    lines = [json.dumps({n: c for n, c in row.items() if c != ""}) for row in rows]
    everything = json.dumps(dict.fromkeys(NAMES, "250"))
    (folder / "t.jsonl").write_text("\n".join([*lines, everything]))
    read = read_table(folder / "t.jsonl", NAMES, number_columns=NUMBERS)
    return read.slice(0, len(table))


def from_sqlite(table, folder):
    """Write columns without a type: SQLite keeps one type per cell."""
    (folder / "t.db").unlink(missing_ok=True)
    connection = sqlite3.connect(folder / "t.db")
    names = ", ".join(f'"{name}"' for name in NAMES)
    connection.execute(f"create table t ({names})")
    marks = ", ".join("?" * len(NAMES))
    rows = [[_typed(cell) for cell in row] for row in table.itertuples(index=False)]
    connection.executemany(f"insert into t values ({marks})", rows)
    connection.commit()
    connection.close()
    return read_table(f"{folder}/t.db::t", NAMES, number_columns=NUMBERS)


def _typed(cell):
    try:
        return float(cell) if cell.strip() == cell else cell
    except ValueError:
        return cell


def from_duckdb(table, folder):
    (folder / "t.duckdb").unlink(missing_ok=True)
    with duckdb.connect(str(folder / "t.duckdb")) as connection:
        names = ", ".join(f'"{name}" varchar' for name in NAMES)
        connection.execute(f"create table t ({names})")
        marks = ", ".join("?" * len(NAMES))
        connection.executemany(f"insert into t values ({marks})", table.values.tolist())
    return read_table(f"{folder}/t.duckdb::t", NAMES, number_columns=NUMBERS)


def pandas_inferred(table, folder):
    """Read as pandas does; told to keep ``NA``, which is a declared category here."""
    return pd.read_csv(io.StringIO(as_csv(table)), keep_default_na=False)


def pandas_in_pieces(table, folder):
    """Read piece by piece: every piece has types of its own, joined to objects."""
    text = io.StringIO(as_csv(table))
    return pd.concat(pd.read_csv(text, keep_default_na=False, chunksize=2))


def polars_inferred(table, folder):
    """Read as polars does; among numbers it drops the empty text, so none is taken."""
    return pl.read_csv(io.StringIO(as_csv(table)), infer_schema_length=None)


READERS = {
    "csv": from_csv,
    "tsv": from_tsv,
    "parquet": from_parquet,
    "arrow": from_arrow,
    "json lines": from_json_lines,
    "sqlite": from_sqlite,
    "duckdb": from_duckdb,
    "pandas, inferred": pandas_inferred,
    "pandas, in pieces": pandas_in_pieces,
    "pandas, objects": lambda table, _: table.astype(object),
    "pandas, categorical": lambda table, _: table.astype("category"),
    "pandas, chunked strings": lambda table, _: pd.concat(
        [table[:2].astype("str"), table[2:].astype("str")]
    ),
    "polars, inferred": polars_inferred,
    "polars": lambda table, _: pl.DataFrame(table.to_dict("list")),
    "polars, categorical": lambda table, _: pl.DataFrame(table.to_dict("list")).cast(
        pl.Categorical
    ),
    "pyarrow": lambda table, _: pa.table(dict(table)),
    "numpy objects": lambda table, _: table.to_numpy(dtype=object),
    "numpy texts": lambda table, _: table.to_numpy(dtype=str),
}


def codes_of(table):
    """Return everything that releases see of a table, one line per row."""
    encoder = PolicyEncoder(POLICY)
    if isinstance(table, np.ndarray):
        table, labels = table[:, :-1], table[:, -1]
    else:
        labels = table["label"]
    parts = [encoder.transform(table), encoder.codes(table)]
    parts.append(np.asarray(encoder.encode_label(labels))[:, None])
    asked = [read_groups(POLICY, table, name) for name in DOMAINS]
    counted = [
        chunk[n] for chunk in iter_codes(table, POLICY, list(DOMAINS)) for n in DOMAINS
    ]
    return np.column_stack([*parts, *asked, *counted])


@st.composite
def neighbors(draw):
    """Two tables of texts that differ in one cell, and the row of that cell."""
    n_rows = draw(st.integers(3, 6))
    common = draw(st.tuples(*[CELLS] * len(NAMES)))
    rows = [list(common) for _ in range(n_rows)]
    for row in rows[: draw(st.integers(0, n_rows))]:
        row[draw(st.integers(0, len(NAMES) - 1))] = draw(CELLS)
    table = pd.DataFrame(rows, columns=NAMES, dtype=object)
    place = draw(st.integers(0, n_rows - 1))
    changed = table.copy()
    changed.iloc[place, draw(st.integers(0, len(NAMES) - 1))] = draw(CELLS)
    return table, changed, place


@pytest.mark.parametrize("reader", READERS)
@FEW
@given(pair=neighbors())
def test_one_cell_changes_the_code_of_its_row_alone(reader, folder, pair):
    table, changed, place = pair
    if reader == "polars, inferred":
        table, changed = table.replace("", "x"), changed.replace("", "x")
    before = codes_of(READERS[reader](table, folder))
    after = codes_of(READERS[reader](changed, folder))
    others = np.arange(len(table)) != place
    np.testing.assert_array_equal(before[others], after[others])
    np.testing.assert_array_equal(before, codes_of(table.astype(object)))


@FEW
@given(pair=neighbors())
def test_counts_of_leakage_move_by_one_row(folder, pair):
    table, changed, _ = pair
    names = list(DOMAINS)
    n_codes = PolicyEncoder(POLICY).n_codes
    layout = CountLayout(
        n_codes, ("boolean",), {n: (n,) for n in names if n != "boolean"}
    )

    def counted(rows):
        (folder / "c.csv").write_text(as_csv(rows))
        chunks = iter_codes(folder / "c.csv", POLICY, names)
        return count_codes(chunks, layout, n_threads=1).tables

    for one, other in zip(counted(table), counted(changed), strict=True):
        assert np.abs(one - other).sum() <= 2
