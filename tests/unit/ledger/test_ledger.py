"""The ledger: classes, policies, fingerprints, refusals before anything is paid."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from corrdp.accounting import (
    WHOLE_RECORD,
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
)
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    UnsupportedEventError,
)
from corrdp.ledger import Ledger, Receipt
from corrdp.ledger._rules import UNITS as UNIT
from corrdp.mechanisms import VectorPlan, answer_queries
from corrdp.policy import Budget, Feature, Label, NumberDomain, Policy
from corrdp.queries._moments import Moment


def feature(name, role="sensitive", **options):
    return Feature(name, role, NumberDomain(0, 1), **options)


POLICY = Policy((feature("s"), feature("u", "insensitive", leakage=0.5)))


@pytest.fixture
def pure(tmp_path):
    return Ledger.create(
        tmp_path / "pure.ledger", POLICY, budget=Budget(epsilon=1.0, delta=0.0)
    )


@pytest.fixture
def renyi(tmp_path):
    return Ledger.create(
        tmp_path / "renyi.ledger", POLICY, budget=Budget(epsilon=1.0, delta=1e-6)
    )


def cost(sensitive, insensitive, whole):
    return {
        "sensitive": [LaplaceEvent(sensitive)],
        "insensitive:u": [LaplaceEvent(insensitive)],
        WHOLE_RECORD: [LaplaceEvent(whole)],
    }


def test_every_class_pays_its_own_cost(pure):
    receipt = pure.charge(cost(0.25, 1.5, 2.0), policy=POLICY, purpose="one")
    remaining = pure.remaining()
    assert receipt.number == 3
    assert remaining["sensitive"].share_left == 0.75
    assert remaining["insensitive:u"].share_left == 0.25
    assert remaining.share_left == 0.25
    assert remaining[WHOLE_RECORD].epsilon_spent == 2.0
    assert remaining[WHOLE_RECORD].share_left == 1.0
    assert remaining.largest_pure_epsilon == pytest.approx(0.5)


def test_the_first_class_to_run_out_refuses_and_nothing_is_paid(pure):
    pure.charge(cost(0.25, 1.5, 2.0), policy=POLICY, purpose="one")
    before = pure.remaining()
    with pytest.raises(BudgetError, match=r"'insensitive:u' has 0\.5 left of 2"):
        pure.charge(cost(0.1, 0.6, 2.0), policy=POLICY, purpose="two")
    with pytest.raises(BudgetError):
        pure.require(cost(0.1, 0.6, 2.0), policy=POLICY)
    with pytest.raises(BudgetError, match=r"does not come back"):
        pure.require(cost(0.1, 0.6, 2.0), policy=POLICY)
    # What no full account could pay has another reason, and another remedy.
    with pytest.raises(
        BudgetError, match=r"epsilon 2 in all.*opened with.*epsilon_cap"
    ):
        pure.require(cost(0.1, 2.5, 2.5), policy=POLICY)
    assert pure.remaining() == before
    pure.require(cost(0.1, 0.5, 2.0), policy=POLICY)
    assert pure.remaining() == before


def test_classes_that_are_not_priced_pay_for_the_whole_record(pure):
    pure.charge({WHOLE_RECORD: [LaplaceEvent(0.5)]}, policy=POLICY, purpose="x")
    assert pure.remaining()["sensitive"].share_left == 0.5
    assert pure.remaining()["insensitive:u"].share_left == 0.75


def test_an_event_must_price_the_whole_record(pure):
    with pytest.raises(UnsupportedEventError, match="do not price 'whole_record'"):
        pure.charge({"sensitive": [LaplaceEvent(0.5)]}, policy=POLICY, purpose="x")
    with pytest.raises(UnsupportedEventError, match="policy does not have"):
        pure.charge(
            {"insensitive:v": [LaplaceEvent(0.5)], WHOLE_RECORD: [LaplaceEvent(1)]},
            policy=POLICY,
            purpose="x",
        )


def test_a_later_policy_pays_for_earlier_releases(pure):
    """Class v was not priced, so it pays what the whole record paid."""
    wide = Policy((*POLICY.features, feature("v", "insensitive", leakage=0.1)))
    narrow = Policy((feature("s"), feature("v", "insensitive", leakage=0.1)))
    ledger = pure
    with pytest.raises(BudgetError, match="does not know policy"):
        ledger.charge(cost(0.1, 0.1, 0.3), policy=wide, purpose="x")
    ledger.add_policy(wide)
    ledger.add_policy(wide)  # again: nothing happens
    ledger.charge(
        {WHOLE_RECORD: [LaplaceEvent(0.3)], "sensitive": [LaplaceEvent(0.2)]},
        policy=wide,
        purpose="x",
    )
    ledger.add_policy(narrow)
    remaining = ledger.remaining()
    assert remaining["insensitive:v"].epsilon_spent == pytest.approx(0.3)
    assert remaining["sensitive"].epsilon_spent == pytest.approx(0.2)
    assert Ledger.open(ledger.path).remaining() == remaining


def test_a_class_covered_by_a_priced_one_pays_that_one(pure):
    """Neighbors that change less are neighbors of the class that changes more."""
    both = Policy((feature("s"), feature("t")))
    ledger = pure
    ledger.add_policy(both)
    ledger.charge(
        {"sensitive": [LaplaceEvent(0.2)], WHOLE_RECORD: [LaplaceEvent(0.9)]},
        policy=both,
        purpose="x",
    )
    spent = {b.account.columns: b.epsilon_spent for b in promised(ledger)}
    assert spent[("s", "t")] == pytest.approx(0.2)
    assert spent[("s",)] == pytest.approx(0.2)


def promised(ledger):
    return [b for b in ledger.remaining().balances if b.account.limit is not None]


def test_equal_names_of_different_columns_are_different_accounts(pure):
    """Class ``sensitive`` of the wider policy was not priced: the whole record is."""
    pure.charge(cost(0.2, 0.4, 0.9), policy=POLICY, purpose="x")
    pure.add_policy(Policy((feature("s"), feature("u"))))
    spent = {b.account.columns: b.epsilon_spent for b in promised(pure)}
    assert spent[("s",)] == pytest.approx(0.2)
    assert spent[("s", "u")] == pytest.approx(0.9)


def test_equal_columns_under_another_name_are_the_same_account(pure):
    swapped = Policy((feature("u"), feature("s", "insensitive", leakage=1.0)))
    with pytest.raises(BudgetError, match="class 'sensitive' epsilon 1"):
        pure.add_policy(swapped)  # u may already spend 2


def test_a_column_that_a_release_does_not_read_pays_nothing(pure):
    alone = Policy((feature("u", "insensitive", leakage=0.5),))
    pure.add_policy(alone)
    pure.charge({WHOLE_RECORD: [LaplaceEvent(0.5)]}, policy=alone, purpose="x")
    assert pure.remaining()["sensitive"].epsilon_spent == 0.0
    assert pure.remaining()["insensitive:u"].epsilon_spent == 0.5


@pytest.mark.parametrize(
    "earlier",
    [
        Policy((*POLICY.features, feature("y", "public"))),
        Policy(POLICY.features, Label("y", NumberDomain(0, 1), 0.0)),
    ],
)
def test_what_an_earlier_release_read_unprotected_cannot_be_promised(pure, earlier):
    pure.add_policy(earlier)
    pure.charge(cost(0.2, 0.4, 0.9), policy=earlier, purpose="x")
    later = Policy(POLICY.features, Label("y", NumberDomain(0, 1), 1.0))
    with pytest.raises(GuaranteeVoidError, match="does not protect all of it"):
        pure.add_policy(later)


PEOPLE = Policy(POLICY.features, unit="person", max_rows=3)


def test_a_release_about_single_rows_has_no_bound_for_all_rows_of_a_person(tmp_path):
    budget = Budget(epsilon=1.0, delta=0.0)
    ledger = Ledger.create(tmp_path / "people.ledger", PEOPLE, budget=budget)
    for other in (POLICY, Policy(POLICY.features, unit="household", max_rows=3)):
        ledger.add_policy(other)
        with pytest.raises(GuaranteeVoidError, match="in all rows of one 'person'"):
            ledger.charge(cost(0.1, 0.1, 0.1), policy=other, purpose="others")


def test_all_rows_of_a_person_are_not_promised_what_single_rows_have_spent(pure):
    pure.charge(cost(0.1, 0.1, 0.1), policy=POLICY, purpose="rows")
    with pytest.raises(GuaranteeVoidError, match="no bound"):
        pure.add_policy(PEOPLE)


def test_a_single_row_pays_what_all_rows_of_its_person_pay(pure):
    pure.add_policy(PEOPLE)
    pure.charge(cost(0.25, 0.5, 1.0), policy=PEOPLE, purpose="people")
    spent = [balance.spent for balance in pure.remaining().balances]
    assert spent[:3] == spent[3:] == [UNIT // 4, UNIT // 2, UNIT]


def test_a_class_that_keeps_the_number_of_rows_does_not_cover_one_that_does_not(
    tmp_path,
):
    """Where `s` is insensitive a person has equally many rows on both sides."""
    budget = Budget(epsilon=1.0, delta=0.0)
    ledger = Ledger.create(tmp_path / "people.ledger", PEOPLE, budget=budget)
    swapped = Policy(
        (feature("s", "insensitive", leakage=0.5), feature("u")),
        unit="person",
        max_rows=3,
    )
    ledger.add_policy(swapped)
    events = {
        "sensitive": [LaplaceEvent(0.5)],
        "insensitive:s": [LaplaceEvent(0.25)],
        WHOLE_RECORD: [LaplaceEvent(0.75)],
    }
    ledger.charge(events, policy=swapped, purpose="people")
    first, *_ = ledger.remaining().balances
    assert (first.account.name, first.spent) == ("sensitive", 3 * UNIT // 4)


def test_whose_row_it_is_may_not_change_under_a_release_about_units(pure):
    moving = Policy((*POLICY.features, feature("person")))
    pure.add_policy(moving)
    pure.add_policy(PEOPLE)
    with pytest.raises(GuaranteeVoidError, match="it changes person"):
        pure.charge(cost(0.1, 0.1, 0.1), policy=PEOPLE, purpose="people")


def test_a_policy_that_promises_less_is_refused(pure):
    with pytest.raises(BudgetError, match="may spend 2"):
        pure.add_policy(POLICY.with_leakage({"u": 0.9}))
    pure.add_policy(POLICY.with_leakage({"u": 0.4}))
    assert pure.remaining()["insensitive:u"].account.epsilon == 2.0


def test_a_new_class_that_is_already_overdrawn_is_refused(tmp_path):
    ledger = Ledger.create(
        tmp_path / "l",
        Policy((feature("s"), feature("u", "insensitive", leakage=0.1))),
        budget=Budget(epsilon=1.0, delta=0.0),
    )
    policy = Policy((feature("s"), feature("u", "insensitive", leakage=0.1)))
    ledger.charge(cost(0.1, 5.0, 5.0), policy=policy, purpose="x")
    with pytest.raises(BudgetError, match="'sensitive' has 1 left of 1"):
        ledger.add_policy(Policy((feature("s"), feature("u"))))


def test_kinds_mix_under_the_renyi_rule(renyi):
    for event in (GaussianEvent(0.05), LaplaceEvent(0.05), ApproximateEvent(0.05, 0.0)):
        renyi.charge({WHOLE_RECORD: [event]}, policy=POLICY, purpose=event.kind)
    balance = renyi.remaining()["sensitive"]
    assert 0 < balance.share_left < 1
    assert 0 < balance.epsilon_spent < 1
    with pytest.raises(GuaranteeVoidError, match="no bound for a release"):
        renyi.charge(
            {WHOLE_RECORD: [ApproximateEvent(0.05, 1e-9)]}, policy=POLICY, purpose="x"
        )


def test_an_unbounded_whole_record_is_tracked_as_such(renyi):
    renyi.charge(
        {
            "sensitive": [GaussianEvent(0.05)],
            "insensitive:u": [GaussianEvent(0.05)],
            WHOLE_RECORD: [ApproximateEvent(1.0, 0.1)],
        },
        policy=POLICY,
        purpose="x",
    )
    assert renyi.remaining()[WHOLE_RECORD].epsilon_spent == float("inf")
    assert "inf" in renyi.to_text()
    words = " ".join(renyi.to_text().split())
    assert "is above what was asked for" in words
    assert "left is a share of Renyi divergence, which adds up" in words
    document = json.loads(json.dumps(renyi.to_json(), allow_nan=False))
    assert document["remaining"]["classes"][-1]["epsilon_spent"] == "inf"
    assert Ledger.open(renyi.path).remaining() == renyi.remaining()


def test_gaussian_rule_takes_gaussian_events_only(tmp_path):
    ledger = Ledger.create(
        tmp_path / "l",
        POLICY,
        budget=Budget(epsilon=1.0, delta=1e-6),
        rule="gaussian",
    )
    ledger.charge({WHOLE_RECORD: [GaussianEvent(0.1)]}, policy=POLICY, purpose="x")
    assert ledger.remaining()["sensitive"].epsilon_spent < 1.0
    with pytest.raises(UnsupportedEventError, match="Open a ledger with rule='renyi'"):
        ledger.charge({WHOLE_RECORD: [LaplaceEvent(0.1)]}, policy=POLICY, purpose="x")


@pytest.fixture
def table():
    return pd.DataFrame({"s": np.linspace(0, 1, 100), "u": np.linspace(1, 0, 100)})


def test_fingerprints_match_tables_and_hide_them(pure, renyi, table):
    print_ = pure.fingerprint(table)
    assert print_ == pure.fingerprint(table[["u", "s"]])
    assert print_ == pure.fingerprint(pl.from_pandas(table))
    assert print_["n_rows"] == 100
    assert print_ != pure.fingerprint(table.assign(s=table.s + 1e-9))
    assert print_ != pure.fingerprint(table.head(99))
    assert print_ != renyi.fingerprint(table)  # another key
    text = table.assign(s=[str(value) for value in table.s])
    assert pure.fingerprint(text) == pure.fingerprint(text)
    assert pure.fingerprint(table.to_numpy())["n_rows"] == 100


def test_advice_for_a_pure_release_in_a_ledger_with_a_delta_works(renyi):
    """Its epsilon is that of the ledger, and yet only half of it fits."""
    table = pd.DataFrame({"s": [0.5] * 20, "u": [0.5] * 20})
    terms = {"epsilon": 1.0, "delta": 1e-6, "ledger": renyi}
    with pytest.raises(BudgetError, match="Gaussian noise fits"):
        answer_queries(table, POLICY, ["sum(s)"], kind="laplace", **terms)
    assert answer_queries(table, POLICY, ["sum(s)"], kind="gaussian", **terms).receipt


def test_another_table_is_refused_unless_accepted(pure, table):
    answer_queries(table, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)
    other = table.head(50)
    with pytest.raises(BudgetError, match="has 50 rows, the last one 100"):
        answer_queries(other, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)
    with pytest.raises(CorrDPError, match="accept_new_data must be True or False"):
        answer_queries(
            other, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure, accept_new_data="no"
        )
    answer_queries(
        other, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure, accept_new_data=True
    )
    answer_queries(other, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)
    assert pure.remaining()["sensitive"].share_left == pytest.approx(0.7, abs=1e-6)


def test_ten_queries_of_a_tenth_fit(pure, table):
    for _ in range(10):
        answer_queries(table, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)
    with pytest.raises(BudgetError):
        answer_queries(table, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)


def test_refusal_comes_before_any_row_is_read(pure, table):
    class Untouchable:
        def __len__(self):
            return 100

        def __getattr__(self, name):
            raise AssertionError(f"the table was read ({name})")

    with pytest.raises(BudgetError, match="Ask for less"):
        answer_queries(Untouchable(), POLICY, ["mean(s)"], epsilon=2.0, ledger=pure)
    with pytest.raises(BudgetError, match="Ask for less"):
        pure.charge_for_rows(
            Untouchable(), cost(2.0, 2.0, 2.0), policy=POLICY, purpose="x"
        )


@pytest.mark.parametrize("step", ["Moment.evaluate", "VectorPlan.draw_runs"])
def test_the_charge_is_on_disk_before_sums_and_noise(pure, table, monkeypatch, step):
    owner = {"Moment": Moment, "VectorPlan": VectorPlan}[step.split(".")[0]]
    method = step.split(".")[1]
    original, paid = getattr(owner, method), []

    def watched(*args, **kwargs):
        paid.append(Ledger.open(pure.path).remaining()["sensitive"].spent)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, method, watched)
    answer_queries(table, POLICY, ["mean(s)"], epsilon=0.1, ledger=pure)
    assert len(paid) == 1
    assert paid[0] > 0


def test_exports_hold_everything_but_the_key(pure):
    pure.charge(cost(0.1, 0.1, 0.3), policy=POLICY, purpose="mean(s)")
    text = json.dumps(pure.to_json())
    with pure.path.open("rb") as file:
        raw = file.read()
    import sqlite3

    (key,) = sqlite3.connect(pure.path).execute("SELECT key FROM secret").fetchone()
    assert key in raw
    assert key.hex() not in text
    assert [e["kind"] for e in pure.entries()] == ["ledger", "policy", "charge"]
    entry = pure.entries()[-1]
    assert entry["policy"] == POLICY.fingerprint()
    assert entry["who"]
    assert entry["when"].endswith("Z")
    assert "mean(s)" in pure.to_text()
    assert "left is a share of epsilon." in " ".join(pure.to_text().split())
    assert "above what was asked" not in pure.to_text()


def test_charges_without_a_table_do_not_count_as_another(pure, table):
    print_ = pure.fingerprint(table)
    for data in (print_, None, print_):
        pure.charge(cost(0.1, 0.1, 0.3), policy=POLICY, purpose="x", fingerprint=data)


def test_a_user_without_a_name_is_unknown(pure, monkeypatch):
    def nobody():
        raise KeyError("no such user")

    monkeypatch.setattr("getpass.getuser", nobody)
    pure.charge(cost(0.1, 0.1, 0.3), policy=POLICY, purpose="x")
    assert pure.entries()[-1]["who"] == "unknown"


def test_the_block_of_insensitive_features_is_one_account(tmp_path):
    policy = Policy(POLICY.features, relation="all_insensitive", block_leakage=0.5)
    ledger = Ledger.create(
        tmp_path / "l", policy, budget=Budget(epsilon=1.0, delta=0.0)
    )
    ledger.charge(
        {"insensitive": [LaplaceEvent(1.0)], WHOLE_RECORD: [LaplaceEvent(1.0)]},
        policy=policy,
        purpose="x",
    )
    assert ledger.remaining()["insensitive"].share_left == 0.5


def test_a_release_is_recorded_once_for_one_charge(renyi):
    events = {WHOLE_RECORD: [GaussianEvent(mu=0.01)]}
    first, second = (
        renyi.charge(events, policy=POLICY, purpose="leakage") for _ in range(2)
    )
    assert not renyi.has_paid("abc")
    renyi.record_release(first, "abc")
    assert Ledger.open(renyi.path).has_paid("abc")
    for receipt, digest in ((first, "other"), (second, "abc")):
        with pytest.raises(CorrDPError, match="recorded already"):
            renyi.record_release(receipt, digest)
    with pytest.raises(CorrDPError, match="not a charge"):
        renyi.record_release(Receipt(1, first.when), "new")
    assert not renyi.has_paid("new")
