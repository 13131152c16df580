"""A summary made without rows, and the search for raw values in what is published."""

import re
from dataclasses import replace
from functools import cache

from corrdp.auditing import AuditReport, AuditResult, Verdict
from corrdp.certificate import LeakageClaim, certify
from corrdp.datasets import hospital_policy
from corrdp.estimators import LogisticRegression
from corrdp.leakage import declared_table
from corrdp.policy import Budget, Policy, PolicyEncoder
from corrdp.report import Measured, summarize, with_audit, with_sweep


@cache
def training_plan(method="corr", n_rows=5_000):
    budget = {"epsilon": 0.5, "delta": 1e-6}
    model = LogisticRegression(
        hospital_policy(), method=method, bounds="declared", **budget
    )
    return model.plan(n_rows)


@cache
def planned_certificate():
    plan, policy = training_plan(), hospital_policy()
    return certify(
        policy,
        plan.components(),
        budget=Budget(epsilon=0.5, delta=1e-6),
        leakage=LeakageClaim.declared(policy),
    )


def full_summary(basis="public", title="Readmission"):
    """Return a summary with every section."""
    policy = hospital_policy()
    names = PolicyEncoder(policy).get_feature_names_out()
    summary = summarize(
        policy,
        planned_certificate(),
        title=title,
        n_rows=5_000,
        plan=training_plan(),
        ordinary=training_plan("standard"),
        coefficients={name: 0.1 * place for place, name in enumerate(names)},
        leakage=declared_table(policy),
        measured=[Measured(name="accuracy", value=0.75, basis=basis)],
        curve=[Measured(name=str(s), value=0.6 + s / 1e3, basis=basis) for s in (1, 9)],
    )
    points = [
        {"method": m, "epsilon": e, "mean": 0.7, "low": 0.69, "high": 0.71}
        for m in ("corr", "standard")
        for e in (0.1, 1.0)
    ]
    summary = with_sweep(summary, {"metric": "accuracy", "points": points})
    return with_audit(summary, audit_document())


@cache
def wide_policy(n_features=25):
    """Return a policy of many features, no two with the same leakage."""
    parts = ['target = "ill"\nrelation = "one_insensitive"\n']
    for place in range(n_features):
        sensitive = place < 3
        role = "sensitive" if sensitive else "insensitive"
        leakage = "" if sensitive else f"leakage = {0.05 + 0.03 * place:.2f}\n"
        kind = 'type = "category"\ncategories = ["a", "b", "c", "d"]\n'
        if place % 2:
            kind = 'type = "number"\nbounds = [0, 120]\n'
        parts.append(f'[features.feature_{place:02}]\nrole = "{role}"\n{kind}{leakage}')
    parts.append('[label]\ntype = "boolean"\nscore = 0.0\n')
    return Policy.from_toml("\n".join(parts))


@cache
def wide_summary():
    """Return the summary of a model of 25 features."""
    policy = wide_policy()
    budget = {"epsilon": 0.5, "delta": 1e-6}
    told = budget | {"bounds": "declared"}
    plan = LogisticRegression(policy, **told).plan(20_000)
    certificate = certify(
        policy,
        plan.components(),
        budget=Budget(**budget),
        leakage=LeakageClaim.declared(policy),
    )
    names = PolicyEncoder(policy).get_feature_names_out()
    return summarize(
        policy,
        certificate,
        title="Who falls ill",
        n_rows=20_000,
        plan=plan,
        ordinary=LogisticRegression(policy, method="standard", **told).plan(20_000),
        coefficients=dict.fromkeys(names, 0.1),
    )


def audit_document(**changes):
    """Return an audit of the planned certificate, as JSON."""
    certificate = planned_certificate()
    results = tuple(
        AuditResult(
            target="training steps, white box",
            class_name=name,
            certified_epsilon=claim.epsilon,
            audited_epsilon=0.8 * claim.epsilon,
            certified_mu=None,
            audited_mu=None,
            delta=certificate.delta,
            verdict=Verdict.CONSISTENT,
            attack="linear",
            n_runs=20_000,
        )
        for name, claim in certificate.classes.items()
    )
    digest = certificate.to_dict()["digest"]
    report = AuditReport(results, 0.99, 12.0, certificate_digest=digest)
    return replace(report, **changes).to_json()


def raw_values_in(text, table):
    """Return values of private rows that a text contains.

    Looks for numbers that stand by themselves and equal an income of five digits or
    more, however they are written, and for the entries of a column ``name``, which no
    policy declares. Digits inside a word are none: a digest holds every short run of
    them, sooner or later.
    """
    alone = r"(?<![\w.])\d+(?:\.\d+)?(?:[eE]\+?\d+)?(?!\w|\.\d)"
    numbers = {float(number) for number in re.findall(alone, text)}
    private = {value for value in table["income"] if value >= 10_000}
    found = {str(value) for value in private if float(value) in numbers}
    return found | {name for name in table["name"] if name in text}
