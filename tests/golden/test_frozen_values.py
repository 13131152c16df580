"""What releases say today, to the last bit: commands, saved files, bounds, names.

Moving code must not move a value. One walk through every command, with fixed seeds,
and a few calls below the commands are compared with `frozen_values.json`. A change
that is meant to move a value regenerates the file, in a commit that says why:

    python tests/golden/test_frozen_values.py

Values are compared bit by bit where versions and processor are those that froze them.
Elsewhere another library may add in another order: documents must have the same shape
and numbers agree to four digits. Names are compared everywhere.
"""

import importlib
import itertools
import json
import math
import pkgutil
import platform
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

import corrdp
from command_runner import run
from corrdp.datasets import hospital_policy, hospital_policy_text, hospital_table
from corrdp.estimators import LinearRegression, MLPClassifier
from corrdp.policy import neighbor_classes, policy_blocks
from corrdp.training import (
    GradientLayout,
    GradientSensitivity,
    HuberLoss,
    LogisticLoss,
)
from linear_model_examples import (
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)

FROZEN = Path(__file__).with_name("frozen_values.json")
LIBRARIES = ("numba", "numpy", "scikit-learn", "scipy", "torch")
ROWS = 1_200
# Fields that tell the time, the place or the key of a run.
VOLATILE = {"created", "data", "seconds", "software", "wanted_seconds", "when", "who"}
ELSEWHERE = 1e-4
# Rounds of synthesis choose tables by a model that scipy's optimizer ends: with another
# version another point of nearly the same height, and from there other tables.
OPTIMIZED = "/synthetic/model.json/content/fitted"

DATA = ("data.csv", "--policy", "policy.toml")
BUDGET = ("--epsilon", 2, "--delta", 1e-6)
SEED = ("--seed", 7)
LEDGER = ("--ledger", "budget.ledger")
COMMANDS = {
    "account gaussian": ("account", "gaussian", "--mu", 0.7, "--delta", 1e-5),
    "account sampled": (
        *("account", "sampled", "--rate", 0.05, "--contribution", 1.5),
        *("--change", 2.0, "--steps", 40, "--delta", 1e-5),
    ),
    "check": ("check", *DATA),
    "leakage declared": ("leakage", *DATA, "--source", "declared"),
    "leakage public": ("leakage", *DATA, "--source", "public"),
    "leakage in sample": ("leakage", *DATA, "--source", "in_sample", "--research"),
    "leakage private": (
        *("leakage", *DATA, "--source", "private", *BUDGET, *SEED),
        *(*LEDGER, "--ledger-epsilon", 40, "--out", "leakage.json"),
    ),
    "plan": ("plan", "--policy", "policy.toml", "--rows", ROWS, *BUDGET),
    "train logistic": (
        *("train", *DATA, *BUDGET, *SEED, *LEDGER, "--research"),
        *("--model", "logistic", "--leakage", "leakage.json", "--out", "logistic"),
    ),
    "train standard": (
        *("train", *DATA, *BUDGET, *SEED, "--model", "logistic"),
        *("--method", "standard", "--out", "standard"),
    ),
    "train theorem": (
        *("train", *DATA, *BUDGET, *SEED, "--model", "logistic", "--research"),
        *("--calibration", "theorem", "--out", "theorem"),
    ),
    "train additive": (
        *("train", *DATA, *BUDGET, *SEED, "--model", "additive", "--out", "additive"),
    ),
    "certificate": ("certificate", "show", "logistic"),
    "verify": ("certificate", "verify", "logistic"),
    "query": (
        *("query", *DATA, *BUDGET, *SEED, *LEDGER, "--consistent"),
        *("--ask", "mean(age)", "--ask", "histogram(diagnosis)"),
        *("--ask", "quantiles(income, 0.5)", "--ask", "count() where age > 50"),
    ),
    "query pure": (
        *("query", *DATA, "--epsilon", 1, *SEED, "--ask", "histogram(diagnosis)"),
    ),
    "synthesize": (
        *("synthesize", *DATA, *BUDGET, *SEED, *LEDGER),
        *("--rows", 50, "--out", "synthetic"),
    ),
    "audit": ("audit", "logistic", "--seed", 3, "--time-limit", 0.3),
    "ledger": ("ledger", "show", "budget.ledger"),
}


