"""What the studio says before anything is paid: words for a budget, and the plan."""

from typing import Any

from corrdp._typing import JSONObject
from corrdp.accounting import GaussianEvent, attack_risk, gaussian_mu
from corrdp.certificate import LeakageClaim, certify, percent, risk_words
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import LeakageTable
from corrdp.policy import Budget, Policy
from corrdp.report import gradient_noise, plan_verdict

ESTIMATORS = {"logistic": LogisticRegression, "linear": LinearRegression}


def budget_words(epsilon: float, delta: float) -> str:
    """Return what a budget means for an attack on sensitive features."""
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    return risk_words(attack_risk([GaussianEvent(mu)])) + "."


def planned(
    policy: Policy,
    n_rows: int,
    *,
    epsilon: float,
    delta: float,
    model: str,
    leakage: LeakageTable | None,
) -> JSONObject:
    """Return noise, expected quality, prices and a verdict, from public numbers.

    Parameters
    ----------
    policy : Policy
        Confirmed.
    n_rows : int
        Public number of rows.
    epsilon, delta : float
        The budget.
    model : str
        ``logistic`` or ``linear``.
    leakage : LeakageTable or None
        A released table; None means what the policy declares.
    """
    if leakage is not None:
        policy = leakage.policy_for(policy)  # as training reads it
    kind = ESTIMATORS[model]
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    plan = kind(policy, leakage=leakage, **options).plan(n_rows)
    ordinary = kind(policy, method="standard", **options).plan(n_rows)
    paid = () if leakage is None else leakage.components
    certificate = certify(
        policy,
        [*paid, *plan.components(plan.spending.means_cost)],
        budget=Budget(epsilon=epsilon, delta=delta),
        leakage=LeakageClaim.declared(policy)
        if leakage is None
        else leakage.claim(policy=policy),
    )
    here, there = gradient_noise(plan), gradient_noise(ordinary)
    low, high = (edge / plan.prediction.gain for edge in plan.prediction.band)
    return {
        "noise": [
            {
                "feature": name,
                "here": here[name],
                "there": there[name],
                "ratio": here[name] / there[name] if there[name] else None,
            }
            for name in here
        ],
        "lost": percent(plan.noise_to_signal),
        "band": (percent(min(low, 1.0)), percent(min(high, 1.0))),
        "ordinary_lost": percent(ordinary.noise_to_signal),
        "whole_record": certificate.classes["whole_record"].epsilon,
        "verdict": plan_verdict(plan, ordinary, epsilon=epsilon, delta=delta),
    }
