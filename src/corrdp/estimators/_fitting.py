"""Three ways to fit privately, each with the certificate of what it released."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.certificate import Calibration, Certificate, Component, certify
from corrdp.exceptions import UnsupportedEventError
from corrdp.leakage import LeakageInput
from corrdp.policy import Budget, Policy, allowed_epsilons
from corrdp.training import (
    CONSTANT,
    GradientSensitivity,
    HostedTable,
    LabelTotals,
    Loss,
    SampledBudget,
    SegmentHost,
    TheoremPlan,
    TiledTable,
    TrainedModel,
    TrainingPlan,
    descend,
    descend_by_theorem,
    descend_sampled_tiled,
    descend_tiled,
    means_noise,
    nominal_coef,
    plan_sampling,
)

Charge: TypeAlias = Callable[[Certificate], object]
PrivateFit: TypeAlias = tuple[TrainedModel, Certificate]
"""Parameters in encoded columns with the path to them, and what is proved."""

_SAMPLED_STEPS = 500


@dataclass(frozen=True, eq=False)
class Rows:
    """Encoded rows and labels, and the promise under which they are used.

    `charge` is told the certificate before anything that a class changes is computed
    from the rows; what it raises stops the fit.
    """

    codes: FloatArray | None  # of the encoder; None if there are tiles
    labels: NDArray[Any] | None
    policy: Policy  # that is kept
    budget: Budget
    leakage: LeakageInput
    random_state: int | None
    charge: Charge | None = None
    assumptions: tuple[str, ...] = ()
    tiles: TiledTable | HostedTable | None = None  # in order, if there are samples
    host: SegmentHost | None = None  # who asks the segments; else this process
    plan: TrainingPlan | None = None  # where it was chosen before
    certificate: Certificate | None = None  # where the plan was paid for before

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.encoded[1]) if self.tiles is None else self.tiles.n_rows

    def label_totals(self, loss: Loss) -> LabelTotals:
        """Return the sums of the labels, wherever the rows are."""
        if self.tiles is None:
            return LabelTotals.of(self.encoded[1], loss)
        return self.tiles.label_totals(loss)

    @property
    def encoded(self) -> tuple[FloatArray, NDArray[Any]]:
        """Codes and labels, of rows that are in memory."""
        assert self.codes is not None  # tiles are for full batches
        assert self.labels is not None
        return self.codes, self.labels

    def certified(
        self,
        components: tuple[Component, ...],
        calibration: Calibration = Calibration.CERTIFIED,
    ) -> Certificate:
        """Issue the certificate of what will be released, leakage first; charge it.

        Guarantee
        ---------
        Refused if a class exceeds its epsilon (`docs/theory/composition.md`). Costs
        are those of the plan, so they are paid before the rows are used
        (`docs/theory/ledger.md`).
        """
        certificate = certify(
            self.policy,
            (*self.leakage.spent, *components),
            budget=self.budget,
            leakage=self.leakage.claim,
            calibration=calibration,
            assumptions=(*self.leakage.assumptions, *self.assumptions),
            replayable_noise=(
                self.random_state is not None or self.leakage.replayable_noise
            ),
        )
        if self.charge is not None:
            self.charge(certificate)
        return certificate


def promised(rows: Rows, plan: TrainingPlan) -> Certificate:
    """Issue the certificate of training on all rows at every step, and charge it.

    Guarantee
    ---------
    That of `Rows.certified`; a function of the plan, so that it is known before a row
    is read (`docs/theory/solvers.md`).
    """
    cost = means_noise(plan.layout.blocks, plan.spending)[1]
    told = plan.spending.known_text
    if told and plan.noise != CONSTANT:
        rows = replace(rows, assumptions=(*rows.assumptions, told))
    return rows.certified(plan.components(cost))


def fit_full_batch(rows: Rows, plan: TrainingPlan) -> PrivateFit:
    """Fit on all rows at every step (`corrdp.training.Descent`)."""
    certificate = rows.certificate or promised(rows, plan)
    model = _descended(rows, plan, noise_generator(rows.random_state))
    return model, certificate


def _descended(
    rows: Rows, plan: TrainingPlan, rng: np.random.Generator
) -> TrainedModel:
    if rows.tiles is None:  # a constant, which needs labels alone
        return descend(*rows.encoded, plan, rng)
    return descend_tiled(rows.tiles, plan, rng, host=rows.host)


def sampled_budget(
    plan: TrainingPlan,
    policy: Policy,
    *,
    budget: Budget,
    rate: float,
    n_steps: int | None = None,
) -> SampledBudget:
    """Return what every step on samples may cost, for a plan and a budget.

    Parameters
    ----------
    plan : TrainingPlan
        Groups, norms and classes.
    policy : Policy
        Its cap on epsilons.
    budget : Budget
        Of all steps together.
    rate : float
        Sampling rate.
    n_steps : int, optional
        Number of steps; by default that of a sampled fit.
    """
    classes = plan.spending.classes
    sensitivity = GradientSensitivity(plan.loss, plan.layout, classes)
    return plan_sampling(
        sensitivity.table(
            nominal_coef(plan.layout.blocks, plan.loss, plan.label_deviation)
        ),
        allowed_epsilon=allowed_epsilons(
            classes, epsilon=budget.epsilon, epsilon_cap=policy.epsilon_cap
        ),
        delta=budget.delta,
        n_steps=n_steps or _SAMPLED_STEPS,
        rate=rate,
    )


def fit_on_samples(
    rows: Rows, plan: TrainingPlan, *, rate: float, n_steps: int | None
) -> PrivateFit:
    """Fit on Poisson samples (`corrdp.training.descend_sampled_tiled`)."""
    if rows.leakage.spent:
        raise UnsupportedEventError(
            f"sampling_rate={rate!r} after a leakage table that was paid from the same "
            "budget is not covered by the proof of sampled steps. Train on full "
            "batches (sampling_rate=None), or declare the leakage."
        )
    sampled = sampled_budget(
        plan, rows.policy, budget=rows.budget, rate=rate, n_steps=n_steps
    )
    certificate = rows.certified(sampled.components())
    rng = noise_generator(rows.random_state)
    assert rows.tiles is not None  # the paper's calibration alone has none
    found = descend_sampled_tiled(rows.tiles, plan, sampled, rng, host=rows.host)
    return TrainedModel(*found), certificate


def fit_by_theorem(rows: Rows, plan: TheoremPlan) -> PrivateFit:
    """Fit with the paper's noise.

    Guarantee
    ---------
    What ``plan.noise`` proves, which may be nothing (`docs/theory/paper_noise.md`).
    """
    components = (Component("gradients", plan=plan.noise),)
    certificate = rows.certified(components, Calibration.THEOREM)
    rng = noise_generator(rows.random_state)
    return TrainedModel(*descend_by_theorem(*rows.encoded, plan, rng)), certificate
