"""What a plan for a network may depend on, the plan, and what it is certified with."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING

from corrdp._typing import FloatArray, JSONObject
from corrdp.accounting import WHOLE_RECORD, NoisePlan, gaussian_epsilon, gaussian_mu
from corrdp.certificate import (
    Calibration,
    Certificate,
    Component,
    LeakageClaim,
    certify,
)
from corrdp.exceptions import BudgetError, GuaranteeVoidError, UnsupportedEventError
from corrdp.policy import Block, Budget, NeighborClass, Policy, allowed_epsilons
from corrdp.torch._layers import Layer
from corrdp.torch._layout import NetworkLayout
from corrdp.training import spent_square

if TYPE_CHECKING:
    from corrdp.torch._reference import ReferencePlan

INFLUENCE = 0.2
SEPARATE_EXAMPLES = (
    "the module and its loss treat every example by itself: a trial on random rows "
    "found no coupling, and what it cannot see is assumed"
)


@dataclass(frozen=True, eq=False)
class NetworkPlanInputs:
    """What a plan may depend on: public numbers and the shape of the module.

    `rate` is that of Poisson sampling, None for full batches; `influence` the bound of
    a group in units of its clipping norm; `by_feature` whether input columns are
    grouped by raw feature instead of by role; `residual_bound` infinite for plain
    clipping. Everything else is as in `corrdp.torch.make_private`.
    """

    layers: tuple[Layer, ...]
    blocks: tuple[Block, ...]
    reference: FloatArray
    policy: Policy
    classes: tuple[NeighborClass, ...]
    budget: Budget
    n_rows: int
    n_steps: int
    rate: float | None
    clip_norm: float
    influence: float = INFLUENCE
    input_layer: str | None = None
    by_feature: bool = False
    code_scale: FloatArray | None = None
    spent: tuple[Component, ...] = ()
    residual_bound: float = math.inf
    towers: tuple[str, ...] = ()

    @property
    def expected_batch(self) -> float:
        """Expected number of rows of a batch."""
        return self.n_rows * (1.0 if self.rate is None else self.rate)

    @cached_property
    def allowed_epsilon(self) -> Mapping[str, float]:
        """Epsilon left to every class; infinite where it is only priced."""
        allowed = allowed_epsilons(
            self.classes,
            epsilon=self.budget.epsilon,
            epsilon_cap=self.policy.epsilon_cap,
        )
        return MappingProxyType(
            {
                c.name: self.remaining_epsilon(c.name, allowed[c.name])
                if c.promised
                else math.inf
                for c in self.classes
            }
        )

    @property
    def leaves_whole_record(self) -> bool:
        """Whether earlier releases leave budget to noise that hides whole records.

        They are promised less there: a leakage table that every class can afford may
        cost whole records more than epsilon.
        """
        allowed = gaussian_mu(epsilon=self.budget.epsilon, delta=self.budget.delta)
        return spent_square(self.spent, WHOLE_RECORD) < allowed**2

    def remaining_epsilon(self, class_name: str, epsilon: float) -> float:
        """Return what is left of an epsilon after earlier releases.

        Guarantee
        ---------
        Squares of Gaussian-DP parameters add up (`docs/theory/gaussian.md`); training
        within the result and `spent` together keep `epsilon`.
        """
        if not self.spent:
            return epsilon
        if self.rate is not None:
            raise UnsupportedEventError(
                "earlier releases can be joined with full-batch training only, and "
                f"rate={self.rate!r}. Pass batch_size=None, or declare the leakage."
            )
        before = spent_square(self.spent, class_name)
        if math.isinf(before):
            bare = [p.name for p in self.spent if p.events_of(class_name) is None]
            raise GuaranteeVoidError(
                f"the earlier release {bare[0]!r} has no noise where class "
                f"{class_name!r} moves, so nothing bounds what it cost. Release it "
                "again under this policy, or declare the leakage."
            )
        allowed = gaussian_mu(epsilon=epsilon, delta=self.budget.delta) ** 2
        if before >= allowed:
            raise BudgetError(
                f"earlier releases spent all of epsilon={epsilon:g} of class "
                f"{class_name!r}. Raise epsilon, or release the leakage with less."
            )
        mu = math.sqrt(allowed - before) * (1.0 - 1e-9)  # round-off stays inside
        return gaussian_epsilon(mu=mu, delta=self.budget.delta)


@dataclass(frozen=True, eq=False)
class NetworkPlan:
    """Groups and noise of a training.

    `layout` are the groups that are clipped, `noise_layout` those that share a noise
    scale: the same under ``certified``. `deviation` is the noise on one mean gradient,
    all coordinates, per clipping norm, if all of the budget were spent on it;
    `reference` how the reference is released before the first step, None if it is
    public.
    """

    method: str
    calibration: Calibration
    layout: NetworkLayout
    noise_layout: NetworkLayout
    noise: NoisePlan
    deviation: float = math.nan
    reference: "ReferencePlan | None" = None

    @property
    def components(self) -> tuple[Component, ...]:
        """Everything that is released under the plan, with its price."""
        training = Component("training", plan=self.noise)
        if self.reference is None:
            return (training,)
        return Component("reference", plan=self.reference.noise), training

    def epsilon(self, class_name: str) -> float:
        """Return the epsilon proved for a class by all releases; infinite if none is.

        Guarantee
        ---------
        Squares of Gaussian-DP parameters add up (`docs/theory/gaussian.md`).
        """
        if self.reference is None or not self.noise.covers(class_name):
            return self.noise.epsilon(class_name)
        mu = math.hypot(
            math.sqrt(self.noise.n_steps) * self.noise.step_change(class_name),
            self.reference.noise.step_change(class_name),
        )
        return gaussian_epsilon(mu=mu, delta=self.noise.delta)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        bound = self.layout.residual_bound
        return {
            "method": self.method,
            "calibration": str(self.calibration),
            **({"residual_bound": bound} if math.isfinite(bound) else {}),
            "groups": [
                {
                    "name": group.name,
                    "size": group.size,
                    "clip_norm": group.clip_norm,
                    "influence_bound": (
                        group.influence_bound
                        if math.isfinite(group.influence_bound)
                        else None
                    ),
                }
                for group in self.layout.groups
            ],
            "noise": self.noise.to_json(),
            "reference": (
                None if self.reference is None else self.reference.noise.to_json()
            ),
        }

    def to_text(self) -> str:
        """Return the plan as plain tables, printable before training."""
        width = max(12, *(len(group.name) for group in self.layout.groups))
        lines = [f"{'group':<{width}}  {'clip norm':>10}  {'influence':>10}"]
        for group in self.layout.groups:
            bound = group.influence_bound
            shown = f"{bound:.4g}" if math.isfinite(bound) else "none"
            lines.append(
                f"{group.name:<{width}}  {group.clip_norm:>10.4g}  {shown:>10}"
            )
        head = f"method {self.method}, calibration {self.calibration}"
        if self.layout.bounds_residuals:
            head += f", norms per residual of {self.layout.residual_bound:.4g}"
        text = [head, "", *lines, "", self.noise.to_text()]
        if self.reference is not None:
            text += ["", "mean of sensitive codes", self.reference.noise.to_text()]
        return "\n".join(text)


@dataclass(frozen=True, eq=False)
class ReleaseTerms:
    """What else a certificate states: policy, budget, leakage and how it was found.

    `spent` are earlier releases on the same rows; noise and leakage are replayable if
    they were drawn with a seed.
    """

    policy: Policy
    budget: Budget
    leakage: LeakageClaim
    spent: tuple[Component, ...] = ()
    replayable_noise: bool = False
    leakage_assumptions: tuple[str, ...] = ()
    replayable_leakage: bool = False

    def certify(self, plan: NetworkPlan) -> Certificate:
        """Return the certificate of all planned steps.

        Guarantee
        ---------
        Stopping early is post-processing of the whole plan, so that it holds however
        many steps are taken (`docs/theory/networks.md`, section 4).
        """
        return certify(
            self.policy,
            (*self.spent, *plan.components),
            budget=self.budget,
            leakage=self.leakage,
            calibration=plan.calibration,
            assumptions=(SEPARATE_EXAMPLES, *self.leakage_assumptions),
            replayable_noise=self.replayable_noise or self.replayable_leakage,
        )
