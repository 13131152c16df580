"""`corrdp train --ledger` pays before the first gradient, and for leakage once."""

import json
from dataclasses import replace

import pytest

import corrdp.estimators._promises as fitting
from command_runner import run
from corrdp._json import digest
from corrdp.certificate import Component
from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import GuaranteeVoidError
from corrdp.ledger import Ledger, LedgerChoice, Payment
from corrdp.policy import Budget, Policy
from corrdp.torch import PrivateModule

MODELS = ("logistic", "mlp")


class StoppedError(Exception):
    """Stands for a crash at the first gradient."""


@pytest.fixture
def files(tmp_path):
    hospital_table(600).to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    return tmp_path


@pytest.fixture
def gradients(monkeypatch):
    """Count the trainings that reach their first gradient, and stop there."""
    reached = []

    def stopped(*arguments, **options):
        reached.append(1)
        raise StoppedError

    monkeypatch.setattr(fitting, "descend_tiled", stopped)
    monkeypatch.setattr(fitting, "descend_by_theorem", stopped)
    monkeypatch.setattr(PrivateModule, "backward", stopped)
    return reached


def train(files, model, *options, epsilon=2, total=None, out="model"):
    new = () if total is None else ("--ledger-epsilon", total)
    return run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", model),
        *("--epsilon", epsilon, "--delta", 1e-6, "--ledger", "l.db", *new),
        *("--out", out, *options),
        cwd=files,
    )


def charges(files):
    entries = Ledger.open(files / "l.db").entries()
    return [entry for entry in entries if entry["kind"] == "charge"]


@pytest.mark.parametrize("model", MODELS)
def test_a_refused_charge_means_that_no_gradient_was_computed(files, gradients, model):
    result = train(files, model, total=1)
    assert result.code == 3
    assert "left of" in result.stderr
    assert gradients == []
    assert not (files / "l.db").exists()  # nothing was charged, so nothing was opened
    assert not (files / "model").exists()


@pytest.mark.parametrize("model", MODELS)
def test_a_run_that_breaks_off_has_been_paid_and_released_nothing(
    files, gradients, model
):
    result = train(files, model, total=20)
    assert result.code == 1
    assert "(StoppedError)" in result.stderr
    assert gradients == [1]
    assert [entry["purpose"] for entry in charges(files)] == [
        f"{model} model, method corr"
    ]
    assert not (files / "model").exists()


def test_noise_without_a_price_is_refused_before_the_first_gradient(files, gradients):
    theorem = ("--calibration", "theorem", "--method", "semi", "--research")
    result = train(files, "logistic", *theorem, total=20)
    assert result.code == 4
    assert "cannot be charged" in result.stderr
    assert gradients == []


def test_a_method_that_protects_nothing_has_no_place_on_a_ledger(files):
    result = train(files, "logistic", "--method", "nonprivate", "--research", total=20)
    assert result.code == 4
    assert "cannot be charged" in result.stderr
    assert not (files / "l.db").exists()


def test_another_certificate_than_was_charged_is_void(tmp_path):
    policy = Policy.from_toml(hospital_policy_text())
    table = hospital_table(600)
    total = Budget(epsilon=20, delta=1e-6)
    choice = LedgerChoice(tmp_path / "l.db", total, accept_new_data=False)
    payment = Payment(choice, table, None, purpose="test")
    target = policy.label.name

    def fitted(epsilon, **options):
        model = LogisticRegression(policy, epsilon=epsilon, delta=1e-6)
        return model.fit(table, table[target], **options)

    cheap = fitted(2.0, charge=lambda certificate: payment.charge(certificate, policy))
    certificate, read = cheap.certificate_, cheap.policy_
    assert any(part.name == "where numbers lie" for part in certificate.components)
    assert payment.settle(certificate, read).path == tmp_path / "l.db"
    dearer = fitted(3.0)
    unprotected = replace(policy, epsilon_cap=100.0)
    for other, rules in (
        (dearer.certificate_, dearer.policy_),
        (replace(certificate, policy_fingerprint="0" * 64), read),
        (
            replace(certificate, policy_fingerprint=unprotected.fingerprint()),
            unprotected,
        ),
    ):
        with pytest.raises(GuaranteeVoidError, match="another certificate"):
            payment.settle(other, rules)


