"""Cells of the network experiments are what the library trains, at the right price."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Calibration
from corrdp.datasets import PaperTable, paper_synthetic
from corrdp.estimators import MLPRegressor
from corrdp.reproduction import _networks
from corrdp.reproduction._experiments import Cell, Experiment, Model
from corrdp.reproduction._networks import experiment_plan_of, train_network_cell
from corrdp.torch.mlp import CLIP_NORM

pytestmark = pytest.mark.torch

SMALL = Experiment(
    name="small",
    title="Small",
    data="synthetic",
    model=Model.NETWORK,
    step_size=0.005,
    n_steps=20,
    n_rows=300,
    n_sensitive=10,
    clip_norm=5.0,
    batch_size=100,
    hidden_units=4,
)


@pytest.fixture(autouse=True)
def small_tables(monkeypatch):
    """Labels inside their declared range: scores then have one meaning."""

    def table(experiment, seed=0):
        made = paper_synthetic(n_rows=300, random_state=seed)
        domain = made.policy.label.domain
        clipped = made.frame["y"].clip(domain.lower, domain.upper)
        return PaperTable(made.frame.assign(y=clipped), made.policy)

    monkeypatch.setattr(_networks, "load_table", table)


def cell(method, calibration=Calibration.CERTIFIED, epsilon=4.0, n_seeds=2):
    return Cell(SMALL, calibration, method, epsilon, n_seeds)


@pytest.mark.parametrize("method", ["corr", "standard", "semi"])
def test_certified_cells_are_the_estimators_own_models(method):
    result = train_network_cell(cell(method))
    for seed, score in enumerate(result.scores):
        table = _networks.load_table(SMALL, seed)
        model = MLPRegressor(
            table.policy,
            epsilon=4.0,
            delta=1e-5,
            method=method,
            hidden_units=(4,),
            clip_norm=CLIP_NORM["regression"],  # said, so that the network stays
            random_state=seed,
        ).fit(table.frame)
        assert score == pytest.approx(
            model.score(table.frame, table.frame["y"]), abs=1e-3
        )
    assert result.provable_epsilon == pytest.approx(model.certificate_.epsilon)
    assert result.provable_epsilon <= 4.0


def test_methods_are_other_models():
    methods = ("corr", "semi", "standard", "nonprivate")
    results = [train_network_cell(cell(m, Calibration.THEOREM)) for m in methods]
    assert len({result.scores for result in results}) == len(methods)


def test_other_seeds_are_other_models():
    first, later = (
        train_network_cell(cell("standard"), first_seed=seed) for seed in (0, 1)
    )
    assert first.scores[1] == pytest.approx(later.scores[0], abs=1e-6)
    assert first.scores[0] != pytest.approx(later.scores[1], abs=1e-3)


def test_the_papers_noise_is_priced_by_the_accountant():
    result = {
        method: train_network_cell(cell(method, Calibration.THEOREM, n_seeds=1))
        for method in ("corr", "standard", "semi")
    }
    assert result["semi"].provable_epsilon == math.inf
    proved = [result[m].provable[WHOLE_RECORD] for m in ("standard", "corr")]
    assert 0 < proved[0] < proved[1] < math.inf
    for one in result.values():
        assert one.lipschitz == 5.0
        assert one.constant == pytest.approx(25.0 * 20 / 300**2)


def test_the_papers_noise_has_its_size():
    plan = experiment_plan_of(cell("standard", Calibration.THEOREM))
    on_the_mean = math.sqrt(25.0 * 20 / 300**2 * (math.log(1e5) + 1) / 16.0)
    assert np.allclose(plan.noise.noise_scale / 100, on_the_mean)
    halved = experiment_plan_of(
        replace(cell("standard", Calibration.THEOREM), epsilon=8.0)
    )
    assert np.allclose(2 * halved.noise.noise_scale, plan.noise.noise_scale)


def test_without_noise_nothing_is_claimed():
    for calibration in Calibration:
        result = train_network_cell(cell("nonprivate", calibration, n_seeds=1))
        assert result.provable == {}
        assert result.provable_epsilon == math.inf
