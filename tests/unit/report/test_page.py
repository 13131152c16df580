"""The view of a page: verdict, grouped sentences, grouped risks, older summaries."""

import copy

import pytest

from corrdp.datasets import hospital_policy
from corrdp.leakage.estimators import resolution_assumptions
from corrdp.report import render_html, render_markdown
from corrdp.report._html import page_view
from report_fixtures import full_summary, wide_summary


def with_equal_classes(n_equal):
    """Return the summary with the first insensitive classes as risky as each other."""
    summary = copy.deepcopy(full_summary())
    rows = [
        row
        for row in summary["promise"]["classes"]
        if row["name"].startswith("insensitive:")
    ]
    for row in rows[:n_equal]:
        row["times"], row["risk"] = rows[0]["times"], rows[0]["risk"]
    return summary


def test_equal_classes_share_a_sentence_and_a_row():
    view = page_view(with_equal_classes(5))
    grouped = [text for text in view["promises"] if "one of 5 features" in text]
    assert len(grouped) == 1
    assert "age, sex and 3 more" in grouped[0]
    assert [row["what"] for row in view["risks"]].count("age, sex and 3 more") == 1


def test_many_different_classes_are_one_sentence_and_all_rows():
    view = page_view(wide_summary())
    assert len(view["promises"]) == 2
    assert "one of 22 other features" in view["promises"][1]
    assert len(view["risks"]) == 24


def test_both_epsilons_and_the_attack_come_first():
    verdict = page_view(full_summary())["verdict"]
    classes = {row["name"]: row for row in full_summary()["promise"]["classes"]}
    assert verdict["sensitive"] == classes["sensitive"]["proved"]
    assert verdict["whole"] == classes["whole record"]["proved"]
    assert verdict["attack"] == "52.5 %"
    assert "changes of the label" in verdict["not_covered"]


def test_a_policy_without_sensitive_features_shows_its_weakest_promise():
    summary = copy.deepcopy(full_summary())
    rows = summary["promise"]["classes"]
    del rows[0]
    weakest = max((r for r in rows if r["promised"]), key=lambda row: row["proved"])
    verdict = page_view(summary)["verdict"]
    assert verdict["sensitive"] == weakest["proved"] > rows[0]["proved"]
    assert verdict["what"] == f"Change of {weakest['name']}"
    page = render_html(summary)
    assert "<dt>Sensitive features</dt>" not in page
    assert "<dt>Sensitive features</dt>" in render_html(full_summary())


def test_usefulness_is_measured_or_expected_or_said_to_be_unknown():
    measured = page_view(full_summary())["useful"]
    assert measured == "accuracy 0.75, measured on a table declared public."
    assert "of what a model can gain" in page_view(wide_summary())["useful"]
    expected = wide_summary()["expected"]
    constant = wide_summary() | {"expected": expected | {"noise": "constant"}}
    assert "the model is a constant" in page_view(constant)["useful"]
    standard = wide_summary() | {"expected": expected | {"noise": "standard"}}
    assert "Ordinary noise was the better" in page_view(standard)["useful"]
    told = {"hindsight": {"lost": 0.125, "lost_band": [0.042, 0.375]}}
    after = page_view(wide_summary() | {"expected": expected | told})["useful"]
    assert "what training released: noise costs 12 % (4.2 to 38 %)" in after
    assert "keeps" not in after
    told["hindsight"]["kept"] = 0.42
    after = page_view(wide_summary() | {"expected": expected | told})["useful"]
    assert "The model keeps 42 % of what training found" in after
    unknown = page_view(wide_summary() | {"expected": None})["useful"]
    assert "would have to be paid for" in unknown


def test_what_is_assumed_of_many_features_is_said_once():
    summary = copy.deepcopy(full_summary())
    numbers = [f for f in hospital_policy().features if f.name in ("age", "income")]
    stated = ["the number of rows is public", *resolution_assumptions(numbers)]
    assert len(stated) == 3
    summary["promise"]["assumptions"] = stated
    shown = page_view(summary)["assumptions"]
    assert shown[0] == stated[0]
    assert shown[1].startswith("income, age enter the model binned, or values")
    assert len(shown) == 2
    assert "income, age enter" in render_html(summary)
    assert "income, age enter" in render_markdown(summary)


def test_a_summary_of_an_earlier_version_still_has_a_page():
    summary = copy.deepcopy(full_summary())
    del summary["expected"], summary["promise"]["not_covered_short"]
    for row in summary["promise"]["classes"]:
        del row["risk"], row["times"], row["features"]
    page = render_html(summary)
    assert "Sensitive features" in page
    assert 'id="risk"' not in page
    assert "## What is promised" in render_markdown(summary)


def test_features_have_leakage_epsilon_and_noise_in_one_row():
    rows = {row["feature"]: row for row in page_view(full_summary())["features"]}
    assert rows["region"]["leakage"] == 0.18
    assert rows["region"]["noise"] < 1
    assert rows["diagnosis"]["epsilon"] == pytest.approx(0.5)
    assert rows["readmitted"]["epsilon"] is None


def test_markdown_has_whole_record_usefulness_and_risk():
    text = render_markdown(full_summary())
    assert "Whole record: epsilon" in text
    assert "**Usefulness**" in text
    assert "### Risk, in percent" in text
