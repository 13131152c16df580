"""How a budget is split between everything that training releases."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from corrdp._typing import FloatArray
from corrdp.accounting import WHOLE_RECORD, GaussianEvent, gaussian_mu
from corrdp.certificate import Component
from corrdp.exceptions import BudgetError, UnsupportedEventError
from corrdp.policy import (
    Block,
    Budget,
    ColumnRole,
    NeighborClass,
    Policy,
    allowed_epsilons,
    policy_blocks,
    unmoved_classes,
    with_unmoved_at_least,
)
from corrdp.training._solver import Schedule
from corrdp.training._totals import means_noise

# What is asked besides gradients gets little: means only center features, and a center
# that is a little off is nearly as good, while noise on gradients is in the model.
MEANS_SHARE = 0.05
RESIDUAL_SHARE = 0.03
LAST_SHARE = 0.2
"""Kept by other classes after a head start, of what sensitive features may spend."""
_ROUND_OFF = 1.0 - 1e-12  # squares of shares must not add up to more than the whole


@dataclass(frozen=True)
class BudgetSplit:
    """Gaussian-DP parameter of every class, split before any data is touched.

    Parameters
    ----------
    classes : tuple of NeighborClass
        Classes of the policy, ``whole_record`` last.
    total_mu : mapping of str to float
        What training may cost a class in all, ``whole_record`` included.
    residual_share : float
        Part of the smallest ``mu**2`` that adapts the residual bound; 0 for none.
    blocks : tuple of Block
        Blocks of the encoder, which tell what column means cost each class.
    known_means : mapping of str to tuple of float
        By block, means of its columns that an earlier release has paid for; only the
        others are released.
    parts : mapping of str to float
        By class, the part of what gradients may cost in ``mu**2`` that this walk may
        spend, where training has two (`HeadStart`); 1 for classes left out.

    Guarantee
    ---------
    Per class, means, residual fractions and the gradients of all walks compose to
    ``total_mu``: squares of Gaussian-DP parameters add up under adaptive composition
    (`docs/theory/gaussian.md`). What means cost is known before a row is read.
    """

    classes: tuple[NeighborClass, ...]
    total_mu: Mapping[str, float]
    blocks: tuple[Block, ...]
    residual_share: float = 0.0
    known_means: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def smallest_mu(self) -> float:
        """The least that any class may spend."""
        return min(self.total_mu.values())

    @property
    def means_mu(self) -> dict[str, float]:
        """What the column means may cost each class: `MEANS_SHARE` of its squares."""
        root = math.sqrt(MEANS_SHARE)
        return {name: root * mu for name, mu in self.total_mu.items()}

    @property
    def means_cost(self) -> Mapping[str, float]:
        """What the column means do cost each class."""
        return self.means_noise[1]

    @cached_property
    def means_noise(self) -> tuple[FloatArray, Mapping[str, float]]:
        """Noise on the column sums of the blocks, and what it costs each class."""
        return means_noise(self.blocks, self)

    @property
    def known_text(self) -> str:
        """Whose means an earlier release has paid for, in words; empty if none."""
        if not self.known_means:
            return ""
        told: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for block in self.blocks:
            if block.role is not ColumnRole.PUBLIC:
                told[block.name in self.known_means][block.feature] = None
        rest = ""
        if told[False]:
            rest = f", those of {', '.join(told[False])} are released"
        return (
            f"column means of {', '.join(told[True])} are read from the released "
            f"leakage table at no further cost{rest}"
        )

    @property
    def residual_mu(self) -> float:
        """What all residual fractions together cost every class."""
        return math.sqrt(self.residual_share) * self.smallest_mu

    @cached_property
    def gradient_mu(self) -> dict[str, float]:
        """What the gradients of this walk may cost each class: what means leave of it.

        A class that means do not move, or less than they may, has more for gradients.
        """
        return {
            name: _ROUND_OFF
            * math.sqrt(mu**2 - self.means_cost[name] ** 2 - self.residual_mu**2)
            * math.sqrt(self.parts.get(name, 1.0))
            for name, mu in self.total_mu.items()
        }

    def step_mu(self, n_steps: int) -> dict[str, float]:
        """Return what one of `n_steps` gradients may cost each class."""
        return {name: mu / math.sqrt(n_steps) for name, mu in self.gradient_mu.items()}

    def walk(self, parts: Mapping[str, float]) -> "BudgetSplit":
        """Return the split of one of two walks, which share the release of means."""
        walk = replace(self, parts=parts)
        vars(walk)["means_noise"] = self.means_noise  # allocated once for both
        return walk

    def components(
        self, n_steps: int, *, epoch_steps: int = 1, releases_means: bool = True
    ) -> tuple[Component, ...]:
        """Return what a certificate is issued on.

        So many gradients, of which one in `epoch_steps` is whole (`Schedule`); the
        second of two walks releases no means, the first has done so.
        """
        schedule = Schedule(n_steps, epoch_steps)
        count = schedule.n_snapshots
        whole = schedule.snapshot_mu(self.gradient_mu)
        parts = [Component("gradients", events=_events(whole, count=count))]
        if schedule.n_differences:
            rest = schedule.difference_mu(self.gradient_mu)
            events = _events(rest, count=schedule.n_differences)
            parts.append(Component("gradient differences", events=events))
        if releases_means and any(self.means_cost.values()):
            parts.insert(0, Component("column means", events=_events(self.means_cost)))
        if self.residual_share > 0:
            every = dict.fromkeys(
                (c.name for c in self.classes), self.residual_mu / math.sqrt(count)
            )
            parts.append(
                Component("residual fractions", events=_events(every, count=count))
            )
        return tuple(parts)


def plan_spending(
    policy: Policy,
    classes: Sequence[NeighborClass],
    *,
    budget: Budget,
    spent: Sequence[Component] = (),
    adapts_residual_bound: bool = False,
    known_means: Mapping[str, tuple[float, ...]] | None = None,
) -> BudgetSplit:
    """Turn epsilons into Gaussian-DP parameters, minus what was spent before.

    Parameters
    ----------
    policy : Policy
        Gives the cap on the epsilon of a class.
    classes : sequence of NeighborClass
        Classes with their distances.
    budget : Budget
        Epsilon and delta of everything together.
    spent : sequence of Component
        Earlier releases on the same rows that count against the budget.
    adapts_residual_bound : bool
        Whether training releases fractions of small residuals besides gradients.
    known_means : mapping of str to tuple of float, optional
        Means of columns by block that `spent` has paid for.

    Guarantee
    ---------
    Training and `spent` together keep every promised class within its epsilon:
    `docs/theory/gaussian.md`.
    """
    total = {}
    for name, allowed in _allowed_mu(tuple(classes), budget, policy.epsilon_cap):
        before = math.sqrt(spent_square(spent, name))
        if before >= allowed:
            raise BudgetError(
                f"earlier releases cost class {name!r} mu={before:.6g}, the budget "
                f"allows {allowed:.6g} in all. Raise epsilon={budget.epsilon!r}, which "
                "has to pay for them too, or estimate the leakage with a smaller one."
            )
        total[name] = _ROUND_OFF * math.sqrt(allowed**2 - before**2)
    unmoved = unmoved_classes(policy, classes)
    total = with_unmoved_at_least(total, unmoved)
    moved = [c for c in classes if c.name not in unmoved]
    total[WHOLE_RECORD] = _whole_record_mu(
        moved if total.keys() - unmoved else classes, total
    )
    return BudgetSplit(
        tuple(classes),
        total,
        policy_blocks(policy),
        residual_share=RESIDUAL_SHARE if adapts_residual_bound else 0.0,
        known_means=known_means or {},
    )


@lru_cache(maxsize=64)
def _allowed_mu(
    classes: tuple[NeighborClass, ...], budget: Budget, epsilon_cap: float
) -> tuple[tuple[str, float], ...]:
    """Return the Gaussian-DP parameter of every promised class, before any release.

    A fit splits its budget several times, before and after counts and in search of what
    would do: this part stays the same, and turning an epsilon takes a search.
    """
    epsilons = allowed_epsilons(
        (neighbor for neighbor in classes if neighbor.promised),
        epsilon=budget.epsilon,
        epsilon_cap=epsilon_cap,
    )
    mu_of = {
        epsilon: gaussian_mu(epsilon=epsilon, delta=budget.delta)
        for epsilon in set(epsilons.values())
    }
    return tuple((name, mu_of[epsilon]) for name, epsilon in epsilons.items())


def _whole_record_mu(
    classes: Sequence[NeighborClass], promised: Mapping[str, float]
) -> float:
    """Return a price for whole records that hardly ever asks for more noise.

    If every group moved under its own class only, and each class had spent all it may,
    a whole record would cost the root of the sum of squares.
    """
    named = {name for neighbor in classes[:-1] for name in neighbor.features}
    squares, left = 0.0, named.intersection(classes[-1].features)
    for neighbor in classes[:-1]:
        if left & set(neighbor.features) or not (squares or left):
            squares += promised[neighbor.name] ** 2
            left -= set(neighbor.features)
    return math.sqrt(squares)


def whole_record_spending(spending: BudgetSplit) -> BudgetSplit:
    """Return the spending under which every class, whole records too, costs the least.

    Guarantee
    ---------
    No class may spend more than under `spending`, so plans that keep the result keep
    `spending`; a change of the whole record is as well hidden as a sensitive one
    (`docs/theory/default_rule.md`).
    """
    every = dict.fromkeys((c.name for c in spending.classes), spending.smallest_mu)
    return replace(spending, total_mu=every)


def with_whole_record(spending: BudgetSplit, features: Collection[str]) -> BudgetSplit:
    """Return the spending if a change of the whole record were one of these features.

    To compare promises; what is trained keeps the classes of its own.
    """
    changed = tuple(sorted(set(features)))
    classes = tuple(
        replace(c, features=changed) if c.name == WHOLE_RECORD else c
        for c in spending.classes
    )
    return replace(spending, classes=classes)


def head_start_parts(
    spending: BudgetSplit, sensitive: Collection[str]
) -> tuple[BudgetSplit, BudgetSplit] | None:
    """Return the budgets of a walk that holds sensitive weights at 0 and of the next.

    Classes that change sensitive features alone spend all of theirs in the second.
    There others move sensitive weights through residuals only, by less than these do,
    so that they keep a part of as much. None if a class changes labels, and so every
    residual.

    Guarantee
    ---------
    Parts of both add up to what `spending` allows
    (`docs/theory/default_rule.md`, Proposition 6).
    """
    if any(c.label_changes for c in spending.classes):
        return None
    squares = {name: mu**2 for name, mu in spending.gradient_mu.items()}
    still = {c.name for c in spending.classes if set(c.features) <= set(sensitive)}
    spent_last = max((squares[name] for name in still), default=0.0)
    kept = dict.fromkeys(squares, LAST_SHARE * spent_last)
    kept[WHOLE_RECORD] = (1.0 + LAST_SHARE) * spent_last  # changes sensitive ones too
    last = {
        name: 1.0 if name in still else min(kept[name] / square, 1.0)
        for name, square in squares.items()
    }
    first = {name: 1.0 - part for name, part in last.items()}
    return spending.walk(first), spending.walk(last)


def spent_square(spent: Sequence[Component], class_name: str) -> float:
    """Return what earlier releases cost a class, in squares of Gaussian-DP parameters.

    Infinite if one of them has no noise where the class moves.

    Guarantee
    ---------
    Squares add up under adaptive composition (`docs/theory/gaussian.md`).
    """
    squares = 0.0
    for component in spent:
        events = component.events_of(class_name)
        if events is None:
            return math.inf
        for event in events:
            if not isinstance(event, GaussianEvent):
                raise UnsupportedEventError(
                    f"component {component.name!r} holds a {type(event).__name__}; "
                    "training can be planned after Gaussian releases only. Release "
                    "the leakage with Gaussian noise."
                )
            squares += event.count * event.mu**2
    return squares


def _events(
    mu: Mapping[str, float], count: int = 1
) -> dict[str, tuple[GaussianEvent, ...]]:
    return {name: (GaussianEvent(mu=value, count=count),) for name, value in mu.items()}
