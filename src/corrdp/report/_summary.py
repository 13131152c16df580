"""The summary: everything a report says, as plain JSON, before any rendering.

It holds declared facts, released numbers and their prices. Rows never reach it: the
only way in for a number computed from rows is `Measured`, which says who paid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from corrdp._json import check_shape, decoding
from corrdp._typing import JSONObject
from corrdp._validate import check_choice
from corrdp.certificate import Certificate, LeakageClaim
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import LeakageTable
from corrdp.ledger import Ledger
from corrdp.policy import CategoryDomain, NumberDomain, Policy, PolicyEncoder
from corrdp.report._promise import (
    coefficient_deviation,
    gradient_noise,
    promise_section,
)
from corrdp.training import Hindsight, Prediction, TrainingPlan

SCHEMA = "corrdp.report/1"
NOT_PRIVATE = "research: not private"
BASES = {
    "paid": "paid for from the budget",
    "public": "measured on a table declared public",
    "research": NOT_PRIVATE,
}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A number that was computed from rows, and why it may be shown.

    The basis is ``paid``, ``public``, or ``research``, which stamps the whole report.
    """

    name: str  # for example accuracy
    value: float
    basis: str

    def __post_init__(self) -> None:
        remedy = "A number computed from rows is paid for, public, or stamped."
        check_choice(
            "basis", self.basis, BASES, remedy=remedy, error=GuaranteeVoidError
        )

    def to_json(self) -> JSONObject:
        """Return the number with its basis in words."""
        words = BASES[self.basis]
        return {
            "name": self.name,
            "value": self.value,
            "basis": self.basis,
            "words": words,
        }


def summarize(
    policy: Policy,
    certificate: Certificate | None,
    *,
    title: str,
    n_rows: int,
    plan: TrainingPlan | None = None,
    ordinary: TrainingPlan | None = None,
    coefficients: Mapping[str, Any] | None = None,
    leakage: LeakageTable | None = None,
    measured: Sequence[Measured] = (),
    curve: Sequence[Measured] = (),
    shapes: Sequence[JSONObject] = (),
    in_place_of: str | None = None,
    hindsight: Hindsight | None = None,
) -> JSONObject:
    """Return the summary of one trained model.

    Parameters
    ----------
    policy : Policy
        The policy that was kept.
    certificate : Certificate or None
        None for a model that protects nothing; the report then says so first.
    title : str
        Heading.
    n_rows : int
        Public number of rows.
    plan, ordinary : TrainingPlan, optional
        What was planned, and ordinary DP at the same epsilon, to compare noise.
    coefficients : mapping of str to float or list of float, optional
        Released weights by encoded column; a list has one per label.
    leakage : LeakageTable, optional
        Estimates with bounds and reasons; default: what the policy declares.
    measured : sequence of Measured
        Quality, each with its basis.
    curve : sequence of Measured
        The same measure after growing numbers of steps; ``name`` is the step.
    shapes : sequence of JSON object
        Curves of an additive model, from ``Shape.to_json``: released weights and
        planned noise.
    in_place_of : str, optional
        Model that was asked for, if the plan is that of a linear one instead.
    hindsight : Hindsight, optional
        What training itself says of the quality to expect.

    Guarantee
    ---------
    Reads no rows, so it releases nothing (post-processing; Theorem "composition" of
    `docs/theory/composition.md` covers what went in). Numbers computed from rows enter
    as `Measured` only, and an unpaid one stamps the report.
    """
    research = (
        certificate is None
        or (leakage is not None and leakage.research)
        or any(entry.basis == "research" for entry in (*measured, *curve))
    )
    stamps = [NOT_PRIVATE] if research else []
    if certificate is not None and certificate.replayable_noise:
        stamps.append("replayable noise: a fixed seed was used")
    return {
        "schema": SCHEMA,
        "title": title,
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "stamps": stamps,
        "n_rows": n_rows,
        "promise": None if certificate is None else promise_section(certificate),
        "roles": _roles(policy),
        "leakage": _leakage(policy, certificate, leakage),
        "noise": _noise(policy, plan, ordinary),
        "expected": (None if plan is None else _expected(plan, hindsight, in_place_of)),
        "quality": [entry.to_json() for entry in measured],
        "curve": [entry.to_json() for entry in curve],
        "sweep": None,
        "coefficients": _coefficients(policy, coefficients, plan),
        "shapes": _shapes(policy, shapes),
        "ledger": None,
        "audit": None,
        "certificate_digest": (
            None if certificate is None else str(certificate.to_dict()["digest"])
        ),
        "software": _software(certificate),
        "policy_fingerprint": policy.fingerprint(),
    }


