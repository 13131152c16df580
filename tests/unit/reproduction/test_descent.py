"""Many models at once are the same models as one at a time, on any form of the rows."""

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.reproduction._descent import GramMoments, RowBlocks, descend
from corrdp.reproduction._logistic_kernel import LogisticRows

N_COLUMNS = 7
IS_NUMBER = np.array([True, True, True, True, True, False, False])
STEPS = {"step_size": 0.05, "n_steps": 40}


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (600, N_COLUMNS))
    features[:, 5] = rng.integers(2, size=600)
    features[:, 6] = 1 - features[:, 5]
    labels = (features @ np.arange(N_COLUMNS) + rng.normal(size=600) > 3).astype(float)
    counts = rng.integers(1, 4, size=600).astype(float)
    return features, labels, counts


def scales(n_models):
    return np.linspace(0.01, 0.2, N_COLUMNS * n_models).reshape(N_COLUMNS, n_models)


def repeated(features, labels, counts):
    times = counts.astype(int)
    again = np.repeat(features, times, axis=0), np.repeat(labels, times)
    return *again, np.ones(times.sum())


def test_gram_matrix_and_rows_give_the_same_least_squares(table):
    seeds = [0, 1, 2, 0]
    on_gram = descend(GramMoments(*table), scales(4), seeds=seeds, **STEPS)
    on_rows = RowBlocks(*table, residual_bound=1e6)
    assert on_gram == pytest.approx(
        descend(on_rows, scales(4), seeds=seeds, **STEPS), abs=1e-5
    )
    clipped = RowBlocks(*table, residual_bound=0.1)  # planted: this is another loss
    other = descend(clipped, scales(4), seeds=seeds, **STEPS)
    assert np.abs(on_gram - other).max() > 0.01


def test_ridge_shrinks(table):
    plain = descend(GramMoments(*table), 0 * scales(1), seeds=[0], **STEPS)
    ridge = GramMoments(*table, ridge=10.0)
    shrunk = descend(ridge, 0 * scales(1), seeds=[0], **STEPS)
    assert np.linalg.norm(shrunk) < np.linalg.norm(plain)


@pytest.mark.parametrize(
    "rows_of",
    [
        GramMoments,
        lambda *t: RowBlocks(*t, residual_bound=0.5),
        lambda *t: RowBlocks(*t, residual_bound=None),
        lambda *t: LogisticRows.of(*t, IS_NUMBER),
    ],
    ids=["gram", "clipped", "logistic blocks", "logistic kernel"],
)
def test_counted_rows_are_repeated_rows(table, rows_of):
    coefs = np.random.default_rng(1).normal(size=(N_COLUMNS, 3)).astype(np.float32)
    counted = rows_of(*table).mean_gradient(coefs)
    assert counted == pytest.approx(
        rows_of(*repeated(*table)).mean_gradient(coefs), abs=1e-6
    )
    features, labels, counts = table
    uncounted = rows_of(features, labels, np.ones_like(counts)).mean_gradient(coefs)
    assert np.abs(counted - uncounted).max() > 1e-3  # planted: copies forgotten


@pytest.mark.parametrize("n_models", [1, 3, 200])
def test_the_compiled_kernel_is_logistic_regression(table, n_models):
    features, labels, counts = table
    rng = np.random.default_rng(2)
    coefs = 6 * rng.normal(size=(N_COLUMNS, n_models))
    score = features @ coefs
    residual = 0.5 * (1 + np.tanh(score / 2)) - labels[:, None]
    exact = (features * (counts / counts.sum())[:, None]).T @ residual
    single = coefs.astype(np.float32)
    kernel = LogisticRows.of(*table, IS_NUMBER)
    assert kernel.mean_gradient(single) == pytest.approx(exact, abs=2e-6)
    blocks = RowBlocks(*table, residual_bound=None)
    assert blocks.mean_gradient(single) == pytest.approx(exact, abs=2e-6)


def test_a_model_does_not_depend_on_its_company(table):
    rows = GramMoments(*table)
    scale = scales(3)
    together = descend(rows, scale, seeds=[4, 5, 6], **STEPS)
    alone = descend(rows, scale[:, 1:2], seeds=[5], **STEPS)
    assert together[:, 1:2] == pytest.approx(alone, abs=1e-12)
    assert np.abs(together[:, 1] - together[:, 2]).max() > 1e-3


def test_noise_has_the_scale_it_should(table):
    """One step from 0 without rows' pull: the iterate is minus step times noise."""
    features, labels, counts = table
    still = GramMoments(0 * features, labels, counts)
    seeds = list(range(400))
    scale = np.tile(np.linspace(0.1, 1.0, N_COLUMNS)[:, None], (1, 400))
    moved = descend(still, scale, step_size=1.0, n_steps=1, seeds=seeds)
    found = moved.std(axis=1) / scale[:, 0]
    # 400 draws: a deviation is off by more than a quarter with probability < 1e-9
    assert np.abs(found - 1).max() < 0.25
    assert np.abs(2 * found - 1).max() > 0.25  # planted: twice the noise


def test_a_step_that_diverges_is_refused(table):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(CorrDPError, match="Lower the step size"),
    ):
        descend(GramMoments(*table), scales(1), step_size=1e30, n_steps=40, seeds=[0])
