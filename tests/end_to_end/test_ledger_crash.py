"""Killed at random points a hundred times: never a release without its charge."""

import os
import random
import re
import signal
import subprocess
import sys
import time

import pytest

from corrdp.ledger import Ledger
from corrdp.policy import Budget, Feature, NumberDomain, Policy

N_KILLS = 100
# One interpreter forks a child per kill, so that imports are paid once. The child
# releases as fast as it can; a release is one line written after its charge.
WORKER = """
import os, sys
from corrdp.accounting import ApproximateEvent
import pytest

from corrdp.ledger import Ledger
from corrdp.policy import Feature, NumberDomain, Policy

path, released = sys.argv[1:]
policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
cost = {"whole_record": [ApproximateEvent(0.001, 0.0)]}

def release_forever(order):
    out = os.open(released, os.O_WRONLY | os.O_APPEND)
    ledger = Ledger.open(path)
    while True:
        if order == "pay first":
            number = ledger.charge(cost, policy=policy, purpose="x").number
            os.write(out, f"{number}\\n".encode())
        else:  # the planted bug: an answer leaves before it is paid for
            number = len(ledger.entries()) + 1
            os.write(out, f"{number}\\n".encode())
            ledger.charge(cost, policy=policy, purpose="x")

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        release_forever(line.strip())
    print(child, flush=True)
    os.waitpid(child, 0)
    print("gone", flush=True)
"""


def killed_releases(tmp_path, order, n_kills):
    """Kill a releasing process again and again; return releases and ledger."""
    path, released = tmp_path / "ages.ledger", tmp_path / "released.txt"
    released.touch()
    policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
    Ledger.create(path, policy, budget=Budget(epsilon=1000.0, delta=0.0))
    chance = random.Random(3)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, str(path), str(released)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as worker:
        for _ in range(n_kills):
            worker.stdin.write(f"{order}\n")
            child = int(worker.stdout.readline())
            size = released.stat().st_size
            while released.stat().st_size == size:  # however slow the machine is
                os.kill(child, 0)  # raises if the child has ended by itself
                time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.03))
            os.kill(child, signal.SIGKILL)
            assert worker.stdout.readline() == "gone\n"
        worker.stdin.close()
    numbers = [int(n) for n in re.findall(r"(\d+)\n", released.read_text())]
    return numbers, Ledger.open(path)


def unpaid(numbers, ledger):
    paid = {e["number"] for e in ledger.entries() if e["kind"] == "charge"}
    return [number for number in numbers if number not in paid]


@pytest.mark.slow
def test_no_release_is_without_its_charge(tmp_path):
    numbers, ledger = killed_releases(tmp_path, "pay first", N_KILLS)
    assert len(numbers) >= N_KILLS  # it did release between the kills
    assert len(set(numbers)) == len(numbers)
    assert unpaid(numbers, ledger) == []
    balance = ledger.remaining()["sensitive"]
    charges = [e for e in ledger.entries() if e["kind"] == "charge"]
    assert balance.spent == sum(e["costs"][0] for e in charges)


def test_releasing_before_paying_is_caught(tmp_path):
    """The twin: the same kills find a release that was never paid for."""
    numbers, ledger = killed_releases(tmp_path, "release first", N_KILLS // 4)
    duplicates = len(numbers) - len(set(numbers))
    assert duplicates + len(unpaid(numbers, ledger)) > 0
