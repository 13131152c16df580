"""Whose leakage is asked under a neighbor relation, and which tables answer."""

from collections.abc import Mapping

from corrdp._names import BLOCK
from corrdp.exceptions import PolicyError
from corrdp.leakage._coding import check_resolution
from corrdp.leakage._counts import MAX_CELLS, CountLayout, TableShape
from corrdp.leakage._definition import check_definition_size
from corrdp.leakage._levels import TableWords
from corrdp.policy import Conditioning, NeighborRelation, Policy, PolicyEncoder


def leakage_targets(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Return what is asked: each insensitive feature, or all of them together."""
    if policy.relation is NeighborRelation.ONE_INSENSITIVE:
        return {name: (name,) for name in policy.insensitive}
    return {BLOCK: policy.insensitive} if policy.insensitive else {}


def release_targets(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Return the tables that a private release counts.

    Those of `leakage_targets`; under ``definition`` one table of all features that may
    be known, which bounds every one of them if a single feature is sensitive.

    Guarantee
    ---------
    docs/theory/leakage.md, Theorem 6; more sensitive features are refused there.
    """
    if policy.conditioning is not Conditioning.DEFINITION:
        return leakage_targets(policy)
    if len(policy.sensitive) != 1:
        raise PolicyError(
            "conditioning='definition' has a private release for one sensitive "
            f"feature, got {len(policy.sensitive)}: a sensitive one may be known then, "
            "and a rare value of it may open the others, which no table of fewer "
            "features bounds. Use a public table, declare the leakage, or "
            "conditioning='marginal'."
        )
    others = policy.insensitive + policy.public
    return {BLOCK: others} if policy.insensitive else {}


def count_layout(
    policy: Policy,
    targets: Mapping[str, tuple[str, ...]],
    *,
    max_cells: int = MAX_CELLS,
) -> CountLayout:
    """Return the tables of joint sensitive cells against each target."""
    changed = [name for names in targets.values() for name in names]
    check_resolution(policy, [*policy.sensitive, *changed])
    return CountLayout(
        PolicyEncoder(policy).n_codes, policy.sensitive, targets, max_cells
    )


def telling_shapes(layout: CountLayout) -> list[TableShape]:
    """Return the tables that can tell anything: two values and two cells at least.

    The others have leakage 0 by their declaration, whatever the rows are.
    """
    return [s for s in layout.shapes if s.n_values > 1 and s.n_cells > 1]


def joint_layout(policy: Policy) -> CountLayout:
    """Return the one table over all features, for ``definition``."""
    n_codes = PolicyEncoder(policy).n_codes
    names = tuple(feature.name for feature in policy.features)
    check_resolution(policy, names)
    changed = {place for place, name in enumerate(names) if name in policy.insensitive}
    together = policy.relation is NeighborRelation.ALL_INSENSITIVE
    check_definition_size([n_codes[name] for name in names], tuple(changed) * together)
    return CountLayout(n_codes, names, {"joint": ()})


def table_words(policy: Policy, changed: tuple[str, ...]) -> TableWords:
    """Return what the rows and columns of a target's table mean."""
    n_codes = PolicyEncoder(policy).n_codes
    return TableWords.of(
        *(
            [(policy.feature(name), n_codes[name]) for name in names]
            for names in (changed, policy.sensitive)
        )
    )
