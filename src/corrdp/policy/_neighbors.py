"""Neighbor classes: what of one record may change, how far, and what is promised."""

import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from corrdp._names import WHOLE_RECORD
from corrdp._validate import check_count, check_delta, check_epsilon, check_real, shown
from corrdp.exceptions import BudgetError, CorrDPWarning, PolicyError
from corrdp.policy._checks import checked_share
from corrdp.policy._features import ColumnRole, NeighborRelation
from corrdp.policy._policy import Policy

SENSITIVE = "sensitive"
INSENSITIVE = "insensitive"
LABEL = "label"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The epsilon and delta promised to the sensitive features.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In [0, 1); well below one over the number of rows.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta, allow_zero=True))

    @classmethod
    def chosen(cls, *, epsilon: float | None, delta: float | None) -> "Budget":
        """Return the budget that an estimator was given; there is no default."""
        if epsilon is None or delta is None:
            raise BudgetError(
                f"epsilon={epsilon!r} and delta={delta!r}: a budget is chosen, never "
                "inherited. Pass both, for example epsilon=1.0 and delta=1e-6."
            )
        return cls(epsilon=epsilon, delta=delta)

    def warn_if_large_delta(self, n_rows: int) -> None:
        """Warn if delta allows publishing one row of `n_rows` outright."""
        count = check_count("n_rows", n_rows, error=BudgetError)
        if self.delta >= 1.0 / count:
            warnings.warn(
                f"delta={self.delta:g} is at least 1 / n_rows = {1.0 / count:g}: a "
                "mechanism that publishes one random row satisfies it. Choose a delta "
                "well below, for example a tenth of it.",
                CorrDPWarning,
                stacklevel=2,
            )


def class_epsilon(distance: float, *, epsilon: float, epsilon_cap: float) -> float:
    """Return the epsilon promised to neighbors at a distance.

    Guarantee
    ---------
    ``min(epsilon / distance, max(epsilon, epsilon_cap))``: never above what
    Definition 2.2 of the paper asks for (``epsilon / distance``), so the cap only
    strengthens the promise, and never below `epsilon`. Proof: docs/theory/neighbors.md.

    Examples
    --------
    >>> class_epsilon(0.25, epsilon=1.0, epsilon_cap=10.0)
    4.0
    >>> class_epsilon(0.01, epsilon=1.0, epsilon_cap=10.0)
    10.0
    """
    distance = check_real(
        "distance",
        distance,
        lower=0.0,
        open_lower=True,
        upper=1.0,
        remedy="Apply the policy's distance floor first.",
        error=BudgetError,
    )
    epsilon = check_epsilon(epsilon)
    cap = check_epsilon(epsilon_cap, name="epsilon_cap")
    return min(epsilon / distance, max(epsilon, cap))


@dataclass(frozen=True, slots=True)
class NeighborClass:
    """Pairs of tables in which one record differs in some of the named columns.

    Parameters
    ----------
    name : str
        ``sensitive``, ``insensitive:<feature>``, ``insensitive``, ``label`` or
        ``whole_record``.
    features : tuple of str
        Features any or all of which may change.
    label_changes : bool
        Whether the label may change too.
    distance : float
        In [floor, 1]; the class is promised the budget divided by it.
    promised : bool
        False for ``whole_record``, which is priced but never promised.
    """

    name: str
    features: tuple[str, ...]
    label_changes: bool
    distance: float
    promised: bool

    def columns(self, policy: Policy) -> frozenset[str]:
        """Return the columns that may change, the policy's label among them if so."""
        label = () if policy.label is None else (policy.label.name,)
        return frozenset(self.features + (label if self.label_changes else ()))


class _Promise(Protocol):
    """A class of neighbors, or what a certificate claims about one."""

    @property
    def distance(self) -> float: ...

    @property
    def promised(self) -> bool: ...