def public_names() -> dict[str, list[str]]:
    """Return what every package exports."""
    found = pkgutil.walk_packages(corrdp.__path__, "corrdp.")
    packages = [name for _, name, is_package in found if is_package]
    return {
        name: sorted(getattr(importlib.import_module(name), "__all__", []))
        for name in ["corrdp", "corrdp.exceptions", *packages]
    }


def printed(folder: Path) -> dict[str, object]:
    """Return what the commands print, and below the name of a file what they save."""
    hospital_table(ROWS).to_csv(folder / "data.csv", index=False)
    (folder / "policy.toml").write_text(hospital_policy_text())
    ticks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.01 * next(ticks))
    values: dict[str, object] = {}
    with mock.patch("corrdp.auditing._challenge.time", clock):
        for name, words in COMMANDS.items():
            result = run(*words, "--json", cwd=folder)
            assert result.code == 0, f"{name}: {result.stderr}"
            values[name] = json.loads(result.stdout)
    for path in sorted(folder.glob("*/*")):
        name = str(path.relative_to(folder))
        if path.suffix == ".json":
            values[name] = json.loads(path.read_text())
        elif path.suffix in {".toml", ".txt", ".csv"}:
            values[name] = path.read_text().splitlines()
    return values


def computed() -> dict[str, object]:
    """Return bounds, plans and seeded coefficients below the commands."""
    policy = hospital_policy()
    blocks, classes = policy_blocks(policy), neighbor_classes(policy)
    layout = GradientLayout.by_role(blocks)
    random = np.random.default_rng(5)
    values: dict[str, object] = {}
    for loss in (LogisticLoss(), HuberLoss(0.5)):
        bound = GradientSensitivity(loss, layout, classes)
        place = random.normal(size=layout.n_columns)
        values[f"bounds {type(loss).__name__}"] = {
            "classes": list(bound.row_classes),
            "at a point": bound.bounds(place).tolist(),
            "everywhere": bound.worst_case_bounds(2.0).tolist(),
        }
    linear = LinearRegression(regression_policy(), epsilon=1.0, delta=1e-6)
    linear.set_params(random_state=3).fit(regression_frame())
    values["linear regression"] = [
        linear.coef_.tolist(),
        np.asarray(linear.intercept_).tolist(),
    ]
    network = MLPClassifier(example_policy(), epsilon=2.0, delta=1e-6, n_steps=12)
    network.set_params(hidden_units=(4,), batch_size=100, fall_back=False)
    network.set_params(random_state=3).fit(example_frame(1_500))
    with tempfile.TemporaryDirectory() as folder:
        network.save(folder)
        for path in sorted(Path(folder).glob("*.json")):
            values[f"network {path.name}"] = json.loads(path.read_text())
    many = model_of().fit(example_frame(1_500))
    values["logistic regression"] = [
        many.coef_.tolist(),
        np.asarray(many.intercept_).tolist(),
    ]
    values["probabilities"] = many.predict_proba(example_frame(5, seed=1)).tolist()
    return values


def frozen_now(folder: Path) -> dict[str, object]:
    """Return everything that is compared, as JSON would read it back."""
    values = steady({"printed": printed(folder), "computed": computed()})
    return json.loads(json.dumps(values | {"names": public_names()}))


def steady(value: object) -> object:
    """Return a document without what tells the time, the place or chance of a run."""
    if isinstance(value, dict):
        return {key: steady(v) for key, v in value.items() if key not in VOLATILE}
    return [steady(part) for part in value] if isinstance(value, list) else value


