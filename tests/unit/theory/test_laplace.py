"""Correlated sensitivity: exact privacy of the mechanism it calibrates."""

import numpy as np
import pytest
from scipy.stats import laplace

from corrdp.exceptions import CorrDPError
from corrdp.theory import correlated_sensitivity, laplace_error_upper

OWN = [1.0, 0.5]
OTHERS = [4.0, 1.0, 2.0]
LEAKAGE = [0.6, 0.2, 0.3]


def test_the_printed_sum_of_definition_2_8():
    value = correlated_sensitivity(OWN, OTHERS, LEAKAGE, form="sum")
    assert value == pytest.approx(1.5 + 2.4 + 0.2 + 0.6)


def test_the_maximum_suffices_for_one_column_at_a_time():
    assert correlated_sensitivity(OWN, OTHERS, LEAKAGE) == pytest.approx(2.4)


def test_the_block_that_changes_together_adds_up():
    value = correlated_sensitivity(
        OWN, OTHERS, [0.6, 0.6, 0.6], relation="all_insensitive"
    )
    assert value == pytest.approx(0.6 * 7.0)


def test_never_above_the_ordinary_sensitivity():
    assert correlated_sensitivity(OWN, OTHERS, LEAKAGE, sensitivity=2.0) == 2.0


def test_no_insensitive_column_leaves_the_ordinary_mechanism():
    for form in ("max", "sum"):
        assert correlated_sensitivity(OWN, [], [], form=form) == 1.5


def worst_log_ratio(shift, noise_scale):
    """Exact worst log-ratio of independent Laplace noise: the 1-norm of the shift."""
    return float(np.sum(np.abs(shift))) / noise_scale


def is_corrdp(size, *, epsilon=1.0):
    """Check every class of `one_insensitive` for noise scale size / epsilon."""
    noise_scale = size / epsilon
    fits = worst_log_ratio(OWN, noise_scale) <= epsilon * (1 + 1e-12)
    for move, distance in zip(OTHERS, LEAKAGE, strict=True):
        fits &= worst_log_ratio([move], noise_scale) <= epsilon / distance + 1e-12
    return fits


def test_both_forms_are_private_and_a_smaller_scale_is_caught():
    assert is_corrdp(correlated_sensitivity(OWN, OTHERS, LEAKAGE, form="sum"))
    smallest = correlated_sensitivity(OWN, OTHERS, LEAKAGE)
    assert is_corrdp(smallest)
    assert not is_corrdp(0.999 * smallest)


def test_error_bound_covers_the_exact_quantile():
    for n_coordinates in (1, 3, 50):
        for beta in (1e-6, 0.05, 0.5):
            bound = laplace_error_upper(
                correlated_sensitivity=2.0,
                epsilon=0.5,
                n_coordinates=n_coordinates,
                failure_probability=beta,
            )
            inside = 1 - 2 * laplace.sf(bound, scale=4.0)
            assert 1 - inside**n_coordinates <= beta * (1 + 1e-9)
            # The union bound is nearly tight, so a fifth less is too little.
            inside = 1 - 2 * laplace.sf(0.8 * bound, scale=4.0)
            assert 1 - inside**n_coordinates > beta


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"leakage": [0.1]}, "got 1 for 3"),
        ({"leakage": [0.1, 0.2, 1.2]}, "leakage"),
        ({"sensitive": [-1.0]}, "sensitive"),
        ({"insensitive": [np.nan, 1, 1]}, "insensitive"),
        ({"form": "mean"}, "form='mean'"),
        ({"relation": "any"}, "relation='any'"),
        ({"sensitivity": -1.0}, r"sensitivity=-1\.0"),
    ],
)
def test_arguments_of_the_sensitivity_are_checked(arguments, match):
    setting = {"sensitive": OWN, "insensitive": OTHERS, "leakage": LEAKAGE}
    with pytest.raises(CorrDPError, match=match):
        correlated_sensitivity(**{**setting, **arguments})


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"correlated_sensitivity": 0.0}, "correlated_sensitivity=0.0"),
        ({"epsilon": -1.0}, "epsilon=-1.0"),
        ({"n_coordinates": 0}, "n_coordinates=0"),
        ({"failure_probability": 0.0}, "failure_probability=0.0"),
    ],
)
def test_arguments_of_the_error_bound_are_checked(change, match):
    setting = {
        "correlated_sensitivity": 1.0,
        "epsilon": 1.0,
        "n_coordinates": 2,
        "failure_probability": 0.1,
    }
    with pytest.raises(CorrDPError, match=match):
        laplace_error_upper(**{**setting, **change})
