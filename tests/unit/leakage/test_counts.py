"""Counting: against a plain group-by, in shards, from files, beyond the limit."""

import itertools
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage import (
    ContingencyCounts,
    CountLayout,
    count_codes,
    count_layout,
    iter_codes,
    leakage_targets,
)
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy, Replace, Slot
from leakage_models import policy_of, rare_key, table_of

NAMES = ("s1", "s2", "u")


@pytest.fixture
def table():
    return table_of(rare_key(0.2), NAMES, 5000, np.random.default_rng(3))


@pytest.fixture
def policy():
    return policy_of(rare_key(), NAMES, ("s1", "s2"))


def counted(data, policy):
    layout = count_layout(policy, leakage_targets(policy))
    return count_codes(iter_codes(data, policy, layout.features), layout)


def test_counts_are_those_of_a_group_by(table, policy):
    counts = counted(table, policy)
    expected = table.groupby(list(NAMES)).size()
    for (s1, s2, u), rows in expected.items():
        cell = 2 * int(s1[1]) + int(s2[1])
        assert counts.tables[0][int(u[1]), cell] == rows
    assert counts.n_rows == 5000


def test_shards_add_up(table, policy):
    whole = counted(table, policy)
    parts = counted(table[:1234], policy) + counted(table[1234:], policy)
    assert np.array_equal(whole.tables[0], parts.tables[0])


def test_every_kind_of_table_and_file_gives_the_same_counts(table, policy, tmp_path):
    expected = counted(table, policy).tables[0]
    arrow = pa.Table.from_pandas(table)
    pq.write_table(arrow, tmp_path / "t.parquet", row_group_size=700)
    table.to_csv(tmp_path / "t.csv.gz", index=False)
    sources = [
        pl.from_pandas(table),
        arrow,
        table.astype("category"),
        table.to_numpy(),
        tmp_path / "t.parquet",
        str(tmp_path / "t.csv.gz"),
    ]
    for source in sources:
        assert np.array_equal(counted(source, policy).tables[0], expected)


def test_missing_texts_take_their_declared_code():
    domain = CategoryDomain(("a", "b"), missing=Slot())
    filled = CategoryDomain(("a", "b"), missing=Replace("b"))
    policy = Policy(
        (Feature("s", "sensitive", domain), Feature("u", "insensitive", filled))
    )
    frame = pd.DataFrame({"s": ["a", None, "b", None], "u": [None, "a", "b", "a"]})
    table = counted(frame, policy).tables[0]
    assert table.tolist() == [[0, 0, 2], [1, 1, 0]]


def test_numbers_without_bins_are_refused_by_name():
    policy = Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 100)),
            Feature("u", "insensitive", CategoryDomain(("a", "b"))),
        )
    )
    with pytest.raises(PolicyError, match=r"age.*features"):
        list(iter_codes(pd.DataFrame({"age": [1], "u": ["a"]}), policy, ["age", "u"]))


def test_more_cells_than_the_limit_are_refused_with_number_and_remedy():
    n_codes = {"s1": 100, "s2": 300, "u": 7}
    with pytest.raises(
        PolicyError, match=r"210,000 joint cells.*s2 \(300\), s1 \(100\)"
    ):
        CountLayout(n_codes, ("s1", "s2"), {"u": ("u",)}, max_cells=200_000)


def test_codes_outside_the_layout_are_refused_without_their_value():
    layout = CountLayout({"s": 2, "u": 2}, ("s",), {"u": ("u",)})
    good = np.zeros(3, dtype=np.uint8)
    bad = np.array([0, 1, 77], dtype=np.uint8)
    with pytest.raises(CorrDPError, match=r"0\.\.1") as caught:
        count_codes([{"s": good, "u": bad}], layout)
    assert "77" not in str(caught.value)
    with pytest.raises(CorrDPError, match="integers"):
        count_codes([{"s": good, "u": good.astype(float)}], layout)
    with pytest.raises(CorrDPError, match="equal lengths"):
        count_codes([{"s": good, "u": good[:2]}], layout)


def test_counts_of_different_layouts_do_not_add():
    first = ContingencyCounts.empty(
        CountLayout({"s": 2, "u": 2}, ("s",), {"u": ("u",)})
    )
    second = ContingencyCounts.empty(
        CountLayout({"s": 3, "u": 2}, ("s",), {"u": ("u",)})
    )
    with pytest.raises(CorrDPError, match="layout"):
        first + second


def test_texts_are_coded_without_pyarrow_too(table, policy, monkeypatch):
    expected = counted(table, policy).tables[0]
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert np.array_equal(counted(table, policy).tables[0], expected)


def test_tables_in_several_pieces_are_counted(table, policy):
    halves = [pa.Table.from_pandas(part) for part in (table[:100], table[100:])]
    joined = pa.concat_tables(halves)
    assert joined.column("u").num_chunks == 2
    expected = counted(table, policy).tables[0]
    assert np.array_equal(counted(joined, policy).tables[0], expected)


def test_strings_of_pandas_in_several_chunks_are_counted(table, policy):
    strings = table.astype({"u": "str"})
    joined = pd.concat([strings[:100], strings[100:]], ignore_index=True)
    expected = counted(table, policy).tables[0]
    assert np.array_equal(counted(joined, policy).tables[0], expected)


def test_tiles_join_chunks_and_cut_them(monkeypatch):
    monkeypatch.setattr("corrdp.leakage._counts._FEWEST_TILE_ROWS", 8)
    layout = CountLayout({"s": 2, "u": 2}, ("s",), {"u": ("u",)})
    generator = np.random.default_rng(0)
    codes = generator.integers(0, 2, (100, 2), dtype=np.uint8)
    cuts = [0, 3, 5, 60, 100]
    chunks = [
        {"s": codes[a:b, 0], "u": codes[a:b, 1]} for a, b in itertools.pairwise(cuts)
    ]
    assert np.array_equal(
        count_codes(chunks, layout).tables[0],
        count_codes([{"s": codes[:, 0], "u": codes[:, 1]}], layout).tables[0],
    )


def test_categories_that_no_row_holds_do_not_matter(table, policy):
    expected = counted(table, policy).tables[0]
    wide = table.assign(u=pd.Categorical(table["u"], ["v0", "v1", "undeclared"]))
    assert np.array_equal(counted(wide, policy).tables[0], expected)


def test_categorical_numbers_are_coded_by_their_text():
    domain = CategoryDomain(("1", "2"))
    policy = Policy(
        (Feature("s", "sensitive", domain), Feature("u", "insensitive", domain))
    )
    frame = pd.DataFrame({"s": [1, 2, 2], "u": [2, 2, 1]})
    expected = counted(frame, policy).tables[0]
    assert np.array_equal(counted(frame.astype("category"), policy).tables[0], expected)


def test_a_refused_text_is_not_quoted(table, policy):
    table.loc[7, "u"] = "SECRET"
    with pytest.raises(PolicyError, match="'u'") as caught:
        counted(table, policy)
    assert "SECRET" not in str(caught.value)
    assert caught.value.__context__ is None
