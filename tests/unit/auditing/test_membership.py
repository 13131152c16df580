"""Membership inference: for research alone, in words, and within what is certified."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
import typer
from scipy.special import ndtr
from typer.testing import CliRunner

from audit_mutants import DELTA, audited_policy
from corrdp.auditing import MembershipInference, infer_membership
from corrdp.auditing._membership import likelihood_ratios
from corrdp.cli import _audit
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.tables import take_rows, with_twins

app = typer.Typer()
app.command()(_audit.audit)


def rows(n_rows=80, *, number=False):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.random(n_rows),
            "job": rng.choice(["a", "b", "c"], n_rows),
            "hours": rng.random(n_rows),
            "race": rng.choice(["p", "q"], n_rows),
        }
    )
    noisy = frame["age"] + 0.3 * rng.standard_normal(n_rows)
    return frame.assign(
        income=noisy.clip(0, 1) if number else np.where(noisy > 0.5, "y", "n")
    )


def model(kind=LogisticRegression, **settings):
    label = "number" if kind is LinearRegression else "category"
    settings = {"epsilon": 8.0, "delta": DELTA} | settings
    return kind(audited_policy(label=label), **settings)


def attack(estimator, table, **settings):
    settings = {"n_models": 8, "random_state": 0} | settings
    return infer_membership(estimator, table, research=True, **settings)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", [LogisticRegression, LinearRegression])
def test_nobody_is_found_beyond_the_certificate(kind):
    found = attack(
        model(kind, method="standard"), rows(number=kind is LinearRegression)
    )
    assert 0.5 < found.certified_accuracy < 1.0
    assert found.accuracy <= found.certified_accuracy
    assert not found.exceeds_certificate
    assert found.roc[-1] == (1.0, 1.0)


@pytest.mark.statistical
def test_a_model_without_privacy_gives_people_away():
    found = attack(model(method="nonprivate"), rows(), n_models=16)
    assert found.accuracy > 0.5 + 3 * found.standard_error
    assert found.certified_accuracy == 1.0
    assert "Nothing is promised" in found.to_text()


def test_rows_are_read_for_research_alone():
    with pytest.raises(GuaranteeVoidError, match="research=True"):
        infer_membership(model(), rows())
    with pytest.raises(CorrDPError, match="n_models"):
        attack(model(), rows(), n_models=3)
    with pytest.raises(CorrDPError, match="Policy"):
        attack(LogisticRegression(epsilon=1.0, delta=DELTA), rows())


def test_the_result_is_said_in_words():
    found = MembershipInference(0.62, 0.01, 0.55, 16, 200)
    assert found.exceeds_certificate
    text = found.to_text()
    assert "right in 62.0 of 100 guesses" in text
    assert "at most 55.0" in text
    assert "RESEARCH" in text
    assert "report a defect" in text
    assert found.to_json()["research"] is True
    assert not MembershipInference(0.62, 0.03, 0.55, 16, 200).exceeds_certificate


@pytest.mark.statistical
def test_likelihood_ratios_guess_about_as_well_as_any_test_can():
    rng = np.random.default_rng(0)
    used = rng.random((24, 400)) < 0.5
    levels = rng.standard_normal(400)  # records differ in how hard they are
    scores = levels + 1.5 * used + rng.standard_normal(used.shape)
    accuracy = ((likelihood_ratios(scores, used) > 0) == used).mean()
    assert ndtr(0.75) - 0.05 < accuracy <= ndtr(0.75) + 0.02
    mute = likelihood_ratios(scores, np.ones_like(used))
    assert not mute.any()


def test_twins_differ_in_what_may_change_alone():
    table = pl.from_pandas(rows(6))
    partner = np.array([1, 2, 3, 4, 5, 0])
    both = with_twins(table, changed=["age", "job"], partner=partner)
    assert both.height == 12
    assert both["age"][6:].to_list() == table["age"][partner.tolist()].to_list()
    assert both["race"][6:].to_list() == table["race"].to_list()
    assert take_rows(both, np.array([7, 0]))["age"][0] == table["age"][2]


def test_the_command_attacks_models_for_research_alone(tmp_path):
    audited_policy().to_file(tmp_path / "policy.toml")
    rows().to_csv(tmp_path / "data.csv", index=False)
    words = [str(tmp_path / "policy.toml"), "--epsilon", "8", "--delta", "1e-5"]
    asked = [*words, "--membership", str(tmp_path / "data.csv"), "--seed", "1"]
    with pytest.raises(GuaranteeVoidError, match="--research"):
        run([*asked, "--model", "logistic"])
    with pytest.raises(CorrDPError, match="attacks models"):
        run([*asked, "--research"])
    with pytest.raises(CorrDPError, match="belongs to --membership"):
        run([*words, "--research"])
    told = run([*asked, "--model", "logistic", "--research", "--json"])
    assert json.loads(told.stdout)["research"] is True


def run(words):
    result = CliRunner().invoke(app, words)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result
