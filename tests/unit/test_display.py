"""Notebook displays: escaped, short, and there for every value people look at."""

import pandas as pd

from corrdp._display import MOST_ROWS, html_card
from corrdp.datasets import hospital_policy, hospital_table
from corrdp.estimators import LogisticRegression
from corrdp.leakage import declared_table
from corrdp.mechanisms import plan_means
from corrdp.policy import Budget, Policy
from report_fixtures import planned_certificate, training_plan

HOSTILE = "<script>alert(1)</script>"


def test_text_is_escaped_and_long_tables_are_cut():
    card = html_card(HOSTILE, [HOSTILE], [HOSTILE], [[HOSTILE]] * (MOST_ROWS + 7))
    assert "<script>" not in card
    assert card.count("<td") == MOST_ROWS
    assert "and 7 more" in card


def test_everything_that_people_look_at_has_a_display():
    shown = {
        "Policy": hospital_policy(),
        "Certificate": planned_certificate(),
        "Leakage": declared_table(hospital_policy()),
        "Training plan": training_plan(),
        "Plan of column means": plan_means(
            hospital_policy(), budget=Budget(epsilon=1.0, delta=1e-6), n_rows=500
        ),
    }
    for title, value in shown.items():
        card = value._repr_html_()
        assert title in card
        assert "<table>" in card
    assert "Noise plan" in shown["Plan of column means"].noise._repr_html_()


def test_a_hostile_column_stays_text_in_a_display():
    document = hospital_policy().to_dict()
    document["features"][HOSTILE] = document["features"].pop("region")
    assert "<script>" not in Policy.from_dict(document)._repr_html_()


def test_a_fitted_estimator_shows_its_certificate():
    table = hospital_table(400)
    model = LogisticRegression(hospital_policy(), epsilon=1.0, delta=1e-5)
    assert "Certificate" not in model._repr_mimebundle_()["text/html"]
    model.fit(table, pd.Series(table["readmitted"]))
    assert "Certificate" in model._repr_mimebundle_()["text/html"]
