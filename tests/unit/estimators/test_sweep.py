"""Sweeps train the same models as the estimators, resume, and need research mode."""

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import LinearRegression, sweep
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy
from linear_model_examples import (
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)


def small_sweep(frame=None, **options):
    chosen = {
        "policy": example_policy(),
        "methods": ["corr", "standard", "semi", "partial", "nonprivate"],
        "epsilons": [0.3, 1.0],
        "delta": 1e-6,
        "seeds": 2,
        "research": True,
    }
    rows = example_frame() if frame is None else frame
    return sweep(rows, **(chosen | options))


@pytest.mark.parametrize("method", ["corr", "standard", "semi"])
def test_a_sweep_trains_the_estimators_own_models(method):
    rows = small_sweep().rows
    frame = example_frame()
    for row in rows:
        if row["method"] == method:
            model = model_of(
                epsilon=row["epsilon"], method=method, random_state=row["seed"]
            ).fit(frame)
            assert row["score"] == pytest.approx(
                model.score(frame, frame.rich), abs=2e-3
            )


@pytest.mark.parametrize("model", ["logistic", "additive"])
def test_public_columns_may_stand_between_others(model):
    rng = np.random.default_rng(0)
    n_rows = 400
    frame = pd.DataFrame({name: rng.choice(["m", "n"], n_rows) for name in "abcy"})
    frame["p"] = rng.random(n_rows)
    domain = CategoryDomain(("m", "n"))
    policy = Policy(
        (
            Feature("a", "sensitive", domain),
            Feature("b", "insensitive", domain, leakage=0.2),
            Feature("p", "public", NumberDomain(0, 1)),
            Feature("c", "insensitive", domain, leakage=0.2),
        ),
        Label("y", domain, 0.0),
    )
    found = sweep(
        frame,
        policy=policy,
        methods=["corr", "standard", "semi"],
        epsilons=[3.0],
        delta=1e-6,
        seeds=1,
        model=model,
        research=True,
    )
    assert {row["method"] for row in found.rows} == {"corr", "standard", "semi"}


def test_methods_without_privacy_run_once():
    rows = small_sweep().rows
    plain = [row for row in rows if row["method"] == "nonprivate"]
    assert [row["seed"] for row in plain] == [0, 0]
    frame = example_frame()
    best = model_of(method="nonprivate", research=True).fit(frame)
    assert plain[0]["score"] == pytest.approx(best.score(frame, frame.rich), abs=1e-3)
    part = model_of(method="partial", research=True).fit(frame)
    own = [row["score"] for row in rows if row["method"] == "partial"]
    assert own[0] == pytest.approx(part.score(frame, frame.rich), abs=1e-3)


def test_linear_models_are_scored_by_r_squared():
    frame = regression_frame()
    result = sweep(
        frame,
        policy=regression_policy(),
        methods=["corr"],
        epsilons=[1.0],
        delta=1e-6,
        seeds=1,
        model="linear",
        research=True,
    )
    model = LinearRegression(
        regression_policy(), epsilon=1.0, delta=1e-6, random_state=0
    ).fit(frame)
    assert result.rows[0]["score"] == pytest.approx(
        model.score(frame, frame.rich), abs=1e-3
    )


def test_summary_states_mean_deviation_and_band():
    result = small_sweep(methods=["corr"], epsilons=[1.0], seeds=5)
    scores = [row["score"] for row in result.rows]
    (line,) = result.summary()
    assert line["mean"] == pytest.approx(np.mean(scores))
    assert line["deviation"] == pytest.approx(np.std(scores, ddof=1))
    # Student's t with 4 degrees of freedom: 2.776
    half = 2.7764451 * line["deviation"] / np.sqrt(5)
    assert line["upper"] - line["mean"] == pytest.approx(half, rel=1e-6)
    assert "not private" in result.to_text()
    assert list(result.to_frame().columns) == [
        "method", "epsilon", "seed", "score", "noise",
    ]  # fmt: skip


def test_an_interrupted_sweep_goes_on(tmp_path):
    path = tmp_path / "sweep.jsonl"
    whole = small_sweep(methods=["corr"]).rows

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        small_sweep(methods=["corr"], seeds=1, checkpoint=path, progress=stop)
    before = path.read_text()
    assert len(before.splitlines()) == 3  # what it is, and two models
    steps = []
    resumed = small_sweep(
        methods=["corr"], checkpoint=path, progress=lambda *n: steps.append(n)
    )
    assert [row["score"] for row in resumed.rows] == pytest.approx(
        [row["score"] for row in whole], abs=1e-3
    )
    assert path.read_text().startswith(before)
    assert steps == [(4, 4)]


def test_a_checkpoint_of_another_sweep_is_refused(tmp_path):
    path = tmp_path / "sweep.jsonl"
    small_sweep(methods=["corr"], seeds=1, checkpoint=path)
    with pytest.raises(CorrDPError, match="another sweep"):
        small_sweep(methods=["corr"], seeds=1, delta=1e-5, checkpoint=path)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    path = tmp_path / "sweep.jsonl"
    small_sweep(methods=["corr"], seeds=1, checkpoint=path)
    with pytest.raises(CorrDPError, match="another sweep"):
        small_sweep(
            frame=example_frame(seed=1), methods=["corr"], seeds=1, checkpoint=path
        )


@pytest.mark.parametrize("kept", [0, 10, -3])
def test_a_line_that_was_cut_off_is_left_out(tmp_path, kept):
    path = tmp_path / "sweep.jsonl"
    whole = small_sweep(methods=["corr"], seeds=1, checkpoint=path)
    written = path.read_text()
    path.write_text(written[:kept])
    assert small_sweep(methods=["corr"], seeds=1, checkpoint=path) == whole
    assert path.read_text() == written


@pytest.mark.parametrize("text", ["what I know", '{"my": "words"}', "[1]", "1\n2"])
def test_a_file_that_is_no_checkpoint_stays_as_it_is(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_text(text)
    with pytest.raises(CorrDPError, match="checkpoint"):
        small_sweep(methods=["corr"], seeds=1, checkpoint=path)
    assert path.read_text() == text


def test_a_place_for_the_checkpoint_that_does_not_exist_is_told_at_once(tmp_path):
    with pytest.raises(CorrDPError, match="no directory that exists"):
        small_sweep(checkpoint=tmp_path / "no" / "sweep.jsonl")


def test_scores_are_not_given_away_without_research():
    with pytest.raises(GuaranteeVoidError, match="research"):
        small_sweep(research=False)
    with pytest.raises(CorrDPError, match="research must be True or False"):
        small_sweep(research="no")


@pytest.mark.parametrize("wrong", [{"methods": ["dp"]}, {"model": "tree"}])
def test_unknown_words_are_refused(wrong):
    with pytest.raises(CorrDPError, match="must be"):
        small_sweep(**wrong)
