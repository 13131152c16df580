"""A private leakage release is on the ledger before any noise is drawn."""

import pytest

from corrdp.cli._leakage import Source, leakage
from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.leakage.release._request import LeakageRequest
from corrdp.ledger import Ledger


class StoppedError(Exception):
    """Stands for a crash at the moment of the release."""


def test_a_release_that_breaks_off_has_been_paid(tmp_path, monkeypatch):
    def stopped(*arguments, **options):
        raise StoppedError

    monkeypatch.setattr(LeakageRequest, "counts", stopped)
    data, policy = tmp_path / "data.csv", tmp_path / "policy.toml"
    hospital_table(200).to_csv(data, index=False)
    policy.write_text(hospital_policy_text())
    path = tmp_path / "budget.ledger"
    with pytest.raises(StoppedError):
        leakage(
            str(data),
            policy=policy,
            source=Source.PRIVATE,
            epsilon=0.2,
            delta=1e-7,
            ledger=path,
            ledger_epsilon=1.0,
            ledger_delta=1e-6,
        )
    assert path.exists()
    charges = [e for e in Ledger.open(path).entries() if e["kind"] == "charge"]
    assert [charge["purpose"] for charge in charges] == ["leakage"]
