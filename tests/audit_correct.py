"""Fifty correct mechanisms, each with challenges that an audit must not contradict."""

import itertools

import numpy as np

from audit_mutants import DELTA, audited_policy, mean_challenges, training_plan
from corrdp.auditing import (
    Claim,
    SampledSum,
    audit_one_run,
    descent_challenges,
    model_challenges,
    vector_challenges,
)
from corrdp.mechanisms.noise import Movement, plan_vector
from corrdp.policy import Budget


def mean_releases():
    """Twelve: budgets, leakages, labels that are protected."""
    for epsilon, leakage, score in itertools.product(
        (0.5, 2.0, 8.0), (0.05, 0.4), (0.0, 0.3)
    ):
        policy = audited_policy(leakage=leakage, score=score)
        yield mean_challenges(policy, epsilon=epsilon)


def gradient_releases():
    """Eighteen: budgets, sizes, losses, leakages; white box."""
    for epsilon, n_rows, label in itertools.product(
        (0.5, 2.0, 8.0), (50, 500, 20_000), ("category", "number")
    ):
        policy = audited_policy(label=label, leakage=0.1)
        plan = training_plan(policy, epsilon=epsilon, n_rows=n_rows)
        yield descent_challenges(plan, delta=DELTA)


def sampled_sums():
    """Ten: Poisson and fixed-size batches, each at its own price."""
    for rate, contribution, change in (
        (0.25, 1.5, 1.5),
        (0.25, 1.0, 0.5),
        (0.1, 1.0, 2.0),
        (0.1, 2.0, 1.0),
        (0.5, 0.5, 0.5),
    ):
        batches = SampledSum(
            rate=rate,
            n_records=round(1 / rate),
            contribution=contribution,
            change=change,
            n_steps=6,
        )
        samplers = {"poisson": batches.poisson, "fixed_size": batches.fixed_size}
        for sampling, sampler in samplers.items():
            yield (
                batches.challenge(
                    sampler, sampling=sampling, delta=DELTA, class_name="sensitive"
                ),
            )


def vector_releases():
    """Four: exact discrete noise, Laplace and Gaussian."""
    grid = 2.0**-4
    ends = {
        "sensitive": ([0.0, 0.5, 0.5], [1.0, 0.5, 0.5]),
        "insensitive:hours": ([0.5, 0.0, 0.5], [0.5, 1.0, 0.5]),
        "insensitive:race": ([0.5, 0.5, 0.0], [0.5, 0.5, 1.0]),
        "whole_record": ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
    }
    moves = {name: np.abs(np.subtract(*pair)) for name, pair in ends.items()}
    for kind, epsilon in itertools.product(("laplace", "gaussian"), (0.5, 2.0)):
        planned = plan_vector(
            Movement.of_coordinates(moves, grid=grid),
            policy=audited_policy(),
            budget=Budget(epsilon=epsilon, delta=DELTA),
            kind=kind,
        )
        yield vector_challenges(planned, ends, grid=grid, name=kind)


def training_runs():
    """Two: the final model, and every iterate."""
    plan = training_plan(audited_policy(), epsilon=8.0, n_rows=60)
    for white_box in (False, True):
        challenges = model_challenges(
            plan, delta=DELTA, n_steps=2, n_runs=60, white_box=white_box
        )
        yield challenges[:1]


def correct_mechanisms():
    """All but the four that are audited in one run."""
    families = (
        mean_releases,
        gradient_releases,
        sampled_sums,
        vector_releases,
        training_runs,
    )
    return [challenges for family in families for challenges in family()]


def one_run_audits(*, noise_factor=1.0, confidence):
    """Audit four releases of 1000 columns in one run each, 500 canaries at once."""
    results = []
    for seed, mu in enumerate((0.2, 0.4, 0.6, 0.8)):
        canaries = np.random.default_rng(seed).choice([-0.5, 0.5], (500, 1000))
        noise_scale = noise_factor * np.sqrt(1000) / mu

        def run(coins, rng, canaries=canaries, noise_scale=noise_scale):
            sign = np.where(coins, 1.0, -1.0)
            return sign @ canaries + rng.normal(0.0, noise_scale, 1000)

        results.append(
            audit_one_run(
                run,
                lambda output, canaries=canaries: canaries @ output,
                n_canaries=500,
                n_guesses=100,
                claim=Claim.gaussian(mu, delta=DELTA),
                class_name="sensitive",
                confidence=confidence,
                random_state=seed,
            )
        )
    return results
