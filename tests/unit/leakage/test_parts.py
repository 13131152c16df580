"""Parts of the sensitive set combine under a declared independence only."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import FeatureLeakage, combine_parts, exact_leakage
from leakage_models import halves_of_a_secret


def part(value, upper=None):
    return FeatureLeakage(
        estimate=value,
        upper=value if upper is None else upper,
        method="exact",
        reason="known",
    )


chances = st.floats(0.01, 0.99)


@given(st.lists(st.tuples(chances, chances), min_size=2, max_size=2))
def test_independent_parts_are_covered(rows):
    # two bits, independent given u: P(bit_i = 1 | u) = rows[i][u]
    joint = np.zeros((2, 2, 2))
    for u in (0, 1):
        for first in (0, 1):
            for second in (0, 1):
                bits = [
                    rows[i][u] if bit else 1 - rows[i][u]
                    for i, bit in enumerate((first, second))
                ]
                joint[first, second, u] = 0.5 * bits[0] * bits[1]
    alone = [part(exact_leakage(joint, sensitive=[i], changed=[2])) for i in (0, 1)]
    whole = exact_leakage(joint, sensitive=[0, 1], changed=[2])
    combined = combine_parts(alone, conditionally_independent=True)
    assert whole <= combined.upper + 1e-12
    assert combined.upper <= sum(a.upper for a in alone) + 1e-12
    assert "declared, not tested" in combined.assumptions[0]


def test_parts_that_hide_a_secret_would_be_missed_e2():
    joint = halves_of_a_secret()
    alone = [part(exact_leakage(joint, sensitive=[i], changed=[2])) for i in (0, 1)]
    whole = exact_leakage(joint, sensitive=[0, 1], changed=[2])
    assert combine_parts(alone, conditionally_independent=True).upper < whole
    with pytest.raises(GuaranteeVoidError, match="do not bound"):
        combine_parts(alone, conditionally_independent=False)


def test_a_part_without_bound_leaves_none():
    missing = FeatureLeakage(estimate=0.1, upper=None, method="kernel", reason="")
    combined = combine_parts([part(0.2), missing], conditionally_independent=True)
    assert combined.upper is None
    assert combined.estimate == pytest.approx(0.28)
    with pytest.raises(CorrDPError, match="empty"):
        combine_parts([], conditionally_independent=True)


def test_parts_about_joined_levels_are_refused():
    """Given both levels at once the parts are not independent, given each they are."""
    joined = dataclasses.replace(part(0.1), joined={"joined": ["a", "b"]})
    with pytest.raises(GuaranteeVoidError, match="join_levels=False"):
        combine_parts([part(0.1), joined], conditionally_independent=True)
