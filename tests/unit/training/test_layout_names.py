"""Features whose names a model uses itself are refused in words, never merged."""

import pytest

from corrdp.exceptions import PolicyError
from corrdp.policy import Feature, NumberDomain, Policy, policy_blocks
from corrdp.training import GradientLayout


def blocks(name, role):
    domain = NumberDomain(0, 1)
    own = Feature(name, role, domain)
    return policy_blocks(Policy((Feature("age", "sensitive", domain), own)))


@pytest.mark.parametrize("role", ["sensitive", "insensitive", "public"])
@pytest.mark.parametrize("joint", [False, True])
def test_a_feature_is_not_taken_for_the_constant(role, joint):
    """By name alone, both would have been one group without a word."""
    with pytest.raises(PolicyError, match="'intercept', as the constant of a model is"):
        GradientLayout.by_role(blocks("intercept", role), joint_sensitive=joint)
    with pytest.raises(PolicyError, match="Rename it"):
        GradientLayout.flat(blocks("intercept", role), clip_norm=1.0)


def test_a_feature_is_not_taken_for_the_group_of_others():
    with pytest.raises(PolicyError, match="'sensitive', as a group of features is"):
        GradientLayout.by_role(blocks("sensitive", "insensitive"))
    alone = GradientLayout.by_role(blocks("insensitive", "insensitive"))
    assert [group.name for group in alone.groups] == [
        "sensitive",
        "insensitive",
        "intercept",
    ]
