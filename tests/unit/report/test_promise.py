"""The promise in plain words, for every kind of certificate."""

import math
from dataclasses import replace

import pytest

from corrdp.certificate import Calibration
from corrdp.datasets import hospital_policy
from corrdp.estimators import LinearRegression
from corrdp.policy import Label, NumberDomain
from corrdp.report._promise import plan_verdict, promise_section
from report_fixtures import planned_certificate


def with_epsilon(epsilon):
    certificate = planned_certificate()
    classes = dict(certificate.classes)
    classes["sensitive"] = replace(classes["sensitive"], epsilon=epsilon)
    return replace(certificate, classes=classes)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        (math.log(2), "at most 2 times as likely"),
        (80.0, "which means nothing"),
        (math.inf, "nothing is proved"),
    ],
)
def test_factors_are_said_as_they_are(epsilon, words):
    section = promise_section(with_epsilon(epsilon))
    assert words in section["classes"][0]["sentence"]
    assert words in section["headline"]


def test_asymptotic_noise_is_not_called_proved():
    certificate = replace(planned_certificate(), calibration=Calibration.THEOREM)
    section = promise_section(certificate)
    assert "unstated constants" in section["headline"]
    assert section["certified"] is False


def test_a_protected_label_is_named_with_its_class():
    certificate = planned_certificate()
    claim = replace(certificate.classes["insensitive:age"], label_changes=True)
    alone = replace(claim, features=())
    section = promise_section(
        replace(certificate, label_protected=True, classes={"a": claim, "label": alone})
    )
    assert "any or all of age and the label" in section["classes"][0]["sentence"]
    assert "If the label of one record" in section["classes"][1]["sentence"]
    assert not any("The label" in text for text in section["not_covered"])


def test_no_plan_that_returns_a_constant_is_called_worth_it():
    told = []
    stay = Label("stay", NumberDomain(0, 60), score=0.0)
    policy = replace(hospital_policy(), label=stay)
    options = {"epsilon": 0.3, "delta": 1e-6}
    for n_rows in (300, 1_000, 3_000, 30_000):
        plan, ordinary = (
            LinearRegression(policy, method=method, **options).plan(n_rows)
            for method in ("corr", "standard")
        )
        verdict = plan_verdict(plan, ordinary, **options)
        told.append(plan.noise)
        assert (plan.noise == "constant") <= ("too few" in verdict)
        assert ("too few" in verdict) or not plan.prediction.learns_little
    assert "constant" in told
    assert "corr" in told
