"""Definition 2.5: known features can only reveal more, and the size is limited."""

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage import check_definition_size, definition_leakage, exact_leakage
from leakage_models import exclusive_or, halves_of_a_secret, rare_key


def test_exclusive_or_of_e9():
    joint = exclusive_or()
    assert exact_leakage(joint, sensitive=[0], changed=[1]) == 0.0
    full = exact_leakage(joint, sensitive=[0], changed=[1], conditioning="definition")
    assert full == 1.0
    assert exact_leakage(joint, sensitive=[0], changed=[1, 2]) == 1.0


def test_a_sensitive_key_of_e9_hides_one_percent_and_reveals_all():
    joint = rare_key(0.01)
    marginal = exact_leakage(joint, sensitive=[0, 1], changed=[2])
    assert marginal == pytest.approx(0.01)
    full = exact_leakage(
        joint, sensitive=[0, 1], changed=[2], conditioning="definition"
    )
    assert full == pytest.approx(1.0)


def test_parts_of_the_sensitive_set_do_not_bound_the_whole_e2():
    joint = halves_of_a_secret()
    parts = [exact_leakage(joint, sensitive=[axis], changed=[2]) for axis in (0, 1)]
    assert parts == [0.0, 0.0]
    assert exact_leakage(joint, sensitive=[0, 1], changed=[2]) == 1.0


def test_block_search_covers_subsets_of_the_block():
    # u_1 alone tells everything, u_2 nothing: the block tells what u_1 tells.
    joint = np.zeros((2, 2, 2))
    for u_1 in (0, 1):
        joint[u_1, u_1, :] = 0.25
    for conditioning in ("marginal", "definition"):
        value = exact_leakage(
            joint, sensitive=[0], changed=[1, 2], conditioning=conditioning
        )
        assert value == 1.0


def test_counts_find_the_set_that_reveals_and_combinations_without_rows():
    counts = (rare_key(0.2) * 10_000).round().astype(np.int64)
    found = definition_leakage(
        counts, sensitive=[0, 1], changed=[2], failure_probability=0.01
    )
    assert found.estimate == pytest.approx(1.0)
    assert found.known == (0,)
    seen = counts + 1
    found = definition_leakage(
        seen, sensitive=[0, 1], changed=[2], failure_probability=0.01
    )
    assert found.unseen == 0
    assert found.estimate <= found.upper <= 1.0


def test_searches_beyond_the_stated_size_are_refused_with_the_number():
    with pytest.raises(PolicyError, match=r"8,192 sets .* limits are 4,096"):
        check_definition_size([2] * 13)
    with pytest.raises(PolicyError, match="10,000,000 joint cells"):
        check_definition_size([10] * 7)
    check_definition_size([2, 1000], [1])
    with pytest.raises(PolicyError, match="about 240,100,980,000 pairs"):
        check_definition_size([2, 700, 700], [1, 2])


def test_what_is_no_distribution_is_refused():
    with pytest.raises(CorrDPError, match="sum of 8"):
        exact_leakage(np.ones((2, 2, 2)), sensitive=[0], changed=[1])
