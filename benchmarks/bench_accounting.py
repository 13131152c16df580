"""Time the accountant on one core, beside dp-accounting where it answers the same.

Run: ``OMP_NUM_THREADS=1 python benchmarks/bench_accounting.py``.
"""

import time
from collections.abc import Callable

from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from corrdp.accounting import (
    SampledGaussianEvent,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    renyi_divergence,
    sampled_change,
    sampled_epsilon,
    sampled_noise_multiplier,
)

DELTA = 1e-5
RATE = 0.01
N_STEPS = 5000


def seconds(function: Callable[[], object], *, repeats: int) -> float:
    """Return the best time of five rounds of `repeats` calls, per call."""
    function()
    rounds = []
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        rounds.append((time.perf_counter() - start) / repeats)
    return min(rounds)


def composed_epsilon() -> float:
    return sampled_epsilon(
        rate=RATE,
        contribution=1.0,
        change=2.0,
        n_steps=N_STEPS,
        delta=DELTA,
        grid=1e-4,
    )


def oracle_epsilon() -> float:
    distribution = from_gaussian_mechanism(
        1.0,
        value_discretization_interval=1e-4,
        sampling_prob=RATE,
        neighboring_relation=NeighboringRelation.REPLACE_ONE,
    )
    return float(distribution.self_compose(N_STEPS).get_epsilon_for_delta(DELTA))


def row(name: str, value: float, unit: str, target: str, note: str = "") -> dict:
    return {"name": name, "value": value, "unit": unit, "target": target, "note": note}


def run() -> list[dict]:
    """Return one row per measurement."""
    mu = gaussian_mu(epsilon=1.0, delta=DELTA)
    scalars = [
        ("gaussian_delta", lambda: gaussian_delta(1.0, mu=mu)),
        ("gaussian_epsilon", lambda: gaussian_epsilon(mu=mu, delta=DELTA)),
        ("gaussian_mu", lambda: gaussian_mu(epsilon=1.0, delta=DELTA)),
    ]
    rows = [
        row(name, 1e6 * seconds(call, repeats=200), "microseconds", "< 1000")
        for name, call in scalars
    ]
    ours = seconds(composed_epsilon, repeats=1)
    theirs = seconds(oracle_epsilon, repeats=1)
    rows += [
        row("sampled_epsilon, 5000 steps, grid 1e-4", ours, "seconds", "< 1"),
        row("dp-accounting, the same", theirs, "seconds", "", "connect the dots"),
        row("ratio dp-accounting / corrdp", theirs / ours, "times", "> 1"),
        row(
            "relative difference of the two epsilons",
            abs(composed_epsilon() / oracle_epsilon() - 1),
            "",
            "< 1e-3",
        ),
    ]
    wide = seconds(
        lambda: sampled_epsilon(
            rate=0.1, contribution=1.0, change=2.0, n_steps=N_STEPS, delta=DELTA
        ),
        repeats=1,
    )
    change = seconds(
        lambda: sampled_change(
            epsilon=1.0, delta=DELTA, rate=RATE, contribution=1.0, n_steps=1000
        ),
        repeats=1,
    )
    noise = seconds(
        lambda: sampled_noise_multiplier(
            epsilon=1.0, delta=DELTA, rate=RATE, n_steps=1000
        ),
        repeats=1,
    )
    event = SampledGaussianEvent(RATE, 1.0, 2.0, 1000)
    renyi = seconds(lambda: renyi_divergence(event, 16.0), repeats=20)
    return [
        *rows,
        row("sampled_epsilon, rate 0.1 (epsilon 158)", wide, "seconds", "< 1"),
        row("sampled_change, 1000 steps", change, "seconds", "< 2"),
        row("sampled_noise_multiplier, 1000 steps", noise, "seconds", "< 2"),
        row("renyi_divergence, order 16", 1e3 * renyi, "milliseconds", "< 10"),
    ]


def main() -> None:
    """Print the table."""
    print(f"{'measurement':44} {'value':>11} {'unit':13} {'target':8} note")
    for entry in run():
        print(
            f"{entry['name']:44} {entry['value']:11.4g} {entry['unit']:13} "
            f"{entry['target']:8} {entry['note']}"
        )


if __name__ == "__main__":
    main()
