"""A rehearsal on invented rows: the real code, nothing of the table.

Rows are drawn evenly from the declared domains, and a made-up linear rule with noise
decides the label, so that a preview is a function of the policy, the number of rows and
the budget alone.
"""

import warnings
from typing import Any

import numpy as np
import pyarrow as pa

from corrdp._typing import FloatArray, JSONObject
from corrdp.leakage import LeakageTable
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Domain,
    NumberDomain,
    Policy,
    PolicyEncoder,
)
from corrdp.studio._plans import ESTIMATORS

MOST_ROWS = 20_000
N_TEST = 5_000
N_FITS = 3
SIGNAL = 2.0
"""Standard deviation of the made-up score, in units of its noise."""

TRAINED = {"corr": "CorrDP", "standard": "ordinary differential privacy"}


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


def previewed(
    policy: Policy,
    n_rows: int,
    *,
    epsilon: float,
    delta: float,
    model: str,
    leakage: LeakageTable | None,
) -> JSONObject:
    """Return scores on invented rows: with CorrDP, ordinary DP, and without noise.

    Parameters
    ----------
    policy : Policy
        Confirmed.
    n_rows : int
        Public number of rows; at most 20,000 are invented.
    epsilon, delta, model, leakage
        As for `planned`.
    """
    n_train = min(n_rows, MOST_ROWS)
    generator = np.random.default_rng(0)
    rows = invented_rows(policy, n_train + N_TEST, generator)
    train, test = rows.slice(0, n_train), rows.slice(n_train)
    kind = ESTIMATORS[model]
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta}
    shown = []
    for method, name in TRAINED.items():
        own: dict[str, Any] = {"leakage": leakage} if method == "corr" else {}
        scores = [
            _score(kind(policy, method=method, **options, **own), policy, train, test)
            for _ in range(N_FITS)
        ]
        error = float(np.std(scores, ddof=1) / np.sqrt(N_FITS))
        shown.append({"name": name, "score": float(np.mean(scores)), "error": error})
    plain = _score(
        kind(policy, method="nonprivate", research=True), policy, train, test
    )
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
