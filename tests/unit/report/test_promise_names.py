"""What a report calls columns, and what it says that nobody has checked."""

import pytest

from corrdp.accounting import GaussianEvent
from corrdp.certificate import Component, LeakageClaim, certify
from corrdp.policy import Budget, Feature, NumberDomain, Policy
from corrdp.report._promise import promise_section

POLICY = Policy(
    (
        Feature("pay_grade", "sensitive", NumberDomain(0, 1)),
        Feature("birth_year", "insensitive", NumberDomain(0, 1), 0.2),
        Feature("birth year", "insensitive", NumberDomain(0, 1), 0.3),
    )
)


NOISE = Component("all", events={"whole_record": (GaussianEvent(mu=0.1),)})


def section(leakage=None):
    budget = Budget(epsilon=1.0, delta=1e-6)
    return promise_section(
        certify(
            POLICY,
            [NOISE],
            budget=budget,
            leakage=LeakageClaim.declared(POLICY, leakage),
        )
    )


def test_columns_keep_their_names():
    names = [one["name"] for one in section()["classes"]]
    assert names == [
        "sensitive",
        "insensitive:birth_year",
        "insensitive:birth year",
        "whole record",
    ]


@pytest.mark.parametrize(("distance", "rests"), [(0.2, True), (1.0, False)])
def test_declared_distances_below_1_are_what_a_report_rests_on(distance, rests):
    leakage = {"birth_year": distance, "birth year": 1.0}
    assumptions = section(leakage)["assumptions"]
    assert any("nothing here has checked" in one for one in assumptions) == rests
