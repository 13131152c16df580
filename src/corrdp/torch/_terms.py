"""The terms under which a network is trained: all that its certificate needs."""

from dataclasses import dataclass

from corrdp.certificate import Certificate, Component, LeakageClaim, certify
from corrdp.policy import Budget, Policy
from corrdp.torch._plan_inputs import NetworkPlan

SEPARATE_EXAMPLES = (
    "the module and its loss treat every example by itself: a trial on random rows "
    "found no coupling, and what it cannot see is assumed"
)


@dataclass(frozen=True, eq=False)
class ReleaseTerms:
    """Policy, budget and leakage of a training.

    Parameters
    ----------
    policy : Policy
        Who is protected from what.
    budget : Budget
        Epsilon and delta.
    leakage : LeakageClaim
        Distances and where they came from.
    spent : tuple of Component
        Earlier releases on the same rows.
    replayable_noise : bool
        Whether a seed was given.
    leakage_assumptions : tuple of str
        What the leakage rests on.
    replayable_leakage : bool
        Whether the leakage was released with a fixed seed.
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
