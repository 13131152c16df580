"""Networks keep the budget of their family, like the linear models."""

import numpy as np
import pytest
from sklearn.base import clone

from corrdp.estimators import AllSensitive
from corrdp.estimators._mlp import MLPClassifier
from corrdp.exceptions import BudgetError

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(400, 2))
Y = X[:, 0] > 0


def network(**options):
    settings = {"epsilon": 8.0, "delta": 1e-3, "n_steps": 2, "hidden_units": (2,)}
    settings["fall_back"] = False
    return MLPClassifier(AllSensitive(-1, 1), **settings | options)


def test_the_second_fit_of_a_family_raises_and_leaves_the_first():
    model = network().fit(X, Y)
    weights, certificate = model._weights, model.certificate_
    with pytest.raises(BudgetError, match="1 fit, epsilon 8"):
        clone(model).fit(X[:200], Y[:200])
    with pytest.raises(BudgetError, match="1 fit, epsilon 8"):
        model.fit(X, Y)
    assert model._weights is weights
    assert model.certificate_ is certificate


def test_declared_fits_share_the_budget():
    model = network(fits=2)
    for _ in range(2):
        assert clone(model).fit(X, Y).certificate_.epsilon <= 4.0
    with pytest.raises(BudgetError, match="2 fits"):
        model.fit(X, Y)


def test_research_is_stamped_and_charged_as_stamped():
    charged = []
    model = network(research=True).fit(X, Y, charge=charged.append)
    assert model.certificate_.research
    assert charged == [model.certificate_]
    assert not network().fit(X, Y).certificate_.research


def test_a_loaded_network_has_spent_its_budget(tmp_path):
    network().fit(X, Y).save(tmp_path / "model")
    loaded = MLPClassifier.load(tmp_path / "model")
    with pytest.raises(BudgetError, match="1 fit"):
        loaded.set_params(policy=AllSensitive(-1, 1)).fit(X, Y)
