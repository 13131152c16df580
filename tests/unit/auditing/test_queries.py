"""Plans of queries are audited through the function that answers them."""

import numpy as np
import pytest

from audit_mutants import audited_policy
from corrdp.auditing import audit, query_challenges
from corrdp.exceptions import CorrDPError
from corrdp.mechanisms.noise import _vector
from corrdp.policy import Budget
from corrdp.queries import _choices, answer_plan, plan_queries, released_runs

N_ROWS = 60


def plan(*texts, epsilon=2.0, delta=0.0, **settings):
    return plan_queries(
        audited_policy(),
        texts or ("mean(age)", "mean(hours)", "count() by job"),
        budget=Budget(epsilon=epsilon, delta=delta),
        n_rows=N_ROWS,
        **settings,
    )


def broken(report):
    return {result.class_name for result in report.violations}


def test_two_tables_differ_in_one_record_as_their_class_allows():
    challenges = query_challenges(plan())
    assert [one.class_name for one in challenges] == [
        "sensitive",
        "insensitive:hours",
        "insensitive:race",
        "whole_record",
    ]
    for one, changed in zip(
        challenges,
        [{"age", "job"}, {"hours"}, {"race"}, {"age", "job", "hours", "race"}],
        strict=True,
    ):
        first, second = (table.to_pylist() for table in (one.first, one.second))
        assert len(first) == N_ROWS
        assert first[1:] == second[1:]
        assert {n for n in first[0] if first[0][n] != second[0][n]} == changed


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_sums_of_queries_are_sound_and_with_a_third_of_the_noise_not(kind, monkeypatch):
    planned = plan(kind=kind, delta=1e-5 if kind == "gaussian" else 0.0)
    report = audit(planned, random_state=0)
    assert report.passed
    assert report.results[0].tightness > 0.4
    name = f"discrete_{kind}"
    drawn = getattr(_vector, name)

    def less(scale, *, size, generator):
        return drawn(scale, size=size, generator=generator) // 3

    monkeypatch.setattr(_vector, name, less)
    assert "sensitive" in broken(audit(planned, random_state=0))


def test_places_of_quantiles_are_attacked_with_the_sums():
    planned = plan("median(age)", "count() by job")
    report = audit(planned, n_runs=200, random_state=0)
    assert report.passed
    one = query_challenges(planned)[0]
    outputs = one.sample(one.first, 5, np.random.default_rng(0))
    assert outputs.shape == (5, 3)  # two counts that move, and the place


@pytest.mark.parametrize("text", ["median(age)", "quantiles(age, 0.2)"])
def test_places_are_drawn_at_their_rate_and_at_twice_the_rate_are_refuted(
    text, monkeypatch
):
    """Among rows at the ends alone all places between them gain or lose alike."""
    challenges = query_challenges(plan(text, epsilon=1.0))[:1]
    assert audit(challenges, n_runs=2400, random_state=0).passed
    rate = _choices.choice_rate
    monkeypatch.setattr(_choices, "choice_rate", lambda scale: 2 * rate(scale))
    assert broken(audit(challenges, n_runs=2400, random_state=0)) == {"sensitive"}


def test_answers_are_one_of_the_runs_that_audits_make():
    planned = plan("median(age)", "mean(hours)")
    table = query_challenges(planned)[0].first
    noise, choices = np.random.default_rng(1), np.random.default_rng(2)
    runs = released_runs(planned, table, 3, noise=noise, choices=choices)
    assert runs.shape == (3, sum(g.size for g in planned.noise.movement.groups))
    assert len({tuple(run) for run in runs.tolist()}) == 3
    assert len(answer_plan(table, planned, random_state=0).answers) == 2


def test_rows_of_units_are_refused():
    from dataclasses import replace

    policy = replace(audited_policy(), unit="person", max_rows=2)
    planned = plan_queries(
        policy, ["mean(age)"], budget=Budget(epsilon=1.0, delta=0.0), n_rows=20
    )
    with pytest.raises(CorrDPError, match="policy without a unit"):
        audit(planned)
