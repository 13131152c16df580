"""Hats are functions of one value that add up to 1; knots are declared numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
    even_knots,
    with_knots,
    without_knots,
)
from corrdp.policy._coding import hat_codes

KNOTS = (0.0, 1.0, 4.0, 10.0)


def curved_policy(**options):
    return Policy(
        (Feature("age", "sensitive", NumberDomain(0, 10, knots=KNOTS, **options)),)
    )


def test_a_code_interpolates_between_two_knots():
    codes = hat_codes(KNOTS, np.array([0.0, 1.0, 2.5, 10.0]))
    expected = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0, 1]]
    np.testing.assert_array_equal(codes, expected)


def test_values_beyond_the_ends_count_as_the_ends():
    codes = hat_codes(KNOTS, np.array([-5.0, np.inf, -np.inf]))
    np.testing.assert_array_equal(codes, [[1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]])


@given(st.lists(st.floats(-2, 12), min_size=1, max_size=8))
def test_codes_lie_in_the_hull_of_the_corners_to_the_last_bit(values):
    codes = hat_codes(KNOTS, np.array(values))
    assert (codes >= 0.0).all()
    assert (codes.sum(axis=1) == 1.0).all()
    for row in codes:
        (used,) = np.nonzero(row)
        assert used.max() - used.min() <= 1
    alone = [hat_codes(KNOTS, np.array([value]))[0] for value in values]
    np.testing.assert_array_equal(codes, alone)


def test_single_precision_keeps_sums():
    values = np.random.default_rng(0).uniform(0, 10, 1000)
    codes = hat_codes(KNOTS, values).astype(np.float32).astype(np.float64)
    assert (codes.sum(axis=1) == 1.0).all()


def test_the_encoder_writes_number_hats_and_flag():
    encoder = PolicyEncoder(curved_policy(missing=Slot()))
    matrix = encoder.transform(np.array([[2.5], [np.nan]], dtype=object))
    np.testing.assert_array_equal(
        matrix, [[-0.25, 0, 0.5, 0.5, 0, 0], [0, 0, 0, 0, 0, 1]]
    )
    assert encoder.get_feature_names_out().tolist() == [
        "age",
        "age@0",
        "age@1",
        "age@4",
        "age@10",
        "age=(missing)",
    ]
    number, hats, flag = encoder.blocks_
    assert (number.part, hats.part, flag.part) == ("age", "age:curve", "age:curve")
    assert {block.feature for block in encoder.blocks_} == {"age"}
    assert (hats.radius, hats.diameter) == (1.0, pytest.approx(2**0.5))
    assert hats.positions == (-0.5, -0.4, pytest.approx(-0.1), 0.5)


def test_blocks_without_knots_are_as_ever():
    (number,) = PolicyEncoder(without_knots(curved_policy())).blocks_
    assert (number.part, number.positions, number.curve) == ("age", (), False)


def test_a_document_with_knots_is_read_back():
    policy = curved_policy()
    again = Policy.from_dict(policy.to_dict())
    assert again == policy
    assert again.fingerprint() == policy.fingerprint()
    assert policy.fingerprint() != without_knots(policy).fingerprint()
    assert "knots" not in without_knots(policy).to_dict()["features"]["age"]


def test_declared_knots_stay():
    chosen = with_knots(curved_policy(), lambda feature: (0, 5, 10))
    assert chosen.feature("age").domain.knots == KNOTS
    bare = without_knots(curved_policy())
    chosen = with_knots(bare, lambda feature: even_knots(feature.domain, 3))
    assert chosen.feature("age").domain.knots == (0.0, 5.0, 10.0)


@pytest.mark.parametrize(
    ("knots", "message"),
    [
        ((0, 10), "3 to 64"),
        (tuple(range(65)), "3 to 64"),
        ("0, 5, 10", "3 to 64"),
        ((0, 5, 5, 10), "must rise"),
        ((1, 5, 10), "Begin and end with the bounds"),
        ((0, 5, 9), "Begin and end with the bounds"),
        ((0, float("nan"), 10), "knots"),
    ],
)
def test_knots_that_make_no_curve_are_refused(knots, message):
    with pytest.raises(PolicyError, match=message):
        NumberDomain(0, 10, knots=knots)
