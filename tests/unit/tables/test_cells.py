"""Cells: one canonical text and one number each, whatever type holds them."""

import datetime
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corrdp.tables._cells import (
    NO_TEXT,
    canonical_text,
    is_missing,
    loose_text,
    number_array,
    number_column,
    number_of,
    text_array,
    text_column,
)

DAY = datetime.date(2020, 1, 31)
NOON = datetime.datetime(2020, 1, 31, 12)
MIDNIGHT = datetime.datetime(2020, 1, 31)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1.0", "1.0"),
        (np.str_("a"), "a"),
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (np.float32(2.5), "2.5"),
        (np.int8(3), "3"),
        (np.bool_(True), "true"),
        (False, "false"),
        (math.inf, "inf"),
        (2**63 + 1, "9223372036854775809"),
        pytest.param(10**5000, None, id="too long to write"),
        (Decimal("250.00"), "250"),
        (Decimal(2**60 + 1), str(2**60 + 1)),
        (Decimal("-0"), "0"),
        (Decimal("0.1"), "0.1"),
        (Decimal("NaN"), None),
        (DAY, "2020-01-31"),
        (MIDNIGHT, "2020-01-31"),
        (pd.Timestamp(MIDNIGHT), "2020-01-31"),
        (np.datetime64("2020-01-31", "ns"), "2020-01-31"),
        (NOON, "2020-01-31 12:00:00"),
        (pd.Timestamp(NOON), "2020-01-31 12:00:00"),
        (object(), None),
        (b"a", "a"),
        (b"\xff", "\ufffd"),
    ],
)
def test_canonical_text(value, text):
    assert canonical_text(value) == text


@pytest.mark.parametrize(
    ("text", "loose"),
    [
        ("250.0", "250"),
        ("01", "1"),
        ("+1", "1"),
        (" 1e3\t", "1000"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0.0", "0"),
        ("9007199254740993", "9007199254740993"),
        pytest.param("1" * 5000, "1" * 5000, id="many digits"),
        ("True", "1"),
        (" TRUE", "1"),
        ("false", "0"),
        ("tRUE", "tRUE"),
        ("V58", "V58"),
        ("1,5", "1,5"),
        ("1_000", "1_000"),
        ("0x10", "0x10"),
        ("١", "١"),
        ("nan", "nan"),
        ("2020-01-01", "2020-01-01"),
        ("", ""),
    ],
)
def test_loose_text(text, loose):
    assert loose_text(text) == loose


@pytest.mark.parametrize(
    "value", [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, Decimal("sNaN")]
)
def test_missing_objects(value):
    assert is_missing(value)
    assert math.isnan(number_of(value))


@pytest.mark.parametrize("value", [0, "", "NA", False, Decimal(0), [], b"", DAY])
def test_objects_that_are_not_missing(value):
    assert not is_missing(value)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (True, 1.0),
        (np.bool_(True), 1.0),
        (Decimal("0.5"), 0.5),
        pytest.param(10**400, math.inf, id="huge"),
        pytest.param(-(10**400), -math.inf, id="minus huge"),
        ("TRUE", 1.0),
        ("False", 0.0),
        ("1e3", 1000.0),
        (" -.5 ", -0.5),
        (b" -.5 ", -0.5),
        ("1e999", math.inf),
        ("-Infinity", -math.inf),
        ("INF", math.inf),
    ],
)
def test_numbers(value, number):
    assert number_of(value) == number


@pytest.mark.parametrize(
    "value", ["V58", "", "1,5", "1_0", "nan", b"\xff", [1], DAY, "١"]
)
def test_cells_that_say_no_number(value):
    assert math.isnan(number_of(value))


numerals = st.from_regex(r"\A[ +-]?[0-9]{0,4}\.?[0-9]{0,20}([eE][+-]?[0-9]{1,4})?\Z")
words = st.sampled_from(
    ["", "NA", "nan", "-nan", "nan(1)", "inf", "-Infinity", "1e999", "1e-999", "0x1"]
)
texts = numerals | words | st.floats().map(repr) | st.text(max_size=4)


@given(st.lists(texts, min_size=1, max_size=8), texts)
@example(["1", "nan(1)"], "x")
@example(["inf", "-nan", "+1", " 2", "1e999", "1e-999", "5.", ".5"], "x")
def test_arrow_reads_a_number_as_python_does_whatever_stands_beside_it(cells, beside):
    expected = [None if (n := number_of(t)) != n else n for t in cells]
    for column in (cells, [*cells, beside], [*cells, "V58", None]):
        for kind in (pa.string(), pa.large_string()):
            read = number_column(pa.chunked_array([column], kind)).to_pylist()
            assert read[: len(cells)] == expected
    assert number_array([*cells, beside]).to_pylist()[:-1] == expected


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None]), ["1", None]),
        (pa.array([1.0, 2.5, math.nan, None]), ["1", "2.5", None, None]),
        (pa.array([True, None]), ["true", None]),
        (pa.array(["NA", "", None]), ["NA", "", None]),
        (pa.array([None, None]), [None, None]),
        (pa.array([DAY, None]), ["2020-01-31", None]),
        (pa.array([MIDNIGHT, NOON]), ["2020-01-31", "2020-01-31 12:00:00"]),
        (pa.array([Decimal("250.00"), None]), ["250", None]),
        (pa.array(["a", None, "a"]).dictionary_encode(), ["a", None, "a"]),
        (pa.array([1.0, 1.0]).dictionary_encode(), ["1", "1"]),
        (pa.array([b"a", b"\xe9"]), ["a", "\ufffd"]),
        (pa.array([[1], None]), [NO_TEXT, None]),
    ],
)
def test_arrow_columns_become_the_canonical_texts_of_their_cells(array, expected):
    assert text_column(pa.chunked_array([array])).to_pylist() == expected
    twice = pa.chunked_array([array, array])
    assert text_column(twice).to_pylist() == expected * 2


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([1, None]), [1.0, None]),
        (pa.array([True, False]), [1.0, 0.0]),
        (pa.array([Decimal("0.5")]), [0.5]),
        (pa.array(["1", "x"]).dictionary_encode(), [1.0, None]),
        (pa.array([DAY]), [None]),
        (pa.array([[1.0]]), [None]),
    ],
)
def test_arrow_columns_become_numbers(array, expected):
    assert number_column(pa.chunked_array([array])).to_pylist() == expected


def test_objects_of_many_types_become_texts():
    values = ["1.0", 1.0, 2, None, True, b"b", DAY, [1]]
    expected = ["1.0", "1", "2", None, "true", "b", "2020-01-31", NO_TEXT]
    assert text_array(values).to_pylist() == expected