def with_ledger(summary: JSONObject, ledger: Ledger) -> JSONObject:
    """Return the summary with the state of a ledger."""
    document = ledger.to_json()
    return summary | {
        "ledger": {
            "accounts": [
                {
                    "class": account["class"],
                    "epsilon": account["epsilon"],
                    "spent": account["epsilon_spent"],
                    "share_left": account["share_left"],
                    "promised": account["promised"],
                }
                for account in document["remaining"]["classes"]
            ],
            "charges": [
                {key: entry[key] for key in ("number", "when", "purpose")}
                for entry in document["entries"]
                if entry["kind"] == "charge"
            ],
        }
    }


@decoding("sweep")
def with_sweep(summary: JSONObject, sweep: Any) -> JSONObject:
    """Return the summary with a privacy-utility curve, stamped as research.

    Parameters
    ----------
    summary : JSON object
        From `summarize`.
    sweep : JSON object
        ``metric`` and ``points``: method, epsilon, mean, low, high.
    """
    if not isinstance(sweep, Mapping) or not {"metric", "points"} <= set(sweep):
        raise CorrDPError(
            "the sweep must have 'metric' and 'points'. Pass what corrdp sweep wrote."
        )
    keys = ("method", "epsilon", "mean", "low", "high")
    shape = {"metric": str, "points": [{"method": str, "epsilon": float}]}
    check_shape(sweep, shape, "sweep")
    points = [{key: point[key] for key in keys} for point in sweep["points"]]
    stamps = list(dict.fromkeys([*summary["stamps"], f"sweep: {NOT_PRIVATE}"]))
    return summary | {
        "stamps": stamps,
        "sweep": {"metric": sweep["metric"], "points": points, "basis": NOT_PRIVATE},
    }


def _expected(
    plan: TrainingPlan, hindsight: Hindsight | None, in_place_of: str | None
) -> JSONObject:
    """Return the quality that is expected: planned, and as training tells it."""
    told: JSONObject = {}
    if hindsight is not None:
        told["hindsight"] = _lost(hindsight)
        if hindsight.kept < 1:  # a model that keeps all of it says nothing of that
            told["hindsight"]["kept"] = hindsight.kept
    if in_place_of is not None:
        told["in_place_of"] = in_place_of
    needed = {"rows_needed": plan.rows_needed()}
    return {"noise": plan.noise} | _lost(plan.prediction) | needed | told


def _lost(prediction: Prediction | Hindsight) -> JSONObject:
    """Return the part of what there is to gain that noise takes, with its range."""
    low, high = prediction.band
    return {
        "lost": prediction.noise_to_signal,
        "lost_band": [low / prediction.gain, high / prediction.gain],
    }


def _roles(policy: Policy) -> list[JSONObject]:
    rows = [
        {"feature": f.name, "role": f.role.value, "domain": _domain_words(f.domain)}
        for f in policy.features
    ]
    if policy.label is not None:
        role = "label, not protected"
        if policy.label_is_protected:
            role = f"label, protected (score {policy.label.score:g})"
        domain = _domain_words(policy.label.domain)
        rows.append({"feature": policy.label.name, "role": role, "domain": domain})
    return rows