def allowed_epsilon(neighbor: _Promise, *, epsilon: float, epsilon_cap: float) -> float:
    """Return the epsilon that a class may reach; infinite if it is only priced.

    `epsilon` is the budget of sensitive features.

    Guarantee
    ---------
    Never above what the definition asks for: `docs/theory/neighbors.md`.
    """
    if not neighbor.promised:
        return math.inf
    return class_epsilon(neighbor.distance, epsilon=epsilon, epsilon_cap=epsilon_cap)


def allowed_epsilons(
    classes: Iterable[NeighborClass], *, epsilon: float, epsilon_cap: float
) -> dict[str, float]:
    """Return `allowed_epsilon` of every class, by name.

    Guarantee
    ---------
    That of `allowed_epsilon` (`docs/theory/neighbors.md`).
    """
    return {
        neighbor.name: allowed_epsilon(
            neighbor, epsilon=epsilon, epsilon_cap=epsilon_cap
        )
        for neighbor in classes
    }


def neighbor_classes(
    policy: Policy, leakage: Mapping[str, float] | float | None = None
) -> tuple[NeighborClass, ...]:
    """Return the classes of neighbors that a policy speaks of.

    Parameters
    ----------
    policy : Policy
        Roles, scores, relation, floor.
    leakage : mapping of str to float, or float, optional
        Under ``one_insensitive`` one value per insensitive feature, under
        ``all_insensitive`` one value for the block; the declared ones by default.

    Returns
    -------
    classes : tuple of NeighborClass
        Promised classes first; ``whole_record`` last.

    Guarantee
    ---------
    A mechanism that is ``(class_epsilon(distance), delta)``-indistinguishable on every
    promised class is CorrDP for the policy: the floor and joining the label only
    strengthen what is asked. Not covered: a change of sensitive and insensitive
    features together (priced as ``whole_record``; a sensitive label counts among
    them), public features, and labels of score 0. Proof: docs/theory/neighbors.md.
    """
    label = policy.label
    label_changes = policy.label_is_protected
    joins_all = label_changes and label is not None and not label.is_sensitive
    # A label that joins every class brings its own score along.
    joined_score = label.score if label is not None and joins_all else 0.0

    def insensitive(name: str, features: tuple[str, ...], own: float) -> NeighborClass:
        distance = max(own, joined_score, policy.distance_floor)
        return NeighborClass(name, features, joins_all, distance, True)

    classes = []
    if policy.sensitive or (label_changes and not joins_all and policy.insensitive):
        classes.append(
            NeighborClass(SENSITIVE, policy.sensitive, label_changes, 1.0, True)
        )
    if policy.relation is NeighborRelation.ONE_INSENSITIVE:
        of_column = _column_distances(policy, leakage)
        classes += [
            insensitive(f"{INSENSITIVE}:{name}", (name,), of_column[name])
            for name in policy.insensitive
        ]
    elif policy.insensitive:
        distance = _block_distance(policy, leakage)
        classes.append(insensitive(INSENSITIVE, policy.insensitive, distance))
    if joins_all or (label_changes and not classes):
        score = max(1.0 if label is None else label.score, policy.distance_floor)
        classes.append(NeighborClass(LABEL, (), True, score, True))
    protected = tuple(
        f.name for f in policy.features if f.role is not ColumnRole.PUBLIC
    )
    classes.append(NeighborClass(WHOLE_RECORD, protected, label_changes, 1.0, False))
    return tuple(classes)


def unmoved_classes(policy: Policy, classes: Iterable[NeighborClass]) -> frozenset[str]:
    """Return the names of the classes without neighbors: all columns have one code."""
    return frozenset(
        neighbor.name
        for neighbor in classes
        if not neighbor.label_changes
        and all(policy.feature(name).has_one_code for name in neighbor.features)
    )


