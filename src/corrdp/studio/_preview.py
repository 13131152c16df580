"""What the studio says before anything is paid: a budget in words, a plan, a rehearsal.

The rehearsal runs the real code on invented rows. They are drawn evenly from the
declared domains, and a made-up linear rule with noise decides the label, so that a
preview is a function of the policy, the number of rows and the budget alone.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from corrdp._typing import FloatArray, JSONObject
from corrdp.accounting import GaussianEvent, attack_risk, gaussian_mu
from corrdp.certificate import percent, risk_words
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.leakage import LeakageTable
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Domain,
    NumberDomain,
    Policy,
    PolicyEncoder,
)
from corrdp.report import gradient_noise, plan_certificate, plan_verdict

ESTIMATORS = {"logistic": LogisticRegression, "linear": LinearRegression}
MOST_ROWS = 20_000
N_TEST = 5_000
N_FITS = 3
SIGNAL = 2.0
"""Standard deviation of the made-up score, in units of its noise."""
TRAINED = {"corr": "CorrDP", "standard": "ordinary differential privacy"}


def budget_words(epsilon: float, delta: float) -> str:
    """Return what a budget means for an attack on sensitive features."""
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    return risk_words(attack_risk([GaussianEvent(mu)])) + "."


class Asked(NamedTuple):
    """What the person wants to train: on a confirmed policy and a public size.

    Without a released leakage the policy's own is taken.
    """

    policy: Policy
    n_rows: int
    budget: Budget
    model: str
    leakage: LeakageTable | None

    def estimator(self, policy: Policy, **options: Any) -> Any:
        """Return the model with the budget."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return ESTIMATORS[self.model](policy, epsilon=epsilon, delta=delta, **options)


def planned(asked: Asked) -> JSONObject:
    """Return noise, expected quality, prices and a verdict, from public numbers."""
    policy, n_rows, budget, _, leakage = asked
    if leakage is not None:
        policy = leakage.policy_for(policy)  # as training reads it
    estimator = asked.estimator(policy, leakage=leakage)
    plan, counted = estimator.plan_with_counts(n_rows)
    ordinary = estimator.ordinary_plan(policy, n_rows)
    counts = () if counted is None else (counted.component,)
    certificate = plan_certificate(
        policy, plan, budget=budget, leakage=leakage, counts=counts
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
        "verdict": plan_verdict(
            plan, ordinary, epsilon=budget.epsilon, delta=budget.delta
        ),
    }


def invented_rows(policy: Policy, n_rows: int, generator: np.random.Generator) -> Any:
    """Return a table of invented features and labels, as the policy declares them."""
    label = policy.label
    assert label is not None  # every drafted policy has one
    columns = {
        feature.name: _even_values(feature.domain, n_rows, generator)
        for feature in policy.features
    }
    features = pa.table(columns)
    codes = PolicyEncoder(policy).transform(features)
    weights = generator.standard_normal(codes.shape[1])
    score = codes @ weights
    spread = float(score.std()) or 1.0
    score = SIGNAL * (score - score.mean()) / spread
    score = score + generator.logistic(size=n_rows)
    labels = _labels(label.domain, score)
    return features.append_column(label.name, pa.array(labels))


def previewed(asked: Asked) -> JSONObject:
    """Return scores on invented rows: with CorrDP, ordinary DP, and without noise.

    At most 20,000 rows are invented.
    """
    policy, model = asked.policy, asked.model
    n_train = min(asked.n_rows, MOST_ROWS)
    generator = np.random.default_rng(0)
    rows = invented_rows(policy, n_train + N_TEST, generator)
    train, test = rows.slice(0, n_train), rows.slice(n_train)
    shown = []
    for method, name in TRAINED.items():
        known = asked.leakage if method == "corr" else None
        scores = [
            _score(
                asked.estimator(policy, method=method, leakage=known),
                policy,
                train,
                test,
            )
            for _ in range(N_FITS)
        ]
        error = float(np.std(scores, ddof=1) / np.sqrt(N_FITS))
        shown.append({"name": name, "score": float(np.mean(scores)), "error": error})
    bare = ESTIMATORS[model](policy, method="nonprivate", research=True)
    plain = _score(bare, policy, train, test)
    shown.append({"name": "no protection", "score": plain, "error": None})
    return {
        "n_rows": n_train,
        "n_fits": N_FITS,
        "measure": "R squared" if model == "linear" else "share of right labels",
        "rows": shown,
    }


def _score(estimator: Any, policy: Policy, train: Any, test: Any) -> float:
    assert policy.label is not None
    name = policy.label.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the scores say what warnings would
        fitted = estimator.fit(train.drop_columns([name]), train[name])
        return float(fitted.score(test.drop_columns([name]), test[name].to_pylist()))


def _even_values(domain: Domain, n_rows: int, generator: np.random.Generator) -> Any:
    if isinstance(domain, NumberDomain):
        return generator.uniform(domain.lower, domain.upper, n_rows)
    if isinstance(domain, BooleanDomain):
        return generator.random(n_rows) < 0.5
    categories = domain.categories
    return np.array(categories, dtype=object)[
        generator.integers(0, len(categories), n_rows)
    ]


def _labels(domain: Domain, score: FloatArray) -> Any:
    """Cut a score into equal parts by rank, or stretch it over the bounds."""
    rank = np.argsort(np.argsort(score)) / len(score)
    if isinstance(domain, NumberDomain):
        middle = 0.5 * (domain.lower + domain.upper)
        width = np.clip(score / (3.0 * (SIGNAL + 1.0)), -1.0, 1.0)
        return middle + 0.5 * (domain.upper - domain.lower) * width
    if isinstance(domain, BooleanDomain):
        return rank >= 0.5
    assert isinstance(domain, CategoryDomain)
    values = np.array(domain.categories, dtype=object)
    return values[(rank * len(values)).astype(np.int64)]
