"""Cells that libraries stumble over: their rows are coded, all others as before.

Every domain here has a slot for everything, so no table is refused, whatever one of its
rows holds (docs/theory/encoder.md).
"""

import datetime
import enum
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
)
from corrdp.tables import iter_batches, read_table, table_fingerprint

WORDS = CategoryDomain(("a", "1", "1970-01-01"), other=True, missing=Slot())
POLICIES = [
    Policy((Feature("x", "sensitive", WORDS),)),
    Policy((Feature("x", "sensitive", NumberDomain(0, 10, missing=Slot())),)),
]
FAR = 10**14  # in seconds: three million years from now
NO_UNICODE = pa.Array.from_buffers(
    pa.string(),
    2,
    [None, pa.array([0, 1, 2], pa.int32()).buffers()[1], pa.py_buffer(b"a\xff")],
)


def coded(table):
    return [PolicyEncoder(policy).transform(table) for policy in POLICIES]


def check_row_before(table, plain):
    """Check that the first row has the code that it has without the second one."""
    for together, alone in zip(coded(table), coded(plain), strict=True):
        assert len(together) == 2
        np.testing.assert_array_equal(together[0], alone[0])


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("1e" + "9" * 30, id="exponent"),
        pytest.param("0e-" + "9" * 30, id="negative exponent"),
        Fraction(10**400),
        np.timedelta64(1, "s"),
        np.timedelta64(1, "ns"),
        pytest.param([1, 2], id="list"),
        pytest.param((1, [2]), id="tuple"),
        pytest.param(np.arange(3), id="array"),
        pytest.param(10**5000, id="more digits than Python writes"),
        "\ud800",
        pytest.param(datetime.timedelta.max, id="timedelta"),
    ],
)
def test_objects(odd):
    table = pd.DataFrame({"x": pd.Series(["a", odd], dtype=object)})
    check_row_before(table, table[:1])
    # A ledger looks at the same cells.
    assert table_fingerprint(table, key=b"k") == table_fingerprint(table, key=b"k")
    other = pd.DataFrame({"x": pd.Series(["a", "b"], dtype=object)})
    assert table_fingerprint(table, key=b"k") != table_fingerprint(other, key=b"k")


@pytest.mark.parametrize("odd", ["1e" + "9" * 30, "0e" + "9" * 30, "0x10", "1_000"])
def test_texts_of_files(tmp_path, odd):
    for name, rows in {"two": ["a", odd], "one": ["a"]}.items():
        lines = ["x,y", *(f"{row},1" for row in rows)]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    two, one = (
        read_table(tmp_path / f"{name}.csv", ["x"], number_columns=())
        for name in ("two", "one")
    )
    check_row_before(two, one)


FAR_DAYS = [
    pa.array([0, FAR], pa.timestamp("s")),
    pa.array([0, FAR * 1000], pa.timestamp("ms", "UTC")),
    pa.array([0, 10**9], pa.int32()).cast(pa.date32()),
    pa.array([0, 10**18], pa.duration("s")),
]


@pytest.mark.parametrize("days", FAR_DAYS, ids=lambda days: str(days.type))
def test_days_that_python_cannot_hold(tmp_path, days):
    table = pa.table({"x": days})
    check_row_before(table, table[:1])
    if days.type != pa.duration("s"):  # which polars does not have
        check_row_before(pl.from_arrow(table), pl.from_arrow(table[:1]))
    pq.write_table(table, tmp_path / "t.parquet")
    for numbers in ([], ["x"]):
        read = read_table(tmp_path / "t.parquet", number_columns=numbers)
        check_row_before(read, read[:1])


def test_text_that_is_no_unicode(tmp_path):
    table = pa.table({"x": NO_UNICODE})
    check_row_before(table, table[:1])
    pq.write_table(table, tmp_path / "t.parquet")
    for numbers in ([], ["x"]):
        read = read_table(tmp_path / "t.parquet", number_columns=numbers)
        read.validate(full=True)
        check_row_before(read, read[:1])


def test_categories_of_several_types():
    levels = pd.CategoricalDtype(["a", b"\xff", 1])
    table = pd.DataFrame({"x": pd.Series(["a", b"\xff"]).astype(levels)})
    check_row_before(table, table[:1])


def test_integers_of_128_bits():
    table = pl.DataFrame({"x": pl.Series([1, 2**100], dtype=pl.Int128)})
    check_row_before(table, table[:1])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("empty", ["", '""'])
def test_an_empty_cell_of_a_single_column_is_a_row(tmp_path, end, empty):
    """The number of rows is public: it must not say that a cell is empty."""
    path = tmp_path / "t.csv"
    path.write_text(end.join(["x", "1", empty, "3", ""]), newline="")
    (batch,) = iter_batches(path, number_columns=["x"])
    assert batch["x"].to_pylist() == [1.0, None, 3.0]
    path.write_text(end.join(["x", empty, ""]), newline="")
    (batch,) = iter_batches(path, number_columns=["x"])
    assert batch["x"].to_pylist() == [None]