def with_unmoved_at_least(
    allowed: Mapping[str, float], unmoved: Collection[str]
) -> dict[str, float]:
    """Return what classes may spend, those without neighbors as little as any.

    A class whose columns have one value each is kept by every release. Releases that
    split a budget state for a class all that it may spend, which is much at its small
    distance: a ledger would charge what nobody can lose. `allowed` is by
    promised class, in any unit; `unmoved` is from `unmoved_classes`.

    Guarantee
    ---------
    No class may spend more than before (docs/theory/neighbors.md, "A column of one
    value").
    """
    least = min(
        (own for name, own in allowed.items() if name not in unmoved),
        default=math.inf,
    )
    return {
        name: min(own, least) if name in unmoved else own
        for name, own in allowed.items()
    }


def class_columns(policy: Policy) -> dict[str, frozenset[str]]:
    """Return the columns each class may change, its label among them if it may.

    Leakage does not matter here: it sets distances, not columns.
    """
    leakage: Mapping[str, float] | float = 1.0
    if policy.relation is NeighborRelation.ONE_INSENSITIVE:
        leakage = dict.fromkeys(policy.insensitive, 1.0)
    classes = neighbor_classes(policy, leakage)
    return {neighbor.name: neighbor.columns(policy) for neighbor in classes}


def _scored(leakage: float | None, score: float, *, missing: str) -> float:
    """Return ``(1 - score) * leakage + score``; leakage is not needed at score 1."""
    if score == 1.0:
        return 1.0
    if leakage is None:
        raise PolicyError(missing)
    return (1.0 - score) * leakage + score


def _column_distances(
    policy: Policy, leakage: Mapping[str, float] | float | None
) -> dict[str, float]:
    if leakage is not None and not isinstance(leakage, Mapping):
        raise PolicyError(
            f"leakage={shown(leakage)} is one number, but relation=one_insensitive "
            "needs one per insensitive feature. Pass a mapping from feature to leakage."
        )
    features = [f for f in policy.features if f.role is ColumnRole.INSENSITIVE]
    declared = {feature.name: feature.known_leakage for feature in features}
    given: Mapping[str, float | None] = declared
    if leakage is not None:
        alone = {f.name: f.known_leakage for f in features if f.leakage is None}
        given = {**alone, **leakage}
    for name in given:
        if name not in declared:
            raise PolicyError(
                f"leakage names {shown(name)}, which is not an insensitive feature. "
                f"Insensitive features: {', '.join(declared) or 'none'}."
            )
    open_ones = [
        f.name for f in features if given.get(f.name) is None and f.score < 1.0
    ]
    distances = {}
    for feature in features:
        name = feature.name
        distances[name] = _scored(
            _checked_leakage(f"leakage[{name!r}]", given.get(name)),
            feature.score,
            missing=(
                f"The leakage of feature {name!r} is not known (leakage=None)"
                f"{_and_more(len(open_ones) - 1)}. Declare features.{name}.leakage in "
                "the policy (1 is always valid), or estimate it (corrdp leakage "
                "--out leakage.json) and pass it (--leakage, leakage=)."
            ),
        )
    return distances


def _and_more(n_others: int) -> str:
    if n_others == 0:
        return ""
    return f", nor that of {n_others} other{'s' if n_others > 1 else ''}"


def _block_distance(
    policy: Policy, leakage: Mapping[str, float] | float | None
) -> float:
    if isinstance(leakage, Mapping):
        raise PolicyError(
            "leakage is a mapping, but relation=all_insensitive needs one number for "
            "the block: what columns leak one by one does not bound what they leak "
            "together. Pass the block's leakage."
        )
    value = policy.block_leakage if leakage is None else leakage
    return _scored(
        _checked_leakage("leakage", value),
        max(f.score for f in policy.features if f.role is ColumnRole.INSENSITIVE),
        missing=(
            "The leakage of the insensitive block is not known (block_leakage=None). "
            "Declare block_leakage, or estimate it and pass it; 1 is always valid."
        ),
    )


def _checked_leakage(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    return checked_share(name, value, "Pass a total variation distance.")
