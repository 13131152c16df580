"""Speed of a ledger with ten thousand events.

Run ``python benchmarks/bench_ledger.py``.
"""

import tempfile
import time
from pathlib import Path

from corrdp.accounting import LaplaceEvent
from corrdp.ledger import Ledger, _store
from corrdp.ledger._accounts import Account, price_release
from corrdp.policy import Budget, Feature, NumberDomain, Policy

N_EVENTS = 10_000
N_INSENSITIVE = 8
REPEATS = 5


def seconds(action) -> float:
    """Return the median time of a few calls."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return sorted(times)[REPEATS // 2]


def filled(path: Path) -> tuple[Ledger, Policy]:
    """Return a ledger with many charges, written in one transaction to save time."""
    domain = NumberDomain(0, 1)
    policy = Policy(
        (
            Feature("s", "sensitive", domain),
            *(
                Feature(f"u{i}", "insensitive", domain, leakage=0.5)
                for i in range(N_INSENSITIVE)
            ),
        )
    )
    ledger = Ledger.create(path, policy, budget=Budget(epsilon=10.0, delta=1e-6))
    balances: list[Account] = [b.account for b in ledger.remaining().balances]
    price = price_release(policy, cost())
    costs = [account.cost(price) for account in balances]
    document = {
        "purpose": "mean(s)",
        "policy": policy.fingerprint(),
        "data": None,
        "price": price.to_json(),
        "who": "benchmark",
        "when": "2000-01-01T00:00:00Z",
    }
    with _store.writing(path) as connection:
        for _ in range(N_EVENTS):
            _store.append(connection, "charge", document, costs)
    return ledger, policy


def cost():
    return {"whole_record": [LaplaceEvent(1e-4)]}


def run() -> list[dict]:
    """Measure and return the rows of the benchmark page."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "benchmark.ledger"
        ledger, policy = filled(path)
        classes = f"{N_EVENTS} events, {N_INSENSITIVE + 2} classes"
        rows = [
            {
                "name": "remaining()",
                "value": seconds(ledger.remaining),
                "unit": "s",
                "target": "< 0.2 s",
                "note": classes,
            },
            {
                "name": "open and check every entry",
                "value": seconds(lambda: Ledger.open(path)),
                "unit": "s",
                "target": "",
                "note": classes,
            },
            {
                "name": "charge, committed to disk",
                "value": seconds(
                    lambda: ledger.charge(cost(), policy=policy, purpose="mean(s)")
                ),
                "unit": "s",
                "target": "",
                "note": "most of it waits for the disk",
            },
            {
                "name": "size of the file",
                "value": path.stat().st_size / 2**20,
                "unit": "MiB",
                "target": "",
                "note": classes,
            },
        ]
    for row in rows:
        print(f"{row['name']:<32} {row['value']:10.4g} {row['unit']}  {row['target']}")
    return rows


if __name__ == "__main__":
    run()
