"""The paper's noise is as printed, and what it proves is worked out independently."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.accounting import gaussian_epsilon
from corrdp.datasets import PaperTable
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.reproduction import EXPERIMENTS, Calibration, Cell, _data
from corrdp.reproduction._theorem import paper_plan, proved, train_by_theorem

DELTA = 1e-5
N_ROWS = 400
LEAKAGE = 0.25


@pytest.fixture
def experiment(monkeypatch):
    """Return a logistic experiment on one sensitive and one insensitive number."""
    import pandas as pd

    rng = np.random.default_rng(0)
    policy = Policy(
        (
            Feature("s", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("u", ColumnRole.INSENSITIVE, NumberDomain(0, 1), leakage=LEAKAGE),
        ),
        Label("y", CategoryDomain(("0", "1")), score=0.0),
    )
    frame = pd.DataFrame({"s": rng.random(N_ROWS), "u": rng.random(N_ROWS)})
    frame["y"] = (frame["s"] > frame["u"]).astype(int)
    table = PaperTable(frame, policy)
    monkeypatch.setattr(_data, "load_table", lambda experiment: table)
    _data.paper_rows.cache_clear()
    yield replace(EXPERIMENTS["adult"], name="small", n_steps=50, partial=False)
    _data.paper_rows.cache_clear()


def cell(experiment, method, epsilon=1.0, n_seeds=2):
    return Cell(experiment, Calibration.THEOREM, method, epsilon, n_seeds)


def paper_noise(one):
    """Return the noise on the mean gradient, and what it proves."""
    plan = paper_plan(one)
    return plan.noise.noise_scale / plan.n_rows, proved(one, plan)


def test_the_noise_is_the_printed_formula(experiment):
    epsilon = 0.7
    constant = 2.0 * experiment.n_steps / N_ROWS**2  # L^2 = 1 + 1 on the unit square
    full = constant * (math.log(1 / DELTA) + 1) / epsilon**2
    expected = {"standard": [1, 1], "corr": [1, LEAKAGE], "semi": [1, 0]}
    for method, multiplier in expected.items():
        noise_scale, result = paper_noise(cell(experiment, method, epsilon))
        assert result.lipschitz == pytest.approx(math.sqrt(2))
        assert result.constant == pytest.approx(constant)
        assert noise_scale**2 == pytest.approx(full * np.array(multiplier))


def test_no_record_exceeds_the_gradient_bound(experiment):
    bound = paper_noise(cell(experiment, "standard"))[1].lipschitz
    rows = _data.paper_rows(experiment)
    coefs = np.random.default_rng(1).normal(0, 5, (2, 50))
    residual = 1 / (1 + np.exp(-rows.features @ coefs)) - rows.labels[:, None]
    norms = np.abs(residual) * np.linalg.norm(rows.features, axis=1)[:, None]
    assert norms.max() <= bound
    assert norms.max() > 0.5 * bound  # the check can fail: half the bound is exceeded


def searched_change(noise_scale, n_steps, moves):
    """Return the largest mu over random parameters and neighbors of one class."""
    rng = np.random.default_rng(3)
    theta = rng.normal(0, 20, (20_000, 2))
    one, other = rng.integers(0, 2, (2, 20_000, 2)).astype(float)  # corners
    other[:, ~moves] = one[:, ~moves]
    label = rng.integers(0, 2, 20_000)
    score = [1 / (1 + np.exp(-np.sum(theta * x, axis=1))) - label for x in (one, other)]
    change = score[0][:, None] * one - score[1][:, None] * other
    step = np.linalg.norm(change / (N_ROWS * noise_scale), axis=1).max()
    return step * math.sqrt(n_steps)


@pytest.mark.parametrize(
    ("name", "moves"), [("sensitive", [True, False]), ("insensitive:u", [False, True])]
)
@pytest.mark.parametrize("method", ["corr", "standard"])
def test_what_is_proved_covers_every_neighbor_that_can_be_found(
    experiment, method, name, moves
):
    noise_scale, result = paper_noise(cell(experiment, method))
    mu = searched_change(noise_scale, experiment.n_steps, np.array(moves))
    found = gaussian_epsilon(mu=mu, delta=DELTA)
    assert found <= result.provable[name]
    # planted: the nominal claim, epsilon / distance, does not cover corr's neighbors
    if method == "corr" and name == "sensitive":
        assert found > 1.0


def test_semi_proves_nothing_although_it_covers_what_does_not_change(experiment):
    _, result = paper_noise(cell(experiment, "semi"))
    assert math.isinf(result.provable["sensitive"])
    assert math.isinf(result.provable_epsilon)


def test_unclipped_least_squares_proves_nothing_for_any_method():
    synthetic = replace(EXPERIMENTS["synthetic"].quick(), n_rows=50)
    for method in ("corr", "semi", "standard"):
        _, result = paper_noise(cell(synthetic, method))
        assert all(math.isinf(value) for value in result.provable.values())
        assert result.lipschitz == pytest.approx(10 * math.sqrt(10 * 2 + 90 * 3))


def test_more_noise_proves_more(experiment):
    proved = [
        paper_noise(cell(experiment, "corr", e))[1].provable_epsilon
        for e in (0.5, 1, 2)
    ]
    assert proved == sorted(proved)


def test_training_returns_a_score_per_seed_and_the_proof(experiment):
    cells = [cell(experiment, m, 100.0, 3) for m in ("corr", "standard")]
    plain = cell(experiment, "nonprivate", math.inf)
    corr, standard, without = train_by_theorem([*cells, plain])
    assert len(corr.scores) == len(standard.scores) == 3
    assert len(without.scores) == 1
    assert without.provable == {}
    assert corr.provable_epsilon < math.inf
    assert max(corr.scores) > 0.6


def test_partial_never_sees_a_sensitive_column(experiment):
    (partial,) = train_by_theorem([cell(experiment, "partial", math.inf)])
    (everything,) = train_by_theorem([cell(experiment, "nonprivate", math.inf)])
    assert partial.scores != everything.scores
