"""Files: every format gives the same table, errors name no data."""

import gzip
import sqlite3
import sys
from decimal import Decimal

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pf
import pyarrow.parquet as pq
import pytest

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.tables import read_columns
from corrdp.tables._files import iter_batches, read_table

FRAME = pd.DataFrame({"age": [1, 2, 3], "name": ["a", None, "c"], "x": [0.5, 1.5, 2.5]})


@pytest.fixture
def files(tmp_path):
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    FRAME.to_csv(tmp_path / "t.csv", index=False)
    FRAME.to_csv(tmp_path / "t.csv.gz", index=False)
    FRAME.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    FRAME.to_json(tmp_path / "t.jsonl", orient="records", lines=True)
    FRAME.to_json(tmp_path / "t.ndjson.gz", orient="records", lines=True)
    pq.write_table(table, tmp_path / "t.parquet")
    pf.write_feather(table, tmp_path / "t.feather")
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as stream,
    ):
        stream.write_table(table)
    with sqlite3.connect(tmp_path / "t.db") as connection:
        FRAME.to_sql('odd "name"', connection, index=False)
    connection.close()
    return tmp_path


def test_text_of_a_database_that_is_no_unicode_is_a_cell_like_others(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table t (a)")
        connection.execute("insert into t values ('x'), (cast(x'fffe' as text))")
    connection.close()
    read = read_table(f"{tmp_path}/t.db::t", number_columns=[])["a"].to_pylist()
    assert read == ["x", "\ufffd\ufffd"]


@pytest.mark.parametrize(
    "name",
    [
        "t.csv",
        "t.csv.gz",
        "t.tsv",
        "t.jsonl",
        "t.ndjson.gz",
        "t.parquet",
        "t.feather",
        "t.arrow",
        't.db::odd "name"',
    ],
)
def test_every_format_gives_the_same_table(files, name):
    read = read_table(f"{files}/{name}", number_columns=["x"])
    assert read.column_names == list(FRAME.columns)
    assert [text or None for text in read["name"].to_pylist()] == ["a", None, "c"]
    assert read.column("age").to_pylist() == ["1", "2", "3"]
    assert read.column("x").to_pylist() == [0.5, 1.5, 2.5]
    texts = read_table(f"{files}/{name}", ["x"], number_columns=[])
    assert texts.column("x").to_pylist() == ["0.5", "1.5", "2.5"]
    chosen = list(
        iter_batches(f"{files}/{name}", ["x", "age"], number_columns=[], batch_rows=2)
    )
    assert [batch.num_rows for batch in chosen] == [2, 1]
    assert chosen[0].column_names == ["x", "age"]


def test_duckdb_tables_are_read(tmp_path):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("create table t as select * from range(5) r(age)")
        connection.execute("create schema old")
        connection.execute("create table old.t as select * from range(9) r(age)")
        connection.execute("create table old.alone as from old.t")
    read = read_table(f"{tmp_path}/t.duckdb::t", number_columns=[])
    assert read.column("age").to_pylist() == ["0", "1", "2", "3", "4"]
    for absent in ("other", "alone"):
        with pytest.raises(CorrDPError, match=f"no table '{absent}'"):
            read_table(f"{tmp_path}/t.duckdb::{absent}", number_columns=[])


def test_globs_are_read_in_order(files):
    (files / "t.parquet").rename(files / "part-1.parquet")
    pq.write_table(pa.table({"age": [9]}), files / "part-2.parquet")
    read = read_table(f"{files}/part-*.parquet", ["age"], number_columns=["age"])
    assert read.column("age").to_pylist() == [1, 2, 3, 9]


def test_declared_numbers_are_floats_and_all_else_is_text(tmp_path):
    (tmp_path / "n.csv").write_text("a,b\n1,NA\n2,\nx,3\n")
    read = read_table(tmp_path / "n.csv", number_columns=["a"])
    assert [str(field.type) for field in read.schema] == ["double", "string"]
    assert read.column("a").to_pylist() == [1.0, 2.0, None]
    assert read.column("b").to_pylist() == ["NA", "", "3"]


def test_nobody_can_forget_to_say_which_columns_are_numbers(files):
    with pytest.raises(TypeError, match="number_columns"):
        read_table(files / "t.csv")
    with pytest.raises(TypeError, match="number_columns"):
        iter_batches(files / "t.csv")


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("none.csv", None, "no file"),
        ("none-*.csv", None, "must match"),
        ("t.csv", ["absent"], "lacks the columns 'absent'"),
        ("t.parquet", ["absent"], "lacks the columns 'absent'"),
        ("t.arrow", ["absent"], "lacks the columns 'absent'"),
        ("t.db::absent", None, "no table 'absent'"),
        ('t.db::odd "name"', ["absent"], "lacks the columns"),
        ("t.parquet::t", None, "neither an SQLite nor a DuckDB"),
        ("t.xlsx", None, "format"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_remedy(files, name, columns, message):
    (files / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(CorrDPError, match=message):
        read_table(f"{files}/{name}", columns, number_columns=[])


def test_absent_columns_are_policy_errors(files):
    with pytest.raises(PolicyError):
        read_table(files / "t.csv", ["absent"], number_columns=[])


def test_a_parser_that_quotes_rows_is_not_quoted(tmp_path):
    (tmp_path / "broken.csv").write_text("a,b\n1,2\n1,SECRET,3\n")
    with pytest.raises(CorrDPError) as caught:
        read_table(tmp_path / "broken.csv", number_columns=[])
    assert "SECRET" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_parts_of_different_types_are_read_as_declared(tmp_path):
    pq.write_table(pa.table({"a": [1.0]}), tmp_path / "p1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "p2.parquet")
    large = pa.table({"a": pa.array(["2"], pa.large_string())})
    pq.write_table(large, tmp_path / "p3.parquet")
    read = read_table(f"{tmp_path}/p*.parquet", number_columns=[])
    assert read.column("a").to_pylist() == ["1", "x", "2"]
    numbers = read_table(f"{tmp_path}/p*.parquet", number_columns=["a"])
    assert numbers.column("a").to_pylist() == [1.0, None, 2.0]


@pytest.mark.parametrize("package", ["pyarrow", "duckdb"])
def test_absent_packages_are_named_with_the_command(tmp_path, monkeypatch, package):
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute("create table t as select * from range(5) r(age)")
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(CorrDPError, match=f"needs {package}.*pip install"):
        read_table(f"{tmp_path}/t.duckdb::t", number_columns=[])


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_told_with_the_conversion_that_works(encoding, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("\ufeff".encode(encoding)[:2] + "a,b\n1,2\n".encode(encoding))
    with pytest.raises(CorrDPError, match=r"is UTF-16\. .*iconv -f utf-16 -t utf-8"):
        read_table(path, number_columns=())


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_empty_lines_before_the_names_are_no_rows(start, mark, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes((start + mark * 2 + f"a,b{mark}1,2{mark}").encode())
    assert read_table(path, number_columns=()).to_pylist() == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize(
    ("name", "mark", "word"),
    [
        ("t.csv", ";", "semicolons"),
        ("t.csv", "\t", "tabs"),
        ("t.csv", "|", "bars"),
        ("t.tsv", ",", "commas"),
    ],
)
def test_names_between_other_marks_are_told(name, mark, word, tmp_path):
    path = tmp_path / name
    path.write_text(mark.join("ab") + "\n1,5" + mark + "x\n")
    with pytest.raises(CorrDPError, match=f"stand between {word}"):
        read_table(path, number_columns=())
    alone = tmp_path / "alone.csv"
    alone.write_text('"a;b"\n1\n')  # a column that really has this name
    assert read_table(alone, columns=["a;b"], number_columns=()).num_rows == 1


@pytest.mark.parametrize("mark", [",", ";", "\t"])
@pytest.mark.parametrize("line", ["sep={}\r\n", '\ufeff"sep={}"\n'])
def test_a_line_that_tells_excel_of_marks_is_told(line, mark, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(line.format(mark) + mark.join("ab") + "\n1" + mark + "2\n")
    with pytest.raises(CorrDPError, match="tells Excel what stands between cells"):
        read_table(path, number_columns=())
    alone = tmp_path / "alone.csv"
    alone.write_text('"sep=;"\n1\n')  # a column that really has this name
    assert read_table(alone, columns=["sep=;"], number_columns=()).num_rows == 1


def test_rows_of_a_database_come_in_one_order_whatever_is_asked_for(tmp_path):
    """An index that holds all that is wanted has another: that of the cells."""
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table t (age int, name text)")
        connection.execute("create index by_age on t (age)")
        rows = [(5, "x"), (1, "y"), (3, "z")]
        connection.executemany("insert into t values (?, ?)", rows)
        connection.execute("create table keyed (age int primary key) without rowid")
        connection.execute("insert into keyed values (2)")
        connection.execute("create view seen as select name from t")
    connection.close()
    path = f"{tmp_path}/t.db::t"
    for names in (["age"], ["age", "name"], ["name", "age"]):
        read = read_table(path, names, number_columns=["age"])
        assert read["age"].to_pylist() == [5.0, 1.0, 3.0]
    keyed = read_table(f"{tmp_path}/t.db::keyed", number_columns=["age"])
    assert keyed["age"].to_pylist() == [2.0]
    seen = read_table(f"{tmp_path}/t.db::seen", number_columns=[])
    assert seen["name"].to_pylist() == ["x", "y", "z"]


@pytest.mark.parametrize("text", ["0.3", "2.675", "-242.19590222936", "19.99", "7"])
def test_a_decimal_is_the_number_that_its_text_spells(text, tmp_path):
    (tmp_path / "t.csv").write_text(f"x\n{text}\n")
    for kind in (pa.decimal128(38, 18), pa.decimal256(60, 20)):
        table = pa.table({"x": pa.array([Decimal(text), None], kind)})
        pq.write_table(table, tmp_path / "t.parquet")
        read = [
            read_table(tmp_path / name, number_columns=["x"])["x"][0].as_py()
            for name in ("t.csv", "t.parquet")
        ]
        assert read == [float(text)] * 2


@pytest.mark.parametrize("row", ['3,"c', '3,"c""', '3,"c\n4,d\n5,e'])
def test_a_quote_that_is_left_open_is_refused(tmp_path, row):
    """It would swallow the rows after it, in silence: others than its own."""
    path = tmp_path / "t.csv"
    path.write_text(f"age,name\n1,a\n2,b\n{row}\n6,f\n")
    with pytest.raises(CorrDPError, match="quotation mark and does not end"):
        read_table(path, ["age", "name"], number_columns=["age"])


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r"])
@pytest.mark.parametrize("row", ["3,c", '3,"c"', '3,c"', '3,"c\nd"', '3,""'])
def test_the_last_row_is_read_however_it_ends(tmp_path, row, end):
    path = tmp_path / "t.csv"
    path.write_text(f"age,name\n1,a\n{row}{end}", newline="")
    table = read_table(path, ["name", "age"], number_columns=["age"])
    assert table["age"].to_pylist() == [1.0, 3.0]
    assert read_table(path, ["age"], number_columns=[])["age"].to_pylist() == ["1", "3"]


def test_many_columns_and_small_blocks_end_alike(tmp_path, monkeypatch):
    monkeypatch.setattr("corrdp.tables._formats.CSV_BLOCK_BYTES", 2**16)
    names = [f"c{i}" for i in range(400)]
    lines = [",".join(names)] + [",".join([str(row)] * 400) for row in range(200)]
    for end in ("", "\n"):
        (tmp_path / "t.csv").write_text("\n".join(lines) + end)
        table = read_table(tmp_path / "t.csv", ["c0", "c399"], number_columns=["c0"])
        assert table["c0"].to_pylist() == list(map(float, range(200)))
        assert table["c399"].to_pylist() == list(map(str, range(200)))


def test_lines_before_the_only_name_may_be_empty(tmp_path):
    (tmp_path / "t.csv").write_text("\n\nage\n\n1\n")
    table = read_table(tmp_path / "t.csv", ["age"], number_columns=["age"])
    assert table["age"].to_pylist() == [None, 1.0]


@pytest.mark.parametrize("name", ["t.CSV.GZ", "t.tsv-export.csv.gz", "T.Csv"])
def test_the_end_of_a_name_says_what_a_file_is(tmp_path, name):
    text = b"age,name\n1,a\n"
    packed = gzip.compress(text) if name.lower().endswith("gz") else text
    (tmp_path / name).write_bytes(packed)
    table = read_table(tmp_path / name, ["age"], number_columns=["age"])
    assert table["age"].to_pylist() == [1.0]


def test_generated_columns_are_columns(tmp_path):
    with sqlite3.connect(tmp_path / "t.db") as connection:
        connection.execute("create table t (a, b as (a * 2))")
        connection.execute("insert into t (a) values (3)")
    connection.close()
    table = read_table(f"{tmp_path}/t.db::t", ["b"], number_columns=["b"])
    assert table["b"].to_pylist() == [6.0]


@pytest.mark.parametrize("name", [7, " 7", "\uff17"])
def test_names_that_are_written_in_another_way_are_told(name):
    with pytest.raises(PolicyError, match="which is another name"):
        read_columns(pd.DataFrame({name: [1.0]}), ["7"])


def test_letters_that_are_put_together_in_another_way_are_told(tmp_path):
    (tmp_path / "t.csv").write_text("e\u0301t\u00e9,b\n1,2\n", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"has 'e\\u0301t\\xe9', which is another"):
        read_table(tmp_path / "t.csv", ["\u00e9t\u00e9"], number_columns=[])
