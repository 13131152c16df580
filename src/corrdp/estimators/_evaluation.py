"""Evaluation of a fitted model on private rows: paid for, with noise and radii."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp.estimators._labels import (
    NO_LABELS,
    check_one_label_per_row,
    label_column,
)
from corrdp.exceptions import CorrDPError, GuaranteeVoidError, PolicyError
from corrdp.leakage import BLOCK, LeakageTable
from corrdp.ledger import Ledger, require_recorded
from corrdp.policy import (
    Budget,
    CategoryDomain,
    NeighborRelation,
    NumberDomain,
    Policy,
    PolicyEncoder,
    without_knots,
)
from corrdp.queries import (
    DerivedColumns,
    QueryPlan,
    QueryResult,
    Questions,
    answer_plan,
    group_names,
    metric_query,
    plan_queries,
)

PROBABILITY_BINS = 10
SMALLEST_PROBABILITY = 0.01
LARGEST_LOSS = -math.log(SMALLEST_PROBABILITY)
MODEL_ASSUMPTION = (
    "the model was released before; what its training cost, if these rows took part, "
    "is in its own certificate: add it, or keep a ledger"
)
OF_TWO_CLASSES = ("auc", "roc", "calibration")
OF_CLASSIFIERS = ("accuracy", "log_loss", "confusion", *OF_TWO_CLASSES)
OF_REGRESSORS = ("r_squared", "mean_squared_error")


def plan_evaluation(
    model: Any,
    *,
    metrics: Sequence[str] | None,
    by: str | tuple[str, ...] | None,
    n_rows: int,
    budget: Budget,
    leakage: Any = None,
    labels: Any = None,
) -> QueryPlan:
    """Plan the noise of metrics of a fitted model, reading no private row.

    Parameters
    ----------
    model : estimator
        Fitted, with a certificate.
    metrics, by, leakage
        As in `PrivateEstimator.evaluate`.
    n_rows : int
        Public number of rows.
    budget : Budget
        For all metrics together.
    labels : optional
        Labels, if the table does not hold them.

    Guarantee
    ---------
    That of `plan_queries`: predictions are functions of a row and of a model that is
    released already, so they change only with the columns that the model reads
    (``docs/theory/queries.md``).
    """
    if getattr(model, "certificate_", None) is None:
        raise GuaranteeVoidError(
            "the model protects nothing, so nothing that it says of private rows can "
            "be protected. Train it with method='corr', or use score on public rows."
        )
    if labels is not None:
        check_one_label_per_row(range(n_rows), labels)
    policy = model.policy if isinstance(model.policy, Policy) else model.policy_
    if isinstance(leakage, LeakageTable) and not leakage.is_for(policy):
        policy = without_knots(policy)  # of which answers know nothing either
    label = policy.label
    assert label is not None  # a fitted model has one
    classifies = hasattr(model, "classes_")
    chosen = _checked_metrics(metrics, policy, classifies)
    derived = _derived(model, policy, labels)
    plan = plan_queries(
        policy,
        Questions(
            tuple(metric_query(name, label.name, n_rows, by) for name in chosen),
            chosen,
        ),
        budget=budget,
        n_rows=n_rows,
        leakage=leakage if leakage is not None else _leakage_of(model),
        derived=derived,
    )
    return replace(plan, assumptions=(*plan.assumptions, MODEL_ASSUMPTION))


def evaluate(
    model: Any,
    X: Any,
    labels: Any,
    *,
    metrics: Sequence[str] | None,
    by: str | tuple[str, ...] | None,
    budget: Budget,
    ledger: Ledger | str | Path | None,
    leakage: Any,
    **options: Any,
) -> QueryResult:
    """Measure a fitted model on rows; parameters as for `PrivateEstimator.evaluate`.

    Guarantee
    ---------
    Charged before anything is computed from rows, and after every cell has been read
    (``docs/theory/queries.md``).
    """
    PolicyEncoder(model.policy_).fit(X)  # refuses what is no table of these columns
    plan = plan_evaluation(
        model,
        metrics=metrics,
        by=by,
        n_rows=len(X),
        budget=budget,
        leakage=leakage,
        labels=labels,
    )
    assert plan.derived is not None  # planned with predictions
    rows = plan.derived.extend(X)  # reads every cell, so that a refusal costs nothing
    # A result keeps its plan, and a plan no labels.
    plan = replace(plan, derived=_derived(model, plan.policy, None))
    account = ledger if ledger is not None else model.ledger
    if account is not None and not isinstance(account, Ledger):
        account = Ledger.open(account)
    if account is not None:
        given = known_leakage(model) if leakage is None else leakage
        require_paid_leakage(account, plan, given)
        account.introduce(plan.policy, leakage=plan.leakage.distances(plan.policy))
    return answer_plan(rows, plan, ledger=account, **options)


def row_scores(
    model: Any, table: Any, labels: Any, column: str
) -> tuple[NDArray[Any], float]:
    """Return a derived column of a fitted model, exact, and its largest value.

    Guarantee
    ---------
    None: a value per row, computed from that row and the model alone. Whoever asks adds
    noise (``docs/theory/selection.md``, section 6).
    """
    policy = model.policy_
    derived = _derived(model, policy, labels)
    domain = derived.domains[column]
    assert isinstance(domain, NumberDomain)
    return np.asarray(derived.compute(table)[column], dtype=np.float64), domain.upper


def require_paid_leakage(ledger: Ledger | None, plan: QueryPlan, leakage: Any) -> None:
    """Raise if a ledger would not know what the leakage of a plan has cost.

    Guarantee
    ---------
    A private leakage lowers prices only where the account has paid for it
    (`docs/theory/ledger.md`).
    """
    if isinstance(leakage, LeakageTable):
        require_recorded(ledger, leakage)
    elif plan.leakage.source == "private":
        raise GuaranteeVoidError(
            "the leakage of the model was released from private rows, and the ledger "
            "cannot see by which release. Pass the leakage table itself (--leakage)."
        )


def known_leakage(model: Any) -> Any:
    """Return what the model was given, or what it bought in its fit."""
    return vars(model).get("leakage_", model.leakage)


def _leakage_of(model: Any) -> Any:
    """Return the leakage that the model was trained with."""
    given = known_leakage(model)
    if given is not None:
        return given
    declared = model.policy if isinstance(model.policy, Policy) else model.policy_
    claim = model.certificate_.leakage
    wanted = set(declared.insensitive)
    if wanted and declared.relation is NeighborRelation.ALL_INSENSITIVE:
        wanted = {BLOCK}
    return claim if wanted and wanted <= set(claim.values) else None


def _checked_metrics(
    metrics: Sequence[str] | None, policy: Policy, classifies: bool
) -> tuple[str, ...]:
    allowed = OF_CLASSIFIERS if classifies else OF_REGRESSORS
    chosen = tuple(metrics) if metrics else allowed[:1]
    for name in chosen:
        if name not in allowed:
            raise CorrDPError(
                f"metrics of this model are {', '.join(allowed)}, got {name!r}. Choose "
                "among them."
            )
    assert policy.label is not None
    if set(chosen) & set(OF_TWO_CLASSES):
        n_labels = len(group_names(policy, policy.label.name))
        if n_labels != 2:
            raise CorrDPError(
                f"{', '.join(OF_TWO_CLASSES)} need two labels, the policy declares "
                f"{n_labels}. Ask for the confusion matrix."
            )
    return chosen


def _labels_beside(policy: Policy, labels: Any) -> dict[str, NDArray[Any]]:
    if labels is None:
        return {}
    assert policy.label is not None
    return {policy.label.name: np.asarray(labels, dtype=object)}


def _encoded_labels(policy: Policy, table: Any, labels: Any) -> NDArray[Any]:
    column = label_column(table, policy, NO_LABELS) if labels is None else labels
    return np.asarray(PolicyEncoder(policy).encode_label(column))


def _derived(model: Any, policy: Policy, labels: Any) -> DerivedColumns:
    classifies = hasattr(model, "classes_")
    return (_of_classifier if classifies else _of_regressor)(model, policy, labels)


def _of_classifier(model: Any, policy: Policy, labels: Any) -> DerivedColumns:
    assert policy.label is not None
    names = group_names(policy, policy.label.name)
    reads = frozenset(f.name for f in policy.features)  # a model may read any
    both = reads | {policy.label.name}
    return DerivedColumns(
        {
            "(correct)": NumberDomain(0.0, 1.0),
            "(loss)": NumberDomain(0.0, LARGEST_LOSS),
            "(prediction)": CategoryDomain(tuple(names)),
            "(probability)": NumberDomain(0.0, 1.0, bins=PROBABILITY_BINS),
        },
        {
            "(correct)": both,
            "(loss)": both,
            "(prediction)": reads,
            "(probability)": reads,
        },
        partial(_classified, model, policy, labels),
    )


def _classified(
    model: Any, policy: Policy, labels: Any, table: Any
) -> dict[str, NDArray[Any]]:
    assert policy.label is not None
    names = np.array(group_names(policy, policy.label.name), dtype=object)
    truth = _encoded_labels(policy, table, labels).astype(np.int64)
    codes = model.predicted_codes(table)
    chances = model.predict_proba(table)
    own = chances[np.arange(truth.size), truth]
    return {
        "(correct)": (codes == truth).astype(np.float64),
        "(loss)": -np.log(np.maximum(own, SMALLEST_PROBABILITY)),
        "(prediction)": names[codes],
        "(probability)": chances[:, min(1, chances.shape[1] - 1)],
        **_labels_beside(policy, labels),
    }


def _of_regressor(model: Any, policy: Policy, labels: Any) -> DerivedColumns:
    assert policy.label is not None
    domain = policy.label.domain
    if not isinstance(domain, NumberDomain):
        raise PolicyError(
            "the label of a regressor must be a number. Declare its bounds."
        )
    both = {feature.name for feature in policy.features} | {policy.label.name}
    return DerivedColumns(
        {"(squared error)": NumberDomain(0.0, 1.0)},
        {"(squared error)": frozenset(both)},
        partial(_regressed, model, policy, domain, labels),
    )


def _regressed(
    model: Any, policy: Policy, domain: NumberDomain, labels: Any, table: Any
) -> dict[str, NDArray[Any]]:
    truth = _encoded_labels(policy, table, labels)
    middle = domain.lower / 2 + domain.upper / 2
    width = domain.upper - domain.lower
    guess = np.clip((model.predict(table) - middle) / width, -0.5, 0.5)
    return {
        "(squared error)": (guess - truth) ** 2,
        **_labels_beside(policy, labels),
    }
