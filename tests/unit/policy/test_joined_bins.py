"""Joined bins of a number are one value."""

import numpy as np
import pandas as pd
import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import Feature, NumberDomain, Policy, PolicyEncoder, Slot

DOMAIN = NumberDomain(0, 80, bins=8, joined=((0, 1, 12.5), (5, 7, 61.0)))
VALUES = [-5.0, 0.0, 12.5, 19.99, 20.0, 35.0, 49.9, 50.0, 61.0, 80.0, 1e9]


def encoder_of(domain):
    return PolicyEncoder(Policy((Feature("x", "sensitive", domain),)))


def test_values_of_joined_bins_are_one_number_and_one_code():
    encoder = encoder_of(DOMAIN)
    frame = pd.DataFrame({"x": VALUES})
    numbers = (encoder.transform(frame)[:, 0] + 0.5) * 80
    expected = [12.5] * 4 + [20.0, 35.0, 49.9] + [61.0] * 4
    np.testing.assert_allclose(numbers, expected)
    assert encoder.codes(frame)[:, 0].tolist() == [0] * 4 + [1, 2, 3] + [4] * 4
    assert encoder.n_codes == {"x": 5}
    assert DOMAIN.edges == (0.0, 20.0, 30.0, 40.0, 50.0, 80.0)
    assert DOMAIN.n_levels == 5


def test_a_missing_slot_comes_after_the_joined_bins():
    domain = NumberDomain(0, 80, bins=8, missing=Slot(), joined=((0, 6, 30.0),))
    codes = encoder_of(domain).codes(pd.DataFrame({"x": [1.0, 79.0, None]}))
    assert codes[:, 0].tolist() == [0, 1, 2]


def test_joined_bins_survive_the_written_policy():
    policy = Policy((Feature("x", "sensitive", DOMAIN),))
    assert Policy.from_toml(policy.to_toml()) == policy
    plain = Policy((Feature("x", "sensitive", NumberDomain(0, 80, bins=8)),))
    assert plain.fingerprint() != policy.fingerprint()
    assert "joined" not in plain.to_toml()


@pytest.mark.parametrize(
    ("joined", "message"),
    [
        ("x", "list of"),
        ([[0, 1]], "all three"),
        ([[0, 1, 90.0]], "inside them"),
        ([[0, 1, 20.0]], "inside them"),
        ([[1, 1, 15.0]], "rising, disjoint"),
        ([[0, 8, 15.0]], "rising, disjoint"),
        ([[0, 2, 15.0], [2, 3, 30.0]], "rising, disjoint"),
        ([[-1, 2, 15.0]], "whole number"),
        ([[0, 1, None]], "value of joined"),
    ],
)
def test_bad_joinings_are_refused(joined, message):
    with pytest.raises(PolicyError, match=message):
        NumberDomain(0, 80, bins=8, joined=joined)


def test_joined_bins_need_bins():
    with pytest.raises(PolicyError, match="needs bins"):
        NumberDomain(0, 80, joined=((0, 1, 12.5),))
