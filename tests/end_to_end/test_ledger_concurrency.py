"""Eight processes on one budget: never above it, no charge lost or made twice."""

import subprocess
import sys
from collections import Counter

import pytest

from corrdp.accounting import LaplaceEvent
from corrdp.exceptions import BudgetError
from corrdp.ledger import Ledger
from corrdp.policy import Budget, Feature, NumberDomain, Policy

N_PROCESSES = 8
N_CHARGES = 100
N_AFFORDABLE = 500

# One interpreter forks the workers, so that imports are paid once.
WORKERS = """
import os, sys
from pathlib import Path
from corrdp.accounting import LaplaceEvent
from corrdp.exceptions import BudgetError
from corrdp.ledger import Ledger
from corrdp.policy import Feature, NumberDomain, Policy

folder, n_workers, n_charges, epsilon = sys.argv[1:]
policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
cost = {"whole_record": [LaplaceEvent(float(epsilon))]}

def work(worker):
    ledger = Ledger.open(folder + "/ages.ledger")
    lines = []
    for index in range(int(n_charges)):
        purpose = f"{worker}:{index}"
        try:
            receipt = ledger.charge(cost, policy=policy, purpose=purpose)
            lines.append(f"paid {receipt.number} {purpose}")
        except BudgetError:
            lines.append(f"refused 0 {purpose}")
    Path(folder, f"worker{worker}.txt").write_text("\\n".join(lines))

children = []
for worker in range(int(n_workers)):
    child = os.fork()
    if child == 0:
        work(worker)
        os._exit(0)
    children.append(child)
sys.exit(sum(os.waitpid(child, 0)[1] for child in children))
"""


@pytest.fixture
def policy():
    return Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))


@pytest.mark.slow
def test_eight_processes_never_overspend(tmp_path, policy):
    path = tmp_path / "ages.ledger"
    Ledger.create(path, policy, budget=Budget(epsilon=1.0, delta=0.0))
    arguments = [tmp_path, N_PROCESSES, N_CHARGES, 1.0 / N_AFFORDABLE]
    subprocess.run([sys.executable, "-c", WORKERS, *map(str, arguments)], check=True)
    outputs = [path.read_text() for path in tmp_path.glob("worker*.txt")]
    reports = [line.split() for output in outputs for line in output.splitlines()]
    assert len(reports) == N_PROCESSES * N_CHARGES
    paid = {purpose: int(n) for kind, n, purpose in reports if kind == "paid"}

    ledger = Ledger.open(path)
    charged = [e for e in ledger.entries() if e["kind"] == "charge"]
    # What processes were told is what the file says: none lost, none twice.
    assert {e["purpose"]: e["number"] for e in charged} == paid
    assert Counter(e["purpose"] for e in charged).most_common(1)[0][1] == 1
    # The budget is used up exactly and not passed.
    assert len(charged) == N_AFFORDABLE
    balance = ledger.remaining()["sensitive"]
    assert balance.spent == balance.account.limit
    with pytest.raises(BudgetError, match="has 0 left"):
        ledger.charge(
            {"whole_record": [LaplaceEvent(1e-9)]}, policy=policy, purpose="more"
        )


def test_checking_before_the_transaction_would_overspend(tmp_path, policy):
    """The twin: two looks before two payments both see the last of the budget."""
    ledger = Ledger.create(
        tmp_path / "ages.ledger", policy, budget=Budget(epsilon=1.0, delta=0.0)
    )
    cost = {"whole_record": [LaplaceEvent(0.6)]}
    for _ in range(2):
        ledger.require(cost, policy=policy)  # both would be let through
    ledger.charge(cost, policy=policy, purpose="first")
    with pytest.raises(BudgetError):
        ledger.charge(cost, policy=policy, purpose="second")
