"""What a fitted model and its directory may hold, by name; anything else is unpaid.

A new attribute, key or file fails here until it is listed, which is the moment to ask
what it was computed from.
"""

import json
import warnings
from functools import cache

import numpy as np
import pytest

from command_runner import TRAIN, run
from corrdp._json import digest
from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.estimators import (
    AdditiveClassifier,
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    MLPRegressor,
)
from corrdp.exceptions import CorrDPError
from linear_model_examples import (
    example_frame,
    example_policy,
    regression_frame,
    regression_policy,
)

N_ROWS = 613  # no plan, policy or network has a part of this size
# From the policy and from the table's column names, before any row is read; what the
# family of clones has spent is what was asked for. How many rows there are is public,
# as is the deviation of labels that no class changes: a plan takes no other.
PUBLIC = {"policy_", "plan_", "n_features_in_", "feature_names_in_", "_family"}
PUBLIC |= {"planned_"}
# What the noisy gradients made, and the claim that prices them.
RELEASED = {"certificate_"}
LINEAR = {
    "_coef",
    "_intercept",
    "_path",
    "_encoder",
    "_deviation",
    "_kept",
    "hindsight_",
}
NETWORK = {"_weights", "linear_"}
CLASSES = {"classes_"}  # the declared classes
MODELS = {
    "logistic": (LogisticRegression, LINEAR | CLASSES, {}),
    "linear": (LinearRegression, LINEAR, {}),
    "sampled": (LogisticRegression, LINEAR | CLASSES, {"sampling_rate": 0.1}),
    # An option of linear models that additive ones do not have stays at its default.
    "additive": (AdditiveClassifier, LINEAR | CLASSES | {"bounds"}, {"n_knots": 4}),
    "classifier": (MLPClassifier, NETWORK | CLASSES, {"fall_back": False}),
    "regressor": (MLPRegressor, NETWORK, {"fall_back": False}),
    "gave way": (MLPClassifier, NETWORK | CLASSES, {}),
}
SAVED = {"certificate.json", "model.json", "policy.toml"}
SAVED_KEYS = {
    *("schema", "private", "policy_fingerprint", "certificate_digest", "digest"),
    "content",
}
CONTENT_KEYS = {"kind", "parameters", "coefficients", "intercept", "weights", "fitted"}
CONTENT_KEYS |= {"planned"}
FITTED_KEYS = {"classes", "deviation"}  # declared; from noise that was planned
TRAINED = SAVED | {"certificate.txt", "report.html", "summary.json"}


def fitted(name, method="corr", **options):
    kind, _, settings = MODELS[name]
    if kind in (LogisticRegression, AdditiveClassifier, MLPClassifier):
        policy, frame = example_policy(), example_frame(N_ROWS)
    else:
        policy, frame = regression_policy(), regression_frame().head(N_ROWS)
    budget = {"epsilon": 1.0, "delta": 1e-6, "n_steps": 3, "method": method}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few rows: little utility
        model = kind(policy, **(budget | settings | options))
        return model.fit(frame, frame["rich"])


once_fitted = cache(fitted)


def array_shapes(value, seen):
    """Yield the shape of every array that a value holds, however deep."""
    if id(value) in seen or isinstance(value, str | bytes | int | float | None):
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray) or (
        hasattr(value, "columns") and hasattr(value, "shape")
    ):
        yield value.shape
    elif isinstance(value, dict):
        yield (len(value),)
        for part in value.values():
            yield from array_shapes(part, seen)
    elif isinstance(value, list | tuple | set | frozenset):
        yield (len(value),)
        for part in value:
            yield from array_shapes(part, seen)
    else:
        names = [*getattr(value, "__dict__", ()), *getattr(value, "__slots__", ())]
        for name in names:
            yield from array_shapes(getattr(value, name, None), seen)


@pytest.mark.parametrize("method", ["corr", "standard"])
@pytest.mark.parametrize("name", MODELS)
def test_fitted_attributes_are_listed(name, method):
    model = once_fitted(name, method)
    listed = PUBLIC | RELEASED | MODELS[name][1]
    found = vars(model).keys() - model.get_params(deep=False).keys()
    assert found - listed == set()


@pytest.mark.parametrize("name", MODELS)
def test_nothing_of_the_size_of_the_table_is_kept(name):
    held = vars(once_fitted(name, "corr"))
    shapes = list(array_shapes(held, {}))
    assert len(shapes) > 10
    assert [shape for shape in shapes if N_ROWS in shape] == []
    planted = held | {"kept": {"deep": [example_frame(N_ROWS)["age"].to_numpy()]}}
    assert (N_ROWS,) in set(array_shapes(planted, {}))


@pytest.mark.parametrize("name", MODELS)
def test_files_and_keys_of_a_saved_model_are_listed(name, tmp_path):
    once_fitted(name, "corr").save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == SAVED
    document = json.loads((tmp_path / "model" / "model.json").read_text())
    assert document.keys() - SAVED_KEYS == set()
    assert document["content"].keys() - CONTENT_KEYS == set()
    assert document["content"]["fitted"].keys() - FITTED_KEYS == set()


def test_files_of_a_training_run_are_listed(tmp_path):
    hospital_table(N_ROWS).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    before = {path.name for path in tmp_path.iterdir()}
    words = ("train", "data.csv", "--policy", "policy.toml", *TRAIN, "--out", "model")
    result = run(*words, cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert {path.name for path in (tmp_path / "model").iterdir()} == TRAINED
    assert {path.name for path in tmp_path.iterdir()} - before == {"model"}


@pytest.mark.parametrize("name", MODELS)
def test_two_fits_without_a_seed_differ_in_every_number(name):
    first, second = (released_numbers(fitted(name)) for _ in range(2))
    assert first.size > 3
    assert not np.any(first == second)


@pytest.mark.parametrize("name", ["logistic", "classifier"])
def test_two_fits_with_one_seed_are_equal(name):
    first, second = (released_numbers(fitted(name, random_state=5)) for _ in range(2))
    assert np.array_equal(first, second)


def released_numbers(model):
    if hasattr(model, "_weights"):
        return np.concatenate(
            [np.ravel(part) for pair in model._weights for part in pair]
        )
    return np.append(np.ravel(model._coef), model._intercept)


@pytest.mark.parametrize("layer", [0, 1])
def test_a_saved_network_whose_layers_do_not_fit_is_refused(tmp_path, layer):
    MLPClassifier(
        example_policy(),
        epsilon=4.0,
        delta=1e-5,
        hidden_units=(3,),
        n_steps=2,
        fall_back=False,
    ).fit(example_frame(200)).save(tmp_path)
    document = json.loads((tmp_path / "model.json").read_text())
    for weights in document["content"]["weights"][layer][0]:
        weights.pop()
    del document["digest"]
    document["digest"] = digest(document)
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(CorrDPError, match="damaged"):
        MLPClassifier.load(tmp_path)
