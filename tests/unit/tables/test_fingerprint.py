"""Fingerprints by column: what is compared, what matches, what is only warned of."""

import datetime
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corrdp.accounting import WHOLE_RECORD, LaplaceEvent
from corrdp.exceptions import BudgetError, CorrDPWarning
from corrdp.ledger import Ledger
from corrdp.mechanisms import answer_queries
from corrdp.policy import Budget, CategoryDomain, Feature, NumberDomain, Policy
from corrdp.tables._fingerprint import table_fingerprint

KEY = b"k" * 32


def number(name):
    return Feature(name, "sensitive", NumberDomain(0, 100))


AGES = Policy((number("age"), number("weight")))
HEIGHTS = Policy((number("age"), number("height")))
FEET = Policy((number("feet"),))


@pytest.fixture
def table():
    generator = np.random.default_rng(5)
    names = ("age", "weight", "height", "feet")
    return pd.DataFrame({name: generator.integers(1, 90, 50) for name in names})


@pytest.fixture
def ledger(tmp_path, table):
    ledger = Ledger.create(tmp_path / "l", AGES, budget=Budget(epsilon=10.0, delta=0.0))
    ledger.add_policy(HEIGHTS)
    ledger.add_policy(FEET)
    pay(ledger, table, AGES)
    return ledger


def pay(ledger, table, policy):
    answer_queries(
        table, policy, [f"mean({policy.sensitive[0]})"], epsilon=0.1, ledger=ledger
    )


def test_a_second_policy_on_the_same_file_shares_what_it_shares(ledger, table):
    with pytest.warns(CorrDPWarning, match=r"height: new to this ledger.*renamed"):
        pay(ledger, table, HEIGHTS)
    with warnings.catch_warnings():  # from now on it is known
        warnings.simplefilter("error")
        pay(ledger, table, HEIGHTS)
        pay(ledger, table[["age", "weight"]], AGES)
    with pytest.warns(CorrDPWarning, match="feet"):
        pay(ledger, table, FEET)  # no column shared, as many rows


def test_a_shared_column_that_changed_is_refused_by_name(ledger, table):
    corrected = table.assign(age=table.age + (table.index == 7))
    for policy in (AGES, HEIGHTS):
        with pytest.raises(BudgetError, match=r"not that of earlier charges in age \("):
            pay(ledger, corrected, policy)


def test_other_rows_without_a_shared_column_are_refused(ledger, table):
    with pytest.raises(BudgetError, match="it has 49 rows, the last one 50"):
        pay(ledger, table.head(49), FEET)


def test_a_renamed_column_is_warned_of(ledger, table):
    """It opens a fresh account: docs/ledger.md says so."""
    renamed = Policy((number("years"),))
    ledger.add_policy(renamed)
    with pytest.warns(CorrDPWarning, match="years: new to this ledger"):
        pay(ledger, table.rename(columns={"age": "years"}), renamed)


def test_fingerprints_of_earlier_versions_need_leave(ledger, table):
    old = {"n_rows": 50, "keyed_hash": "0" * 64}
    price = {WHOLE_RECORD: [LaplaceEvent(0.1)]}
    ledger.charge(
        price, policy=AGES, purpose="old", fingerprint=old, accept_new_data=True
    )
    with pytest.raises(BudgetError, match="another version"):
        pay(ledger, table, AGES)


def test_columns_are_those_of_the_policy_and_bound_to_their_names(ledger, table):
    shown = ledger.fingerprint(table, policy=AGES)
    assert list(shown["columns"]) == ["age", "weight"]
    array = table[["age", "weight"]].to_numpy()
    assert ledger.fingerprint(array, policy=AGES) == shown
    twins = table.assign(weight=table.age)
    hashes = ledger.fingerprint(twins, policy=AGES)["columns"]
    assert hashes["age"] != hashes["weight"]  # equal columns do not show


def test_no_hash_can_be_compared_without_the_key(table):
    first, second = (table_fingerprint(table, key=key) for key in (KEY, b"x" * 32))
    assert first["n_rows"] == second["n_rows"]
    for name in table.columns:
        assert first["columns"][name] != second["columns"][name]


CELLS = {
    "floats": [1.0, 2.5, -0.0, None],
    "integers": [1, 2, 3, 4],
    "flags": [True, False, True, True],
    "codes": ["V58", "250.0", "250", ""],
    "words": ["yes", "no", "", "maybe"],
}


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_the_same_from_every_source(name, tmp_path):
    frame = pd.DataFrame({name: CELLS[name]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    read = pd.read_csv(tmp_path / "t.csv", dtype=str, skip_blank_lines=False)
    expected = table_fingerprint(frame, key=KEY)
    for other in (read, pd.read_csv(tmp_path / "t.csv", skip_blank_lines=False)):
        assert table_fingerprint(other, key=KEY) == expected
    assert table_fingerprint(pl.from_pandas(frame), key=KEY) == expected
    assert table_fingerprint(pa.Table.from_pandas(frame), key=KEY) == expected


def test_any_cell_that_changes_changes_its_column_alone():
    frame = pd.DataFrame(CELLS)
    before = table_fingerprint(frame, key=KEY)["columns"]
    for name in CELLS:
        for row in range(4):
            other = frame.astype(object)
            other.loc[row, name] = "other"
            after = table_fingerprint(other, key=KEY)["columns"]
            assert {c for c in CELLS if after[c] != before[c]} == {name}
    swapped = table_fingerprint(frame.iloc[::-1], key=KEY)["columns"]
    assert all(swapped[name] != before[name] for name in CELLS)


def test_texts_of_a_category_are_told_apart():
    policy = Policy((Feature("c", "sensitive", CategoryDomain(("a", "b"))),))
    first, second = (
        table_fingerprint(pd.DataFrame({"c": cells}), key=KEY, names=["c"])
        for cells in (["a", "b"], ["b", "a"])
    )
    assert first != second
    assert list(first["columns"]) == [feature.name for feature in policy.features]


def test_days_and_bytes_are_the_same_from_a_file_and_from_frames(tmp_path):
    """A ledger that was charged for a file knows its table in memory."""
    day = datetime.datetime(2020, 1, 31)
    table = pa.table(
        {
            "midnight": [day, None],
            "noon": [day + datetime.timedelta(hours=12), day],
            "zone": [day.replace(tzinfo=datetime.UTC), None],
            "bytes": pa.array([b"ab", b""], pa.binary()),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    of_file = table_fingerprint(tmp_path / "t.parquet", key=KEY)
    for held in (table, table.to_pandas(), pl.from_arrow(table)):
        assert table_fingerprint(held, key=KEY) == of_file


def test_a_missing_day_among_objects_is_a_cell_like_others():
    """NaT calls itself a time, and has no hour."""
    days = [datetime.datetime(2020, 1, 31), pd.NaT]
    table = pd.DataFrame({"day": pd.Series(days, dtype=object)})
    assert table_fingerprint(table, key=KEY)
