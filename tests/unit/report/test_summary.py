"""The summary: plain JSON, stamps where they belong, no way in for rows."""

import json
from dataclasses import replace

import pytest

from corrdp.accounting import GaussianEvent
from corrdp.datasets import hospital_policy
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.leakage import declared_table
from corrdp.ledger import Ledger
from corrdp.policy import Budget
from corrdp.report import Measured, summarize, with_ledger, with_sweep
from report_fixtures import full_summary, planned_certificate


def bare_summary(certificate=None, **rest):
    return summarize(hospital_policy(), certificate, title="Bare", n_rows=5_000, **rest)


def test_a_summary_is_json():
    summary = full_summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert summary["schema"] == "corrdp.report/1"
    assert summary["policy_fingerprint"] == hospital_policy().fingerprint()


def test_every_promised_class_has_a_sentence_with_its_factor():
    classes = {row["name"]: row for row in full_summary()["promise"]["classes"]}
    assert "at most 1.65 times" in classes["sensitive"]["sentence"]  # exp(0.5)
    assert "age of one record" in classes["insensitive:age"]["sentence"]
    assert classes["whole record"]["promised"] is False
    assert classes["whole record"]["allowed"] == "inf"


def test_unprotected_labels_are_said():
    promise = full_summary()["promise"]
    assert "label" in promise["not_covered"][0]
    assert "label, not protected" in str(full_summary()["roles"])


def test_noise_of_insensitive_features_is_below_ordinary():
    rows = {row["feature"]: row for row in full_summary()["noise"]}
    assert rows["region"]["ratio"] < rows["diagnosis"]["ratio"] < 1


def test_unpaid_numbers_stamp_the_report():
    assert "research: not private" in full_summary("research")["stamps"]
    assert "research: not private" not in full_summary("public")["stamps"]
    with pytest.raises(GuaranteeVoidError, match="basis='free'"):
        Measured(name="accuracy", value=0.5, basis="free")


def test_exact_leakage_stamps_the_report():
    table = declared_table(hospital_policy())
    for research in (False, True):
        summary = bare_summary(
            planned_certificate(), leakage=replace(table, research=research)
        )
        assert ("research: not private" in summary["stamps"]) is research


def test_leakage_is_that_of_the_certificate_if_no_table_is_given():
    rows = bare_summary(planned_certificate())["leakage"]["features"]
    assert {row["feature"]: row["upper"] for row in rows} == dict(
        planned_certificate().leakage.values
    )


def test_a_sweep_stamps_the_report():
    summary = bare_summary(planned_certificate())
    assert summary["stamps"] == []
    swept = with_sweep(summary, {"metric": "accuracy", "points": []})
    assert swept["stamps"] == ["sweep: research: not private"]
    with pytest.raises(CorrDPError, match="points"):
        with_sweep(summary, {"curve": 1})


def test_a_model_without_certificate_is_stamped():
    summary = bare_summary()
    assert summary["promise"] is None
    assert summary["stamps"] == ["research: not private"]


def test_ledger_shows_accounts_and_purposes_but_no_user(tmp_path):
    policy = hospital_policy()
    ledger = Ledger.create(
        tmp_path / "l.db", policy, budget=Budget(epsilon=9, delta=1e-5)
    )
    ledger.charge(
        {"whole_record": [GaussianEvent(0.1)]}, policy=policy, purpose="a model"
    )
    section = with_ledger(bare_summary(), ledger)["ledger"]
    assert section["charges"][0]["purpose"] == "a model"
    assert set(section["charges"][0]) == {"number", "when", "purpose"}
    assert section["accounts"][0]["share_left"] < 1
