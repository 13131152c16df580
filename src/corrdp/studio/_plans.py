"""What the studio says before anything is paid: words for a budget, and the plan."""

from typing import Any

from corrdp._typing import JSONObject
from corrdp.accounting import GaussianEvent, attack_risk, gaussian_mu
from corrdp.certificate import LeakageClaim, certify, percent, risk_words
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import LeakageTable
from corrdp.policy import Budget, Policy
from corrdp.report import gradient_noise

ESTIMATORS = {"logistic": LogisticRegression, "linear": LinearRegression}
WORTH = 0.5  # of what a model can gain; more lost than this is not worth a release
ROWS_PER_COEFFICIENT = 5  # with fewer, fits are bad for want of rows, protected or not


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
        "verdict": _verdict(plan, ordinary, epsilon=epsilon, delta=delta),
    }


def _verdict(plan: Any, ordinary: Any, *, epsilon: float, delta: float) -> str:
    n_coefficients = plan.layout.n_columns
    if plan.n_rows < ROWS_PER_COEFFICIENT * n_coefficients:
        return (
            f"{plan.n_rows:,} rows are too few for {n_coefficients:,} coefficients, "
            "with any protection or none, and what is expected below is too good. "
            f"It takes some {ROWS_PER_COEFFICIENT * n_coefficients:,} rows, or fewer "
            "columns and categories."
        )
    if plan.noise_to_signal > WORTH:
        return (
            f"{plan.n_rows:,} rows are too few for epsilon {epsilon:g}: most of what a "
            f"model can gain would be lost. It takes about {plan.rows_needed():,} "
            f"rows, or epsilon {plan.epsilon_needed(delta):.3g}."
        )
    if plan.noise == "standard":
        return (
            "Use ordinary differential privacy here: protecting every column fully is "
            "expected to cost no more. The plan does so already."
        )
    better = ordinary.predicted_error / plan.predicted_error
    return (
        f"CorrDP is worth it here: ordinary differential privacy is expected to lose "
        f"{better:.2g} times as much to noise."
    )