def place() -> dict[str, str]:
    """Return what decides in which order numbers are added."""
    named = {name: version(name) for name in LIBRARIES}
    return named | {"python": platform.python_version(), "cpu": processor()}


def processor() -> str:
    """Return the kind of processor and its instructions, in one short text.

    Libraries choose their kernels by the maker of a processor, too.
    """
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    told = ("vendor_id", "cpu family", "model\t")
    kind = [line.split(":")[1].strip() for line in lines if line.startswith(told)][:3]
    return " ".join([platform.machine(), *kind, *found])


def leaves(value: object, path: str = "") -> dict[str, object]:
    """Return every number and text under its path."""
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    else:
        return {path: value}
    found = {f"{path} length": len(value)}
    for key, part in parts:
        found |= leaves(part, f"{path}/{key}")
    return found


def is_same(old: object, new: object, *, exact: bool) -> bool:
    """Return whether a leaf stayed."""
    if exact or type(old) is not type(new):
        return type(old) is type(new) and old == new
    if isinstance(old, float):
        return math.isclose(old, new, rel_tol=ELSEWHERE, abs_tol=ELSEWHERE)
    return isinstance(old, str) or old == new


def differences(old: object, new: object, *, exact: bool = True) -> list[str]:
    """Return where two documents differ."""
    before, after = leaves(old), leaves(new)
    missing = object()
    return [
        f"{path}: {before.get(path)!r} -> {after.get(path)!r}"
        for path in sorted(before.keys() | after.keys())
        if (exact or not path.startswith(OPTIMIZED))
        and not is_same(
            before.get(path, missing), after.get(path, missing), exact=exact
        )
    ]


@pytest.fixture(scope="module")
def frozen():
    return json.loads(FROZEN.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return frozen_now(tmp_path_factory.mktemp("frozen"))


@pytest.mark.parametrize("part", ["printed", "computed"])
def test_values_stay(frozen, now, part):
    exact = frozen["place"] == place()
    assert differences(frozen[part], now[part], exact=exact)[:20] == []


def test_names_stay(frozen):
    gone = [
        f"{package}.{name}"
        for package, names in frozen["names"].items()
        for name in names
        if not hasattr(importlib.import_module(package), name)
    ]
    assert gone == []


def test_one_bit_is_a_difference():
    old = {"a": [1.0, {"b": "x"}], "c": 2}
    assert differences(old, old) == []
    nearest = {"a": [math.nextafter(1.0, 2.0), {"b": "x"}], "c": 2}
    assert differences(old, nearest) == ["/a/0: 1.0 -> 1.0000000000000002"]
    assert differences(old, nearest, exact=False) == []
    for changed in (
        {"a": [1.0, {"b": "x"}], "c": 2.0},
        {"a": [1.0, {"b": "x"}, None], "c": 2},
        {"a": [1.001, {"b": "x"}], "c": 2},
        {"a": [1.0, {"d": "x"}], "c": 2},
    ):
        assert differences(old, changed, exact=False)
    assert differences(old, {"a": [1.0, {"b": "y"}], "c": 2})


def test_what_an_optimizer_ends_is_compared_to_the_bit_here_and_left_out_elsewhere():
    def document(potential, n_rows):
        fitted = {"potentials": [potential]}
        content = {"fitted": fitted, "n_rows": n_rows}
        return {"synthetic/model.json": {"content": content}}

    old, optimized, other = document(1.0, 5), document(2.0, 5), document(1.0, 6)
    assert differences(old, optimized)
    assert differences(old, optimized, exact=False) == []
    assert differences(old, other, exact=False)


if __name__ == "__main__":
    # One thread, as conftest.py sets for tests: more add in another order.
    with tempfile.TemporaryDirectory() as temporary, threadpool_limits(1):
        values = frozen_now(Path(temporary)) | {"place": place()}
    lines = []
    for part, entries in sorted(values.items()):
        inner = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in entries.items()]
        lines.append(f"{json.dumps(part)}: {{\n" + ",\n".join(inner) + "\n}")
    FROZEN.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