def test_bytes_are_texts_whatever_the_door(tmp_path):
    table = pa.table({"x": [b"a", b"b", b"\xff"]})
    pq.write_table(table, tmp_path / "x.parquet")
    encoder = PolicyEncoder(
        Policy((Feature("x", "sensitive", CategoryDomain(("a", "b"), other=True)),))
    )
    read = read_table(tmp_path / "x.parquet", ["x"], number_columns=())
    doors = (read, table, table.to_pandas(), pl.from_arrow(table))
    assert [encoder.codes(door)[:, 0].tolist() for door in doors] == [[0, 1, 2]] * 4


@pytest.mark.parametrize("kind", ["parquet", "arrow", "pandas"])
def test_a_cell_that_is_no_text_makes_a_column_of_bytes_and_no_other_number(
    kind, tmp_path
):
    table = pa.table({"x": pa.array([b"7", b"\xff"], pa.binary())})
    if kind == "parquet":
        pq.write_table(table, tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet", number_columns=["x"])
    elif kind == "pandas":
        table = table.to_pandas()
    numbers = PolicyEncoder(POLICIES[1])
    expected = numbers.transform(pa.table({"x": ["7"]}))[0]
    np.testing.assert_array_equal(numbers.transform(table)[0], expected)


@pytest.mark.parametrize("odd", [np.float32(1.5), np.int8(1), 1j])
def test_levels_of_days_and_of_what_arrow_does_not_join_with_them(odd):
    cells = pd.Series([pd.Timestamp("1970-01-01"), odd], dtype=object)
    table = pd.DataFrame({"x": cells.astype("category")})
    check_row_before(table, pd.DataFrame({"x": cells[:1].astype("category")}))
    assert table_fingerprint(table, key=b"k") == table_fingerprint(table, key=b"k")


@pytest.mark.parametrize("cell", [1, 1.5, np.int8(1), True])
@pytest.mark.parametrize(
    "day",
    [
        datetime.date(2020, 1, 31),
        datetime.datetime(2020, 1, 31),
        np.datetime64("2020-01-31"),
        pd.Timestamp("2020-01-31", tz="UTC"),
    ],
)
def test_a_number_beside_a_day_stays_a_number_among_levels(cell, day):
    """Arrow would give both one type: a day."""
    cells = pd.Series([cell, day], dtype=object)
    for kind in ("category", pd.CategoricalDtype([day, cell], ordered=True)):
        table = pd.DataFrame({"x": cells.astype(kind)})
        check_row_before(table, pd.DataFrame({"x": cells[:1]}))


@pytest.mark.parametrize("kind", [float, int, object])
def test_a_masked_cell_is_missing(kind):
    cells = np.ma.masked_array(np.array([[1], [9]], dtype=kind), mask=[[0], [1]])
    plain = np.array([[1], [None]], dtype=object)
    for policy in POLICIES:
        encoder = PolicyEncoder(policy)
        found, expected = map(encoder.transform, (cells, plain))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_a_day_that_is_not_masked_stays_a_day(unit):
    """Numpy would make a list of plain integers of nanoseconds."""
    days = CategoryDomain(["2020-01-31"], other=True, missing=Slot())
    encoder = PolicyEncoder(Policy((Feature("x", "sensitive", days),)))
    cells = np.array([["2020-01-31"], ["2020-01-31"]], dtype=f"datetime64[{unit}]")
    masked = np.ma.masked_array(cells, mask=[[0], [1]])
    assert encoder.codes(masked).ravel().tolist() == [0, 2]


def test_names_that_are_no_texts_are_told_as_absent():
    levels = pd.MultiIndex.from_tuples([("x", "y")])
    for columns in ([0], levels):
        with pytest.raises(PolicyError, match="lacks the columns 'x'"):
            PolicyEncoder(POLICIES[0]).transform(pd.DataFrame([["a"]], columns=columns))


Word = enum.Enum("Word", {"A": "a"}, type=str)


@pytest.mark.parametrize("odd", ["b", pytest.param([1, 2], id="list")])
def test_members_of_an_enumeration_of_texts_say_their_text(odd):
    """Python writes them as ``Word.A``; a list beside them cannot be hashed."""
    table = pd.DataFrame({"x": pd.Series([Word.A, odd], dtype=object)})
    check_row_before(table, pd.DataFrame({"x": ["a"]}))
    listed = pl.DataFrame({"x": pl.Series([Word.A, "b"], dtype=pl.Object)})
    check_row_before(listed, pd.DataFrame({"x": ["a"]}))


@pytest.mark.parametrize("cell", [1, 0.5, 3, 1e300, float("nan")])
def test_a_complex_cell_leaves_the_numbers_beside_it(cell):
    table = pd.DataFrame({"x": [cell, 1j]})
    assert table["x"].dtype == complex
    check_row_before(table, pd.DataFrame({"x": [cell]}))
