import math
from functools import partial

import numpy as np
import pytest

from corrdp._validate import (
    check_choice,
    check_count,
    check_delta,
    check_epsilon,
    check_flag,
    check_nonnegative_array,
    check_real,
)
from corrdp.exceptions import BudgetError, CorrDPError


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, "1", True, None])
def test_epsilon_must_be_positive_and_finite(value):
    with pytest.raises(BudgetError, match=r"epsilon.*for example epsilon=1\.0"):
        check_epsilon(value)


@pytest.mark.parametrize("value", [0.0, 1.0, -1e-9, math.nan, math.inf, "x", None])
def test_delta_must_be_a_probability(value):
    with pytest.raises(BudgetError, match=r"delta.*1e-6"):
        check_delta(value)


def test_delta_zero_can_be_allowed():
    assert check_delta(0.0, allow_zero=True) == 0.0


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None])
def test_counts_are_whole_and_positive(value):
    with pytest.raises(CorrDPError, match=f"n_steps={value!r}"):
        check_count("n_steps", value, remedy="Take one step at least.")


def test_numpy_numbers_are_numbers():
    assert check_count("n", np.int64(3)) == 3
    assert check_real("x", np.float32(0.5)) == 0.5


def test_infinite_numbers_pass_only_where_allowed():
    assert check_real("x", math.inf, allow_infinite=True) == math.inf
    with pytest.raises(CorrDPError, match="finite number"):
        check_real("x", math.inf)


@pytest.mark.parametrize("value", [10**400, 10**5000], ids=["wide", "unprintable"])
def test_huge_whole_numbers_are_refused_by_their_length(value):
    with pytest.raises(CorrDPError, match=r"a whole number of \d+ bits"):
        check_real("x", value)
    with pytest.raises(CorrDPError, match=r"a whole number of \d+ bits"):
        check_count("n", -abs(value))


def test_messages_state_the_interval():
    with pytest.raises(CorrDPError, match=r"\(0, 1\]"):
        check_real("rate", 2.0, lower=0.0, upper=1.0, open_lower=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, -2.0]], r"-2.0 at index \(0, 1\)"),
        ([[1.0, math.nan]], r"nan at index \(0, 1\)"),
        ([[math.inf, 0.0]], r"inf at index \(0, 0\)"),
        ([1.0], r"2 dimension\(s\), got shape \(1,\)"),
        ("text", "array of numbers, got str"),
    ],
)
def test_arrays_are_refused_with_the_first_wrong_entry(values, message):
    with pytest.raises(CorrDPError, match=message):
        check_nonnegative_array("bounds", values, ndim=2)


def test_messages_are_short_and_show_no_rows():
    secret = np.full(3, 4711.25)
    for check in (check_flag, check_real, partial(check_choice, choices=["a"])):
        for value, said in ((secret, "=ndarray"), ("x" * 10_000, "xxx...xxx")):
            with pytest.raises(CorrDPError, match=said) as refusal:
                check("option", value)
            assert len(str(refusal.value)) < 200
            assert "4711" not in str(refusal.value)
