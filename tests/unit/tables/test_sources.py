"""Directories, datasets, readers, lazy frames and relations are read alike."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.tables import (
    _files,
    files_of,
    is_source,
    iter_batches,
    read_table,
    table_fingerprint,
)

TABLE = pa.table(
    {
        "age": [1.5, None, 3.0, 40.0, 5.0],
        "job": ["a", "01", None, "a", "NA"],
        "other": [1, 2, 3, 4, 5],
    }
)
NAMES, NUMBERS = ["job", "age"], ["age"]


def _dataset(path):
    import pyarrow.dataset as ds

    return ds.dataset(path / "whole.parquet")


def _memory(path):
    import pyarrow.dataset as ds

    return ds.dataset(TABLE)


def _filtered(path):
    import pyarrow.dataset as ds

    return _dataset(path).filter(ds.field("other") > 0)


def _reader(path):
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(2))


def _lazy(path):
    return pytest.importorskip("polars").from_arrow(TABLE).lazy()


def _relation(path):
    duckdb = pytest.importorskip("duckdb")
    return duckdb.connect().from_arrow(TABLE)


def _directory(path):
    return path / "parts"


def _glob(path):
    return str(path / "parts" / "**" / "*.parquet")


SOURCES = [_dataset, _memory, _filtered, _reader, _lazy, _relation, _directory, _glob]


@pytest.fixture
def path(tmp_path):
    parquet.write_table(TABLE, tmp_path / "whole.parquet")
    (tmp_path / "parts" / "b").mkdir(parents=True)
    parquet.write_table(TABLE.slice(0, 2), tmp_path / "parts" / "a.parquet")
    parquet.write_table(TABLE.slice(2), tmp_path / "parts" / "b" / "b.parquet")
    (tmp_path / "parts" / "_SUCCESS").write_text("")
    (tmp_path / "parts" / ".hidden").mkdir()
    (tmp_path / "parts" / ".hidden" / "x.csv").write_text("job,age\nz,9\n")
    return tmp_path


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_every_source_gives_the_cells_of_the_file(source, batch_rows, path):
    if source is _glob:
        (path / "parts" / "b" / "b.parquet").rename(path / "parts" / "b.parquet")
        source_of = str(path / "parts" / "*.parquet")
    else:
        source_of = source(path)
    assert is_source(source_of)
    expected = read_table(path / "whole.parquet", NAMES, number_columns=NUMBERS)
    batches = list(
        iter_batches(source_of, NAMES, number_columns=NUMBERS, batch_rows=batch_rows)
    )
    assert max(batch.num_rows for batch in batches) <= batch_rows
    assert pa.concat_tables(batches).to_pydict() == expected.to_pydict()


@pytest.mark.parametrize("source", SOURCES[:-1])
def test_an_absent_column_is_named_and_no_cell(source, path):
    with pytest.raises(PolicyError, match="lacks the columns 'absent'"):
        list(iter_batches(source(path), ["absent"], number_columns=()))


def test_frames_are_no_sources():
    assert not is_source(TABLE)
    assert not is_source(TABLE.to_pandas())
    assert not is_source([[1]])


def test_folders_name_columns(tmp_path):
    for place, rows in (("year=2020/job=a%20b", 1), ("year=x/job=01", 2)):
        (tmp_path / place).mkdir(parents=True)
        csv.write_csv(TABLE.select(["age"]).slice(2, rows), tmp_path / place / "p.csv")
    nowhere = tmp_path / "year=__HIVE_DEFAULT_PARTITION__" / "job=c"
    nowhere.mkdir(parents=True)
    csv.write_csv(TABLE.select(["age"]).slice(4), nowhere / "p.csv")
    table = read_table(tmp_path, ["job", "year", "age"], number_columns=["year", "age"])
    assert table.to_pydict() == {
        "job": ["a b", "c", "01", "01"],
        "year": [2020.0, None, None, None],
        "age": [3.0, 5.0, 3.0, 40.0],
    }
    alone = read_table(tmp_path, ["job"], number_columns=())
    assert alone.to_pydict() == {"job": ["a b", "c", "01", "01"]}
    assert set(read_table(tmp_path, number_columns=()).column_names) == {
        "job",
        "year",
        "age",
    }


def test_folders_go_before_columns_of_their_files(tmp_path):
    (tmp_path / "age=7").mkdir()
    csv.write_csv(TABLE, tmp_path / "age=7" / "p.csv")
    for columns in (None, TABLE.column_names):
        table = read_table(tmp_path, columns, number_columns=["age"])
        assert set(table["age"].to_pylist()) == {7.0}
        assert sorted(table.column_names) == sorted(TABLE.column_names)


def test_a_file_does_not_decide_how_another_is_read(tmp_path):
    parquet.write_table(pa.table({"code": [1, 2]}), tmp_path / "a.parquet")
    parquet.write_table(pa.table({"code": ["01", "x"]}), tmp_path / "b.parquet")
    table = read_table(tmp_path, ["code"], number_columns=())
    assert table["code"].to_pylist() == ["1", "2", "01", "x"]


def test_links_are_followed_and_lead_somewhere(tmp_path):
    table, elsewhere = tmp_path / "table", tmp_path / "elsewhere"
    table.mkdir()
    elsewhere.mkdir()
    parquet.write_table(TABLE, elsewhere / "a.parquet")
    (table / "k=1").symlink_to(elsewhere)
    (table / "b.parquet").symlink_to(elsewhere / "a.parquet")
    (elsewhere / "circle").symlink_to(table)
    assert files_of(table) == [table / "b.parquet", table / "k=1" / "a.parquet"]
    (elsewhere / "c.parquet").symlink_to(tmp_path / "not fetched")
    with pytest.raises(CorrDPError, match=r"k=1/c.parquet' leads nowhere"):
        list(iter_batches(table, NAMES, number_columns=NUMBERS))


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(CorrDPError, match="there is no file in"):
        list(iter_batches(tmp_path, number_columns=()))


class PanicException(BaseException):
    """As polars raises, which is no Exception."""


@pytest.mark.parametrize("error", [ValueError, PanicException])
def test_errors_of_a_reader_quote_nothing(error, monkeypatch):
    def batches(*_):
        yield TABLE.to_batches()[0]
        raise error("row: MARKER")

    monkeypatch.setitem(_files._READERS, "pyarrow.RecordBatchReader", batches)
    reader = TABLE.to_reader()
    with pytest.raises(CorrDPError, match="RecordBatchReader") as caught:
        list(iter_batches(reader, NAMES, number_columns=NUMBERS))
    assert "MARKER" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("source", [_dataset, _lazy, _relation, _directory])
def test_a_fingerprint_is_that_of_the_table_in_memory(source, path):
    held = read_table(path / "whole.parquet", NAMES, number_columns=NUMBERS)
    expected = table_fingerprint(held, key=b"k", names=NAMES)
    terms = {"key": b"k", "names": NAMES, "number_columns": NUMBERS}
    assert table_fingerprint(source(path), **terms) == expected
    assert expected["n_rows"] == TABLE.num_rows


def test_a_reader_cannot_be_fingerprinted(path):
    with pytest.raises(CorrDPError, match="can be read once"):
        table_fingerprint(_reader(path), key=b"k", names=NAMES)


def test_files_of_a_source(path):
    assert files_of(path / "parts") == [
        path / "parts" / "a.parquet",
        path / "parts" / "b" / "b.parquet",
    ]
    # Its files do not tell whether a dataset is filtered.
    assert files_of(_dataset(path)) is None
    assert files_of(_reader(path)) is None
    assert files_of(_memory(path)) is None


@pytest.mark.parametrize("log", ["rows.db-wal", "rows.db-journal", "rows.db.wal"])
def test_files_of_a_database_are_those_beside_it_too(tmp_path, log):
    for name in ("rows.db", log):
        (tmp_path / name).touch()
    found = files_of(f"{tmp_path / 'rows.db'}::t")
    assert found == [tmp_path / "rows.db", tmp_path / log]


def test_a_file_is_not_kept_in_memory_while_it_is_read(tmp_path):
    numbers = pa.table({"x": np.random.default_rng(0).random(2**18)})
    path = tmp_path / "table.parquet"
    parquet.write_table(numbers, path, row_group_size=2**12)  # 64 groups, 2 MB
    del numbers
    before = pa.total_allocated_bytes()
    most = 0
    for _ in iter_batches(path, ["x"], number_columns=["x"], batch_rows=2**12):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < path.stat().st_size / 4


@pytest.mark.parametrize("beside", ["1", "q"])
def test_a_dataset_of_csv_files_guesses_no_types(tmp_path, beside):
    """One row more of digits, and pyarrow would take 01 for 1 and NA for missing."""
    import pyarrow.dataset as ds

    (tmp_path / "a=1").mkdir()
    (tmp_path / "a=1" / "t.csv").write_text(f"job,age\n01,1e3\nNA,\n{beside},x\n")
    data = ds.dataset(tmp_path, format="csv", partitioning="hive")
    names = [*NAMES, "a"]
    for joined in (data, ds.dataset([data])):
        held = read_table(joined, names, number_columns=NUMBERS).to_pydict()
        assert held["job"] == ["01", "NA", beside]
        assert held["age"] == [1000.0, None, None]
        assert held["a"] == ["1"] * 3
        with pytest.raises(CorrDPError, match="guesses the types"):
            read_table(joined.filter(ds.field("a") == 1), names, number_columns=())


def test_a_dataset_of_json_files_is_refused(tmp_path):
    import pyarrow.dataset as ds

    (tmp_path / "t.json").write_text('{"job": "2020-01-31T00:00:00"}\n')
    data = ds.dataset(tmp_path / "t.json", format="json")
    with pytest.raises(CorrDPError, match="guesses the types"):
        read_table(data, ["job"], number_columns=())


def test_lazy_frames_of_an_older_polars_are_refused_in_words(monkeypatch):
    polars = pytest.importorskip("polars")
    frame = polars.from_arrow(TABLE).lazy()
    monkeypatch.delattr(polars.LazyFrame, "collect_batches")
    with pytest.raises(CorrDPError, match=r"polars 1\.34 or newer. Collect the frame"):
        list(iter_batches(frame, NAMES, number_columns=NUMBERS))


def test_a_folder_that_cannot_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "part").mkdir()
    (tmp_path / "t.csv").write_text("a\n1\n")
    listed = Path.iterdir

    def closed(path):
        if path.name == "part":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    with pytest.raises(CorrDPError, match=r"part.*Permission denied"):
        read_table(tmp_path, number_columns=())
