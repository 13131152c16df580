"""Three ways to fit privately, each with the certificate of what it released.

All three certify and charge first and ask rows for sums afterwards: what a fit costs is
decided by its plan, which no row has a say in.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from numpy.typing import NDArray

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.certificate import Calibration, Certificate, Component, certify
from corrdp.exceptions import UnsupportedEventError
from corrdp.leakage import LeakageInput
from corrdp.policy import (
    Budget,
    NeighborClass,
    Policy,
    allowed_epsilons,
    neighbor_classes,
)
from corrdp.training import (
    CONSTANT,
    GradientSensitivity,
    HostedTable,
    SampledBudget,
    SegmentHost,
    TheoremPlan,
    TiledTable,
    TrainedModel,
    TrainingPlan,
    descend_by_theorem,
    descend_sampled_tiled,
    descend_tiled,
    nominal_coef,
    plan_sampling,
)

Charge: TypeAlias = Callable[[Certificate], object]
PrivateFit: TypeAlias = tuple[TrainedModel, Certificate]
"""Parameters in encoded columns with the path to them, and what is proved."""

_SAMPLED_STEPS = 500


@dataclass(frozen=True, eq=False)
class Promise:
    """The policy that a fit keeps, and the distances that it goes by.

    Classes of neighbors follow from both, and are found once for all plans of a fit.
    A certificate finds them again: it believes no plan.
    """

    policy: Policy
    leakage: LeakageInput
    classes: tuple[NeighborClass, ...]

    @classmethod
    def of(cls, policy: Policy, leakage: LeakageInput) -> "Promise":
        return cls(policy, leakage, neighbor_classes(policy, leakage.distances))


@dataclass(frozen=True, eq=False)
class Fit:
    """What is promised of a fit, who pays, and the rows in tiles, once there are any.

    `charge` is told the certificate before anything that a class changes is computed
    from the rows; what it raises stops the fit.
    """

    promise: Promise
    budget: Budget
    random_state: int | None
    charge: Charge
    assumptions: tuple[str, ...] = ()
    tiles: TiledTable | HostedTable | None = None  # in order, if there are samples
    host: SegmentHost | None = None  # who asks the segments; else this process
    plan: TrainingPlan | None = None
    certificate: Certificate | None = None  # where the plan was paid for before

    @property
    def rows(self) -> TiledTable | HostedTable:
        """The tiles, which all have but fits by the paper's formulas."""
        assert self.tiles is not None
        return self.tiles

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
        leakage = self.promise.leakage
        certificate = certify(
            self.promise.policy,
            (*leakage.spent, *components),
            budget=self.budget,
            leakage=leakage.claim,
            calibration=calibration,
            assumptions=(*leakage.assumptions, *self.assumptions),
            replayable_noise=(
                self.random_state is not None or leakage.replayable_noise
            ),
        )
        self.charge(certificate)
        return certificate


def promised(fit: Fit, plan: TrainingPlan) -> Certificate:
    """Issue the certificate of training on all rows at every step, and charge it.

    Guarantee
    ---------
    That of `Fit.certified`; a function of the plan, so that it is known before a row
    is read (`docs/theory/solvers.md`).
    """
    told = plan.spending.known_text
    if told and plan.noise != CONSTANT:
        fit = replace(fit, assumptions=(*fit.assumptions, told))
    return fit.certified(plan.components())


def fit_full_batch(fit: Fit, plan: TrainingPlan) -> PrivateFit:
    """Fit on all rows at every step (`corrdp.training.Descent`)."""
    certificate = fit.certificate or promised(fit, plan)
    rng = noise_generator(fit.random_state)
    return descend_tiled(fit.rows, plan, rng, host=fit.host), certificate


def sampled_budget(
    plan: TrainingPlan,
    policy: Policy,
    *,
    budget: Budget,
    rate: float,
    n_steps: int | None = None,
) -> SampledBudget:
    """Return what every step on samples may cost, for a plan and a budget.

    Of the policy the cap on epsilons is read. The number of steps is that of a sampled
    fit by default, whatever the plan says: a plan counts steps over all rows.
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
    fit: Fit, plan: TrainingPlan, *, rate: float, n_steps: int | None
) -> PrivateFit:
    """Fit on Poisson samples (`corrdp.training.descend_sampled_tiled`)."""
    if fit.promise.leakage.spent:
        raise UnsupportedEventError(
            f"sampling_rate={rate!r} after a leakage table that was paid from the same "
            "budget is not covered by the proof of sampled steps. Train on full "
            "batches (sampling_rate=None), or declare the leakage."
        )
    sampled = sampled_budget(
        plan, fit.promise.policy, budget=fit.budget, rate=rate, n_steps=n_steps
    )
    certificate = fit.certified(sampled.components())
    rng = noise_generator(fit.random_state)
    found = descend_sampled_tiled(fit.rows, plan, sampled, rng, host=fit.host)
    return TrainedModel(*found), certificate


def fit_by_theorem(
    codes: FloatArray, labels: NDArray[Any], fit: Fit, plan: TheoremPlan
) -> PrivateFit:
    """Fit with the paper's noise, on rows in memory.

    Guarantee
    ---------
    What ``plan.noise`` proves, which may be nothing (`docs/theory/paper_noise.md`).
    """
    components = (Component("gradients", plan=plan.noise),)
    certificate = fit.certified(components, Calibration.THEOREM)
    rng = noise_generator(fit.random_state)
    return TrainedModel(*descend_by_theorem(codes, labels, plan, rng)), certificate