def _domain_words(domain: Any) -> str:
    if isinstance(domain, NumberDomain):
        return f"number from {domain.lower:g} to {domain.upper:g}"
    if isinstance(domain, CategoryDomain):
        return f"{len(domain.levels) + domain.other} categories"
    return "yes or no"


def _leakage(
    policy: Policy, certificate: Certificate | None, table: LeakageTable | None
) -> JSONObject:
    stated: LeakageTable | LeakageClaim
    if table is not None and policy.insensitive:
        stated = table
        rows = [
            (name, found.estimate, found.upper, f"{found.method}: {found.reason}")
            for name, found in table.features.items()
        ]
    else:
        stated = claim = (
            LeakageClaim("declared", {}) if certificate is None else certificate.leakage
        )
        reason = f"{claim.source}, as the certificate states it"
        rows = [(name, value, value, reason) for name, value in claim.values.items()]
    keys = ("feature", "estimate", "upper", "reason")
    return {
        "source": stated.source,
        "metric": stated.metric,
        "failure_probability": stated.failure_probability,
        "features": [dict(zip(keys, row, strict=True)) for row in rows],
    }


def _noise(
    policy: Policy, plan: TrainingPlan | None, ordinary: TrainingPlan | None
) -> list[JSONObject]:
    if plan is None or ordinary is None:
        return []
    here, there = gradient_noise(plan), gradient_noise(ordinary)
    roles = {f.name: f.role.value for f in policy.features}
    return [
        {
            "feature": name,
            "role": roles.get(name, "intercept"),
            "noise": here[name],
            "ordinary": there[name],
            "ratio": here[name] / there[name] if there[name] > 0 else None,
        }
        for name in here
    ]


def _coefficients(
    policy: Policy, weights: Mapping[str, Any] | None, plan: TrainingPlan | None
) -> list[JSONObject]:
    if weights is None:
        return []
    encoder = PolicyEncoder(policy)
    features = [b.feature for b in encoder.blocks_ for _ in range(b.start, b.stop)]
    deviations: list[float | None] = [None] * len(features)
    if plan is not None:
        deviations = list(coefficient_deviation(plan).tolist())
    return [
        {"column": name, "feature": feature, "weight": weight, "deviation": deviation}
        for text, feature, own, deviation in zip(
            encoder.describe_columns(),
            features,
            weights.values(),
            deviations,
            strict=True,
        )
        for name, weight in _by_output(policy, text, own)
    ]


def _by_output(policy: Policy, column: str, weights: Any) -> list[tuple[str, float]]:
    """Return the weight of a column, or one per label under a name of its own."""
    if not isinstance(weights, list):
        return [(column, weights)]
    names = _label_names(policy, len(weights))
    return [(f"{column}, label {n}", w) for n, w in zip(names, weights, strict=True)]


def _label_names(policy: Policy, n_outputs: int) -> list[str]:
    domain = policy.label.domain if policy.label is not None else None
    levels = list(domain.levels) if isinstance(domain, CategoryDomain) else []
    return levels + ["(other)"] * (n_outputs - len(levels))


def _shapes(policy: Policy, shapes: Sequence[JSONObject]) -> list[JSONObject]:
    """Return one row per place of every curve that bends, and per label if several."""
    rows = []
    for shape in shapes:
        if any(isinstance(value, str) for value in shape["values"]):
            continue  # levels stand among the coefficients
        for index, value in enumerate(shape["values"]):
            effects = shape["effect"][index]
            several = isinstance(effects, list)
            deviation = shape["deviation"][index] if shape["deviation"] else None
            effects = effects if several else [effects]
            names = _label_names(policy, len(effects)) if several else [""]
            rows += [
                {
                    "feature": shape["feature"],
                    "value": value,
                    "label": name,
                    "effect": effect,
                    "deviation": deviation,
                }
                for name, effect in zip(names, effects, strict=True)
            ]
    return rows


def _software(certificate: Certificate | None) -> dict[str, str]:
    if certificate is not None:
        return dict(certificate.software)
    return {name: version(name) for name in ("corrdp", "numpy", "scipy")}