def test_a_training_that_never_asked_to_be_charged_is_void(tmp_path):
    payment = Payment(LedgerChoice(tmp_path / "l.db", None, False), None, None, "test")
    policy = Policy.from_toml(hospital_policy_text())
    table = hospital_table(600)
    model = LogisticRegression(policy, epsilon=2.0, delta=1e-6).fit(table)
    with pytest.raises(GuaranteeVoidError, match="another certificate"):
        payment.settle(model.certificate_, model.policy_)


# --- leakage is paid once


def leakage(files, name, *options):
    result = run(
        *("leakage", "data.csv", "--policy", "policy.toml", "--epsilon", 1),
        *("--delta", 1e-7, "--out", name, *options),
        cwd=files,
    )
    assert result.code == 0, result.stderr


def spent_by_last_charge(files):
    return charges(files)[-1]["costs"][0]  # of the sensitive class


@pytest.fixture
def paid_table(files):
    leakage(files, "t.json", "--ledger", "l.db", "--ledger-epsilon", 60)
    return files


def trained_with(files, name):
    result = train(files, "logistic", "--leakage", name, out=f"with-{name}")
    assert result.code == 0, result.stderr
    return spent_by_last_charge(files)


def test_a_leakage_table_of_the_same_ledger_is_not_charged_again(paid_table):
    again = trained_with(paid_table, "t.json")
    document = json.loads((paid_table / "with-t.json/certificate.json").read_text())
    first, *rest = document["components"]
    assert first["name"] == "leakage"
    entry = charges(paid_table)[-1]
    events = entry["price"]["classes"][0]["events"]
    parts = [Component.from_json(part) for part in rest]
    name = entry["price"]["classes"][0]["name"]
    assert events == [e.to_json() for part in parts for e in part.events_of(name)]
    assert again > 0


def forged(files, **changes):
    """Write the table with other numbers and a digest that fits them."""
    document = json.loads((files / "t.json").read_text())
    fields = {k: v for k, v in document.items() if k != "digest"} | changes
    text = json.dumps(fields | {"digest": digest(fields)})
    (files / "changed.json").write_text(text)


def test_a_private_table_that_the_ledger_has_not_recorded_is_refused(paid_table):
    leakage(paid_table, "other.json")  # same rows and budget, on no ledger
    document = json.loads((paid_table / "t.json").read_text())
    features = document["features"]
    next(iter(features.values()))["upper"] = 0.0
    forged(paid_table, features=features)
    for name in ("other.json", "changed.json"):
        result = train(paid_table, "logistic", "--leakage", name, out=f"with-{name}")
        assert result.code == 4
        assert "has not paid for the leakage table" in result.stderr
        assert not (paid_table / f"with-{name}").exists()
    assert len(charges(paid_table)) == 1


def test_an_edited_table_is_refused_with_or_without_a_ledger(paid_table):
    document = json.loads((paid_table / "t.json").read_text())
    next(iter(document["features"].values()))["upper"] = 0.0
    document["components"] = []
    (paid_table / "edited.json").write_text(json.dumps(document))
    rows = ("data.csv", "--policy", "policy.toml", "--model", "logistic")
    rows += ("--epsilon", 2, "--delta", 1e-6)
    result = run(
        *("train", *rows, "--leakage", "edited.json", "--out", "m"), cwd=paid_table
    )
    assert result.code == 4
    assert "digest does not match" in result.stderr
    forged(paid_table, features=document["features"], components=[], spent={})
    result = run(
        *("train", *rows, "--leakage", "changed.json", "--out", "m"), cwd=paid_table
    )
    assert result.code == 4
    assert "states no cost" in result.stderr


def test_exact_numbers_are_not_recorded(files):
    ledger = ("--ledger", "l.db", "--ledger-epsilon", 60)
    leakage(files, "t.json", "--research", *ledger)
    kinds = [entry["kind"] for entry in Ledger.open(files / "l.db").entries()]
    assert kinds.count("charge") == 1
    assert "release" not in kinds
