"""What a release owes a ledger: nothing twice, and nothing unpaid."""

import dataclasses

import numpy as np
import pytest

from corrdp.accounting import GaussianEvent
from corrdp.certificate import Component, LeakageClaim, certify
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import estimate_leakage
from corrdp.ledger import Ledger, charge_certificate, require_recorded, unpaid_events
from corrdp.mechanisms import answer_queries
from corrdp.policy import Budget, PolicyEncoder
from leakage_models import joint_of, policy_of, table_of

JOINT = joint_of([[0.6, 0.4], [0.3, 0.7]], [0.5, 0.5])
POLICY = policy_of(JOINT, ("s", "u"), ("s",))
TABLE = table_of(JOINT, ("s", "u"), 20_000, np.random.default_rng(3))


@pytest.fixture
def leakage():
    return estimate_leakage(TABLE, POLICY, epsilon=0.5, delta=1e-6)


@pytest.fixture
def ledger(tmp_path):
    budget = Budget(epsilon=4.0, delta=1e-5)
    return Ledger.create(tmp_path / "l", POLICY, budget=budget, leakage={"u": 1.0})


def certificate_of(leakage):
    (part,) = leakage.components
    second = dataclasses.replace(part, name="second release")
    return certify(
        POLICY,
        [part, second],
        budget=Budget(epsilon=2.0, delta=1e-5),
        leakage=leakage.claim(),
    )


def record(ledger, leakage):
    receipt = ledger.charge(leakage.spent, policy=POLICY, purpose="leakage")
    ledger.record_release(receipt, leakage.digest)


def test_a_recorded_table_is_not_charged_again(ledger, leakage):
    record(ledger, leakage)
    owed = unpaid_events(
        certificate_of(leakage), policy=POLICY, ledger=ledger, leakage=leakage
    )
    assert owed == {name: list(events) for name, events in leakage.spent.items()}


def test_an_unrecorded_private_table_is_refused(ledger, leakage):
    certificate = certificate_of(leakage)
    for account in (ledger, None):
        with pytest.raises(GuaranteeVoidError, match="has not paid"):
            unpaid_events(certificate, policy=POLICY, ledger=account, leakage=leakage)
        with pytest.raises(GuaranteeVoidError, match="has not paid"):
            require_recorded(account, leakage)
    record(ledger, leakage)
    other = dataclasses.replace(leakage, failure_probability=1e-9)
    with pytest.raises(GuaranteeVoidError, match="has not paid"):
        require_recorded(ledger, other)


def test_a_certificate_with_private_leakage_needs_its_table(ledger, leakage):
    with pytest.raises(GuaranteeVoidError, match="was not given"):
        unpaid_events(certificate_of(leakage), policy=POLICY, ledger=ledger)


def test_a_certificate_of_another_policy_is_refused(ledger):
    """Its classes are called alike, and change other columns."""
    swapped = {"s": "insensitive", "u": "sensitive"}
    features = [
        dataclasses.replace(f, role=swapped[f.name], leakage=None, score=0.0)
        for f in POLICY.features
    ]
    block = {"relation": "all_insensitive", "block_leakage": 0.5}
    policy = dataclasses.replace(POLICY, **block)
    other = dataclasses.replace(policy, features=tuple(features))
    release = [Component("release", events={"whole_record": (GaussianEvent(0.1),)})]
    certificate = certify(
        policy,
        release,
        budget=Budget(epsilon=1.0, delta=1e-6),
        leakage=LeakageClaim.declared(policy),
    )
    assert unpaid_events(certificate, policy=policy, ledger=ledger)
    with pytest.raises(GuaranteeVoidError, match="was issued for policy"):
        unpaid_events(certificate, policy=other, ledger=ledger)


def test_a_refused_certificate_leaves_its_policy_unknown(ledger, leakage):
    """Else an open handle would have the distances of what was refused."""
    other = dataclasses.replace(POLICY, relation="all_insensitive", block_leakage=0.5)
    with pytest.raises(GuaranteeVoidError, match="was issued for policy"):
        charge_certificate(
            ledger, certificate_of(leakage), policy=other, purpose="training"
        )
    with pytest.raises(CorrDPError, match="does not know policy"):
        ledger.charge(
            {"whole_record": [GaussianEvent(0.1)]}, policy=other, purpose="count"
        )


def test_charging_a_certificate_follows_the_same_rules(ledger, leakage):
    def charge(table):
        return charge_certificate(
            ledger,
            certificate_of(leakage),
            policy=POLICY,
            purpose="training",
            leakage=table,
        )

    for table in (leakage, None):
        with pytest.raises(GuaranteeVoidError, match=r"has not paid|was not given"):
            charge(table)
    record(ledger, leakage)
    charge(leakage)
    first, second = (e["costs"] for e in ledger.entries() if e["kind"] == "charge")
    assert first == second  # the second release alone, which costs the same


def test_public_tables_and_exact_ones_are_not_asked_for(ledger, leakage):
    require_recorded(ledger, None)
    public = estimate_leakage(TABLE, POLICY, source="public")
    require_recorded(ledger, public)
    shown = dataclasses.replace(leakage, research=True)
    owed = unpaid_events(
        certificate_of(leakage), policy=POLICY, ledger=ledger, leakage=shown
    )
    assert all(len(owed[name]) == 2 for name in leakage.spent)  # in full


def test_queries_refuse_an_unrecorded_private_table(ledger, leakage):
    ask = {"queries": ["histogram(s)"], "epsilon": 0.1, "delta": 1e-6}
    with pytest.raises(GuaranteeVoidError, match="has not paid"):
        answer_queries(TABLE, POLICY, **ask, ledger=ledger, leakage=leakage)
    assert "charge" not in [entry["kind"] for entry in ledger.entries()]
    record(ledger, leakage)
    answer_queries(TABLE, POLICY, **ask, ledger=ledger, leakage=leakage)


def test_payment_comes_before_any_row_is_read(monkeypatch):
    def read(*arguments, **options):
        raise AssertionError("rows were read")

    monkeypatch.setattr(PolicyEncoder, "codes", read)

    class RefusedError(Exception):
        pass

    def refuse(plan):
        raise RefusedError

    with pytest.raises(RefusedError):
        estimate_leakage(TABLE, POLICY, epsilon=0.5, delta=1e-6, charge=refuse)
