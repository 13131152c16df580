"""What synthesis may cost each neighbor class, by stage, before any row is read."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from corrdp.accounting import (
    WHOLE_RECORD,
    ApproximateEvent,
    GaussianEvent,
    PrivacyEvent,
)
from corrdp.certificate import Certificate, Component, certify
from corrdp.exceptions import BudgetError, PolicyError, UnsupportedEventError
from corrdp.leakage import LeakageInput
from corrdp.ledger import ConcentratedEvent
from corrdp.mechanisms.noise import concentrated_epsilon, concentrated_rho
from corrdp.policy import (
    Budget,
    Policy,
    allowed_epsilon,
    class_columns,
    neighbor_classes,
    unmoved_classes,
    with_unmoved_at_least,
)
from corrdp.synthesis._adaptive import (
    Stream,
    candidate_regions,
    guarded_columns,
    plan_streams,
)
from corrdp.synthesis._columns import TableColumns
from corrdp.synthesis._junction_tree import n_cells
from corrdp.synthesis._plan import StagePlan, expected_noise, plan_stage

SINGLES_SHARE = 0.15
PAIRS_SHARE = 0.35
MOST_NOISE = 0.5  # of the rows: a table with more is left out
# Mean noise of all pairs, as a part of the rows, above which screening sees too little.
SCREENABLE_NOISE = 0.25
_SELDOM_REACHED = 1.5  # times what all single columns and pairs would cost
_ROUND_OFF, _ROUND_UP = 1.0 - 1e-9, 1.0 + 1e-12
COMPONENT = "tables of counts"
ASSUMPTION = (
    "synthetic rows are drawn from noisy tables of counts alone; noise is drawn "
    "exactly from a discrete distribution, and any number of rows may be drawn"
)


class Selection(StrEnum):
    """How the tables that a model holds are found."""

    AUTO = "auto"
    SCREEN = "screen"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True, eq=False)
class SynthesisPlan:
    """All noise that is known in advance, and a limit on what is chosen later.

    The last stage is chosen from the noisy pairs. If the choice is adaptive there are
    streams, rounds of choosing and measuring, and `refinement` is what they cost.

    Guarantee
    ---------
    The stages together, the last one chosen as it may, are concentrated DP with
    `rho` of each class; with what the leakage cost, every promised class stays within
    its epsilon (`docs/theory/synthesis.md`, Theorem 2).
    """

    policy: Policy  # that is kept
    columns: TableColumns
    n_rows: int
    budget: Budget  # of everything together
    leakage: LeakageInput  # distances, and what they cost before
    singles: StagePlan
    pairs: StagePlan
    refinement: Mapping[str, float]  # the most that the last stage may cost each class
    streams: tuple[Stream, ...] = ()

    @property
    def selection(self) -> Selection:
        """How tables are found: what ``auto`` came to."""
        return Selection.ADAPTIVE if self.streams else Selection.SCREEN

    def rho(self, class_name: str) -> float:
        """Return what all stages together may cost a class."""
        fixed = self.singles.cost(class_name) + self.pairs.cost(class_name)
        return (float(fixed) + self.refinement[class_name]) * _ROUND_UP

    def charged_events(self) -> dict[str, tuple[PrivacyEvent, ...]]:
        """Return what a ledger charges each class, without the leakage."""
        return {
            name: (ConcentratedEvent(rho=self.rho(name)),) for name in self.refinement
        }

    def certificate(self, *, replayable_noise: bool = False) -> Certificate:
        """Return what the release proves."""
        events: dict[str, tuple[PrivacyEvent, ...]] = {
            name: (
                ApproximateEvent(
                    epsilon=concentrated_epsilon(
                        rho=self.rho(name) + spent_rho(self.leakage.spent, name),
                        delta=self.budget.delta,
                    ),
                    delta=self.budget.delta,
                ),
            )
            for name in self.refinement
        }
        name = f"leakage and {COMPONENT}" if self.leakage.spent else COMPONENT
        return certify(
            self.policy,
            [Component(name, events=events)],
            budget=self.budget,
            leakage=self.leakage.claim,
            assumptions=(ASSUMPTION, *self.leakage.assumptions),
            replayable_noise=replayable_noise or self.leakage.replayable_noise,
        )


def plan_synthesis(
    policy: Policy,
    columns: TableColumns,
    *,
    n_rows: int,
    budget: Budget,
    leakage: LeakageInput,
    max_cells: int,
    selection: Selection = Selection.AUTO,
) -> SynthesisPlan:
    """Split the budget of every class over the stages, from public numbers alone.

    ``auto`` screens all pairs where their noise lets it see them, and chooses
    adaptively where it does not: decided by the noise that screening would have. If
    most pairs cost little it screens in any case: rounds are dealt evenly to tables
    that cost much and tables that cost little, which serves neither well then.

    Guarantee
    ---------
    No class is given more than its epsilon leaves after the leakage was paid
    (`docs/theory/synthesis.md`, Theorems 2 and 3).
    """
    allowed = _allowed_rho(policy, budget, leakage)
    number = {name: i for i, name in enumerate(columns.names)}
    changed = {
        name: frozenset(number[column] for column in own)
        for name, own in class_columns(policy).items()
    }
    singles = [(column,) for column in range(len(columns.names))]
    pairs = [
        pair
        for pair in itertools.combinations(range(len(columns.names)), 2)
        if n_cells(pair, columns.sizes) <= max_cells
    ]
    _refuse_large(columns, max_cells)
    first = plan_stage(
        singles,
        sizes=columns.sizes,
        changed=changed,
        limits=_share(allowed, SINGLES_SHARE),
    )
    second = plan_stage(
        pairs,
        sizes=columns.sizes,
        changed=changed,
        limits=_share(allowed, PAIRS_SHARE),
        n_rows=n_rows,
        most_noise=MOST_NOISE,
    )
    if selection == Selection.AUTO:
        noise = mean_noise(second, columns.sizes, n_pairs=len(pairs), n_rows=n_rows)
        dear = guarded_columns(changed, allowed)
        n_dear = sum(bool(dear.intersection(pair)) for pair in pairs)
        if n_dear > len(pairs) / 2 and noise > SCREENABLE_NOISE:
            selection = Selection.ADAPTIVE
    streams: tuple[Stream, ...] = ()
    if selection == Selection.ADAPTIVE:
        streams = plan_streams(
            candidate_regions(columns.sizes, columns.label, max_cells),
            changed=changed,
            limits={
                name: _ROUND_OFF * (rho - float(first.cost(name)))
                for name, rho in allowed.items()
            },
            n_rounds=len(columns.names),
        )
    if streams:  # else no table is small enough to be looked at in rounds
        free = [r for r in pairs if not changed[WHOLE_RECORD].intersection(r)]
        second = plan_stage(
            free, sizes=columns.sizes, changed=changed, limits=_share(allowed, 0.0)
        )
        costs = {
            name: float(sum((s.cost(name) for s in streams), Fraction(0))) * _ROUND_UP
            for name in (*allowed, WHOLE_RECORD)
        }
        return SynthesisPlan(
            policy, columns, n_rows, budget, leakage, first, second, costs, streams
        )
    # What a stage leaves unused is known in advance too, and goes to the last one.
    rest = {
        name: _ROUND_OFF * (rho - float(first.cost(name)) - float(second.cost(name)))
        for name, rho in allowed.items()
    }
    # What the last stage costs a change of the whole record is not promised, but fixed
    # in advance too, or its price would be no claim: a limit that hardly ever binds.
    every = plan_stage(
        [*singles, *pairs], sizes=columns.sizes, changed=changed, limits=rest
    )
    rest[WHOLE_RECORD] = _SELDOM_REACHED * float(every.cost(WHOLE_RECORD))
    return SynthesisPlan(policy, columns, n_rows, budget, leakage, first, second, rest)


def mean_noise(
    plan: StagePlan, sizes: Sequence[int], *, n_pairs: int, n_rows: int
) -> float:
    """Return the mean expected noise of pairs as a part of the rows, at most 1 each.

    A pair that the plan leaves out counts as nothing but noise.
    """
    if not n_pairs:
        return 0.0
    seen = sum(
        min(1.0, expected_noise(float(scale), n_cells(region, sizes), n_rows))
        for region, scale in zip(plan.regions, plan.scales, strict=True)
    )
    return (seen + n_pairs - len(plan.regions)) / n_pairs


def spent_rho(components: Sequence[Component], class_name: str) -> float:
    """Return what earlier Gaussian releases cost a class.

    Guarantee
    ---------
    ``mu``-Gaussian-DP is ``mu**2 / 2``-concentrated DP
    (`docs/theory/synthesis.md`, Lemma 2).
    """
    rho = 0.0
    for component in components:
        for event in component.events_of(class_name) or (None,):
            if isinstance(event, ConcentratedEvent):
                rho += event.rho
            elif isinstance(event, GaussianEvent):
                rho += event.count * event.mu**2 / 2.0
            else:
                raise UnsupportedEventError(
                    f"component {component.name!r} holds a {type(event).__name__}; "
                    "synthesis can be planned after Gaussian releases only. Release "
                    "the leakage with Gaussian noise."
                )
    return rho


def _allowed_rho(
    policy: Policy, budget: Budget, leakage: LeakageInput
) -> dict[str, float]:
    if budget.delta == 0.0:
        raise BudgetError(
            f"synthesis adds Gaussian noise, which needs delta above 0, got delta="
            f"{budget.delta!r}. Choose a delta well below one over the rows."
        )
    allowed = {}
    classes = neighbor_classes(policy, leakage.distances)
    for neighbor in classes:
        if not neighbor.promised:
            continue
        epsilon = allowed_epsilon(
            neighbor, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
        )
        whole = concentrated_rho(epsilon=epsilon, delta=budget.delta)
        spent = spent_rho(leakage.spent, neighbor.name)
        if spent >= whole:
            raise BudgetError(
                f"earlier releases cost class {neighbor.name!r} rho={spent:.6g}, the "
                f"budget allows {whole:.6g} in all. Raise epsilon={budget.epsilon!r}, "
                "or spend less on the leakage."
            )
        allowed[neighbor.name] = _ROUND_OFF * (whole - spent)
    return with_unmoved_at_least(allowed, unmoved_classes(policy, classes))


def _share(allowed: Mapping[str, float], share: float) -> dict[str, float]:
    return {name: share * rho for name, rho in allowed.items()}


def _refuse_large(columns: TableColumns, max_cells: int) -> None:
    total = sum(columns.sizes)
    if total > max_cells:
        raise PolicyError(
            f"the columns have {total} codes, more than max_cells={max_cells}. Coarsen "
            f"the largest: {columns.largest(range(len(columns.names)))}; declare fewer "
            "bins or groups of categories."
        )
