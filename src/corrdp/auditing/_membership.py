"""Membership inference: was this person's record used, or another in its place.

An attacker in the manner of LiRA (Carlini and others 2022): he trains a few models like
the one that he attacks and learns from them how a model treats a record that was used,
and one that was not. Rows are read and nothing is charged: for research.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count, check_flag
from corrdp.accounting import WHOLE_RECORD
from corrdp.auditing._challenges_from import planned_estimator
from corrdp.auditing.statistics import roc_points
from corrdp.certificate import class_risk
from corrdp.estimators import PrivateEstimator
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import ColumnRole, Policy
from corrdp.tables import read_columns, take_rows, with_twins

_FEWEST_MODELS = 4
_SURE = 1e-6  # probabilities are kept this far from 0 and 1
_STANDARD_ERRORS = 3.0
_LEAST_VARIANCE = 1e-12  # of models that do not depend on their rows


@dataclass(frozen=True)
class MembershipInference:
    """How often an attacker told whether a record was used for training.

    Parameters
    ----------
    accuracy : float
        Share of right guesses; a guess without the model is right half of the time.
    standard_error : float
        Of the accuracy, from how it varies between the models attacked.
    certified_accuracy : float
        What the certificate allows any attacker at most; 1 if it promises nothing.
    n_models, n_targets : int
        Models, each attacked with the others as shadows; people guessed in each.
    roc : tuple of (float, float)
        Rates of false and of true alarms, over all guesses.
    """

    accuracy: float
    standard_error: float
    certified_accuracy: float
    n_models: int
    n_targets: int
    roc: tuple[tuple[float, float], ...] = ()

    @property
    def exceeds_certificate(self) -> bool:
        """Whether more is guessed than is allowed, by three standard errors."""
        surely = self.accuracy - _STANDARD_ERRORS * self.standard_error
        return surely > self.certified_accuracy

    def to_text(self) -> str:
        """Return the result in words."""
        right, allowed = 100.0 * self.accuracy, 100.0 * self.certified_accuracy
        error = 100.0 * self.standard_error
        verdict = (
            "This is more than the certificate allows: do not release, and report a "
            "defect."
            if self.exceeds_certificate
            else "This attacker found nothing beyond what is certified; another may "
            "find more, up to that bound."
        )
        if self.certified_accuracy >= 1.0:
            verdict = "Nothing is promised for a whole record, so nothing is exceeded."
        return (
            f"An attacker who knows every other record, and {self.n_models - 1} models "
            f"that were trained alike, guessed for each of {self.n_targets} people "
            "whether their record was used or another in its place. He was right in "
            f"{right:.1f} of 100 guesses (+- {error:.1f}); a coin is right in 50, and "
            f"the certificate allows at most {allowed:.1f}. {verdict} RESEARCH: "
            "computed from rows without noise, and not private itself."
        )

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "schema": "corrdp.membership/1",
            "research": True,
            "accuracy": self.accuracy,
            "standard_error": self.standard_error,
            "certified_accuracy": self.certified_accuracy,
            "exceeds_certificate": self.exceeds_certificate,
            "n_models": self.n_models,
            "n_targets": self.n_targets,
            "roc": [list(point) for point in self.roc],
            "words": self.to_text(),
        }


def infer_membership(
    estimator: PrivateEstimator,
    table: Any,
    *,
    n_models: int = 16,
    research: bool = False,
    random_state: int | None = None,
) -> MembershipInference:
    """Train models on rows and their twins, and guess which of the two each one saw.

    Parameters
    ----------
    estimator : estimator of the library
        Fitted or not; copies of it are fitted, without its ledger.
    table : pandas, polars or pyarrow table
        Rows, label included.
    n_models : int
        Models to train; each is attacked once, with the others as shadow models.
    research : bool
        Must be True: what is returned is computed from the rows without noise.
    random_state : int, optional
        Makes the attack replayable.

    Returns
    -------
    result : MembershipInference

    Guarantee
    ---------
    None for the rows: nothing is charged, and the result depends on them. It compares
    with a guarantee: a twin differs in what class ``whole_record`` may change, so no
    attacker is right more often than ``certified_accuracy`` on average
    (`docs/theory/audit.md`, Proposition 1).
    """
    if not check_flag("research", research):
        raise GuaranteeVoidError(
            "research=False: a membership attack trains on rows and shows what it "
            "computes from them without noise. Pass research=True on data that may be "
            "disclosed, such as public or made-up rows."
        )
    planned: Any = planned_estimator(estimator)
    policy = planned.policy
    if not isinstance(policy, Policy) or policy.label is None:
        raise CorrDPError(
            "a membership attack needs a Policy with a label: it says what of a record "
            "may change. Set the estimator's policy."
        )
    check_count("n_models", n_models, lower=_FEWEST_MODELS)
    rng = np.random.default_rng(random_state)
    label = policy.label.name
    changed = [f.name for f in policy.features if f.role is not ColumnRole.PUBLIC]
    changed += [label] if policy.label_is_protected else []
    n_rows = len(read_columns(table, [label])[0])
    partner = (np.arange(n_rows) + rng.integers(1, n_rows, n_rows)) % n_rows
    both = with_twins(table, changed=changed, partner=partner)
    used = rng.random((n_models, n_rows)) < 0.5
    scores, allowed = [], 1.0
    for coins in used:
        copy: Any = clone(planned).set_params(
            ledger=None, research=True, random_state=int(rng.integers(2**31))
        )
        places = np.where(coins, 0, n_rows) + np.arange(n_rows)
        copy.fit(take_rows(both, places))
        own = np.split(_confidence(copy, both, label), 2)
        scores.append(own[0] - own[1])  # of the record against its twin
        if copy.certificate_ is not None:
            allowed = class_risk(copy.certificate_, WHOLE_RECORD).even_odds
    ratio = likelihood_ratios(np.stack(scores), used)
    right = ((ratio > 0.0) == used).mean(axis=1)
    return MembershipInference(
        accuracy=float(right.mean()),
        standard_error=float(right.std(ddof=1) / np.sqrt(n_models)),
        certified_accuracy=allowed,
        n_models=n_models,
        n_targets=n_rows,
        roc=roc_points(ratio[~used], ratio[used]),
    )


def likelihood_ratios(scores: FloatArray, used: NDArray[np.bool_]) -> FloatArray:
    """Return how likely each record was used, each model attacked with all others.

    From how well every model fits every record, and whether the record was used, which
    is known of the shadow models and guessed of the other; all of shape (n_models,
    n_rows). Logarithms of a ratio of normal densities, positive for *used*; 0 where
    the shadow models have the record only on one side.
    """
    n_models = len(scores)
    ratio = np.zeros_like(scores)
    for model in range(n_models):
        others = np.arange(n_models) != model
        sides = []
        for side in (used[others], ~used[others]):
            count = side.sum(axis=0)
            mean = (scores[others] * side).sum(axis=0) / np.maximum(count, 1)
            spread = ((scores[others] - mean) ** 2 * side).sum()
            # with few shadows a variance per record is chance: one for all of them
            variance = spread / max(1, int((count - 1).clip(0).sum()))
            variance = max(variance, _LEAST_VARIANCE)
            square = (scores[model] - mean) ** 2
            sides.append((count > 0, -square / (2 * variance) - np.log(variance) / 2))
        (seen_in, log_in), (seen_out, log_out) = sides
        ratio[model] = np.where(seen_in & seen_out, log_in - log_out, 0.0)
    return ratio


def _confidence(model: Any, table: Any, label: str) -> FloatArray:
    """Return how well a model fits every row: log odds of its class, or the loss."""
    truth = read_columns(table, [label])[0]
    if not hasattr(model, "predict_proba"):
        miss = np.asarray(truth, dtype=np.float64) - model.predict(table)
        return np.asarray(-(miss**2))
    classes = [str(name) for name in model.classes_]
    place = np.array([classes.index(str(value)) for value in truth])
    chance = model.predict_proba(table)[np.arange(len(place)), place]
    chance = np.clip(chance, _SURE, 1.0 - _SURE)
    return np.asarray(np.log(chance / (1.0 - chance)))
