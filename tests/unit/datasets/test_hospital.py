"""The hospital example: what its policy declares is true of its generator."""

import numpy as np
import pytest

from corrdp.datasets import (
    hospital_columns,
    hospital_leakage,
    hospital_policy,
    hospital_table,
)
from corrdp.exceptions import CorrDPError
from corrdp.policy import PolicyEncoder


def codes_of(table, names):
    return PolicyEncoder(hospital_policy()).codes(table, names)


def empirical_leakage(table, name):
    """Plug-in total variation of (diagnosis, income band), biased upwards."""
    codes = codes_of(table, ["diagnosis", "income", name])
    joint = np.zeros((codes[:, 2].max() + 1, 36))
    np.add.at(joint, (codes[:, 2], codes[:, 0] * 6 + codes[:, 1]), 1)
    given = joint / joint.sum(axis=1, keepdims=True)
    return max(np.abs(a - b).sum() / 2 for a in given for b in given)


def test_declared_leakage_bounds_the_truth_closely():
    declared = {f.name: f.leakage for f in hospital_policy().features if f.leakage}
    truth = hospital_leakage()
    assert declared.keys() == truth.keys()
    for name, value in truth.items():
        assert value <= declared[name] <= value + 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["age", "region", "insurance", "smoker"])
def test_truth_is_that_of_the_drawn_table(name):
    # 400,000 rows and at most 8 x 36 cells: a plug-in error above 0.03 would be more
    # than ten standard deviations of the rarest value, 24,000 rows (McDiarmid: 1e-9).
    table = hospital_table(400_000, random_state=1)
    truth = hospital_leakage()[name]
    assert empirical_leakage(table, name) == pytest.approx(truth, abs=0.03)
    shuffled = table.assign(
        **{name: np.random.default_rng(0).permutation(table[name].to_numpy())}
    )
    assert empirical_leakage(shuffled, name) < truth - 0.03  # a broken link is seen


def test_every_row_fits_the_policy():
    table = hospital_table()
    assert table.shape == (20_000, 10)
    matrix = PolicyEncoder(hospital_policy()).fit_transform(table)
    assert matrix.shape == (20_000, 24)
    assert table["age"].between(18, 97).all()
    assert table["income"].between(0, 149_999).all()
    assert table["length_of_stay"].between(0, 29).all()


def test_the_seed_decides_the_table():
    first, again = hospital_columns(50), hospital_columns(50)
    other = hospital_columns(50, random_state=1)
    for name, column in first.items():
        np.testing.assert_array_equal(column, again[name])
    assert any((first[name] != other[name]).any() for name in first)


def test_numbers_within_a_band_tell_nothing_more():
    # Within one age decade, years below and above its middle see the same diagnoses.
    table = hospital_table(400_000, random_state=2)
    decade = table[table["age"].between(58, 67)]
    young = decade[decade["age"] < 63]["diagnosis"].value_counts(normalize=True)
    old = decade[decade["age"] >= 63]["diagnosis"].value_counts(normalize=True)
    assert (young - old).abs().max() < 0.02


def test_a_table_needs_rows():
    with pytest.raises(CorrDPError, match="n_rows"):
        hospital_columns(0)
