"""Methods: what a release protects, as a policy."""

from dataclasses import replace
from enum import StrEnum

from corrdp.exceptions import PolicyError
from corrdp.policy._features import ColumnRole
from corrdp.policy._policy import Policy


class Method(StrEnum):
    """What is protected, from the most to the least.

    ``standard`` protects every feature alike (ordinary DP); ``corr`` protects
    insensitive features by what they leak; ``semi`` protects sensitive features only;
    ``partial`` leaves sensitive features out and ``nonprivate`` protects nothing.
    """

    STANDARD = "standard"
    CORR = "corr"
    SEMI = "semi"
    PARTIAL = "partial"
    NONPRIVATE = "nonprivate"

    @property
    def is_private(self) -> bool:
        """Whether anything about the rows it reads is protected."""
        return self not in (Method.PARTIAL, Method.NONPRIVATE)


def protected_policy(policy: Policy, method: Method) -> Policy:
    """Return the policy that a method keeps.

    Guarantee
    ---------
    ``standard``: a change of any set of features is a sensitive one, so what is
    proved is ordinary replace-one DP. ``semi``: insensitive features count as public
    and nothing is promised about them (`docs/theory/neighbors.md`).
    """
    role = {Method.STANDARD: ColumnRole.SENSITIVE, Method.SEMI: ColumnRole.PUBLIC}
    if method not in role:
        return policy
    return replace(
        policy,
        features=tuple(
            replace(feature, role=role[method], leakage=None, score=0.0)
            if feature.role is ColumnRole.INSENSITIVE
            else feature
            for feature in policy.features
        ),
        block_leakage=None,
    )


def partial_policy(policy: Policy) -> Policy:
    """Return the policy without its sensitive features."""
    kept = tuple(f for f in policy.features if f.role is not ColumnRole.SENSITIVE)
    if not kept:
        raise PolicyError(
            "method='partial' leaves the sensitive features out, and the policy has no "
            "others. Choose another method."
        )
    return replace(policy, features=kept)
