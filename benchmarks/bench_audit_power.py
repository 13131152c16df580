"""Does an audit find too little noise: every release, at several parts of its noise.

Run: python benchmarks/bench_audit_power.py [--only NAME ...] [--limit SECONDS]. Every
release of the library is audited as `corrdp.audit` audits it by default, with noise
multiplied by 1 (no bug), .7, .5 and .3 where it is drawn. What is saved stays until its
release is run again; `--render` writes the table of the documentation from it.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

import numpy as np
from saved_tables import RESULTS, markdown_table, read_figures, save_figures, save_table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

PARTS = (1.0, 0.7, 0.5, 0.3)
LIMIT = 60.0
N_ROWS = 2000
BUDGET = {"epsilon": 2.0, "delta": 1e-5}


def scaled_normal(owner, name, part):
    """Scale the noise that a function adds to its first array."""
    drawn = getattr(owner, name)

    def less(first, noise_scale, *rest):
        return drawn(first, part * noise_scale, *rest)

    return mock.patch.object(owner, name, less)


def scaled_discrete(owner, name, part):
    """Scale exact noise, rounded to whole steps."""
    drawn = getattr(owner, name)

    def less(scale, *, size, generator):
        noise = drawn(scale, size=size, generator=generator)
        return np.rint(part * noise).astype(np.int64)

    return mock.patch.object(owner, name, less)


def scaled_steps(part):
    """Scale the noise of every gradient of the descent."""
    from corrdp.training import Descent

    honest = Descent.noisy_gradient

    def less(self, gradient):
        noisy, noise_scale = honest(self, gradient)
        held = self.layout.held_columns.reshape(-1, *[1] * (self.coef.ndim - 1))
        return np.where(held, 0.0, gradient + part * (noisy - gradient)), noise_scale

    return mock.patch.object(Descent, "noisy_gradient", less)


def scaled_counts(part):
    """Scale the noise on counts of small residuals."""
    from corrdp.training import Descent

    honest = Descent.noisy_count

    def less(self, n_inside):
        return n_inside + part * (honest(self, n_inside) - n_inside)

    return mock.patch.object(Descent, "noisy_count", less)


def scaled_theorem(part):
    """Scale the paper's noise."""
    from corrdp.training import TheoremPlan

    honest = TheoremPlan.noisy

    def less(self, gradient, rng):
        return gradient + part * (honest(self, gradient, rng) - gradient)

    return mock.patch.object(TheoremPlan, "noisy", less)


def scaled_samples(part):
    """Scale the noise on sums over samples; the samples are as they were."""
    from corrdp.training import SampledSums

    honest = SampledSums.release

    def less(self, coef):
        state = self._rng.bit_generator.state
        noisy, scale = honest(self, coef)
        self._rng.bit_generator.state = state
        self._rng.random(self._plan.n_rows)
        noise = self._rng.standard_normal(coef.shape)
        own = scale[self._plan.layout.column_groups]
        return noisy - (1.0 - part) * noise * own, scale

    return mock.patch.object(SampledSums, "release", less)


def scaled_constant(part):
    """Scale the noise on the mean of the labels."""
    from corrdp.training import _gradient_descent

    honest = _gradient_descent.release_constant

    def less(y, loss, noise_scale, rng):
        return honest(y, loss, part * noise_scale, rng)

    return mock.patch.object(_gradient_descent, "release_constant", less)


def model(kind="LogisticRegression", label="category", **settings):
    """Return an estimator for the policy of all audits."""
    import corrdp.estimators
    from audit_mutants import audited_policy

    policy = audited_policy(label=label, score=settings.pop("score", 0.0))
    return getattr(corrdp.estimators, kind)(policy, **BUDGET | settings)


def leakage():
    """Return the challenges of a leakage table."""
    from corrdp.auditing import leakage_challenges
    from corrdp.leakage import plan_leakage_release
    from corrdp.policy import neighbor_classes

    policy = synthesizer().policy
    plan = plan_leakage_release(policy, **BUDGET)
    return leakage_challenges(policy, plan, neighbor_classes(policy))


def vector(kind):
    """Return the challenges of sums that queries and evaluations release."""
    from audit_mutants import audited_policy
    from corrdp.auditing import vector_challenges
    from corrdp.mechanisms.noise import Movement, plan_vector
    from corrdp.policy import Budget, neighbor_classes

    policy = audited_policy()
    names = [feature.name for feature in policy.features]
    grid = 2.0**-6
    ends = {
        neighbor.name: (
            np.zeros(len(names)),
            np.array([float(name in neighbor.features) for name in names]),
        )
        for neighbor in neighbor_classes(policy)
    }
    moves = {name: np.abs(np.subtract(*pair)) for name, pair in ends.items()}
    plan = plan_vector(
        Movement.of_coordinates(moves, grid=grid),
        policy=policy,
        budget=Budget(**BUDGET),
        kind=kind,
    )
    return vector_challenges(plan, ends, grid=grid)


def questions(*texts, epsilon=2.0):
    """Return a plan of questions."""
    from audit_mutants import audited_policy
    from corrdp.policy import Budget
    from corrdp.queries import plan_queries

    return plan_queries(
        audited_policy(),
        texts,
        budget=Budget(epsilon=epsilon, delta=0.0),
        n_rows=N_ROWS,
        kind="laplace",
    )


def scaled_places(part):
    """Draw places of quantiles at a rate that is larger; none is above 1."""
    from corrdp.mechanisms.noise import grid_rate
    from corrdp.queries import _choices

    def more(scale):
        return grid_rate(min(1.0, float(1 / scale) / part))

    return mock.patch.object(_choices, "choice_rate", more)


def means():
    """Return the challenges of column sums, as the command attacks them."""
    from audit_mutants import audited_policy
    from corrdp.auditing import column_sum_challenges
    from corrdp.mechanisms import plan_means
    from corrdp.policy import Budget, neighbor_classes, policy_blocks

    policy = audited_policy()
    plan = plan_means(policy, budget=Budget(**BUDGET), n_rows=N_ROWS)
    return column_sum_challenges(
        plan.noise, policy_blocks(policy), neighbor_classes(policy)
    )


def synthesizer():
    """Return a synthesizer of a small table."""
    from corrdp.policy import CategoryDomain, Feature, Policy
    from corrdp.synthesis import Synthesizer

    policy = Policy(
        (
            Feature("illness", "sensitive", CategoryDomain(("a", "b", "c"))),
            Feature("town", "insensitive", CategoryDomain(("x", "y")), leakage=0.2),
        )
    )
    return Synthesizer(policy, selection="screen", **BUDGET)


def noise_of(module, name):
    """Return what scales exact noise where a room draws it."""
    from importlib import import_module

    return lambda part: scaled_discrete(import_module(module), name, part)


def sums_of(module):
    """Return what scales normal noise on sums where a room draws it."""
    from importlib import import_module

    owner = f"corrdp.{module}"
    return lambda part: scaled_normal(import_module(owner), "noisy_column_sums", part)


_COUNTS = "corrdp.leakage.release._noise"
_VECTOR = "corrdp.mechanisms.noise._vector"
# By release: what is audited, and where its noise is scaled.
RELEASES = {
    "linear, labels: gradients": (model, scaled_steps),
    "linear, numbers: gradients": (
        lambda: model("LinearRegression", "number"),
        scaled_steps,
    ),
    "linear, numbers: counts of small residuals": (
        lambda: model("LinearRegression", "number"),
        scaled_counts,
    ),
    "linear: column means": (model, sums_of("training._totals")),
    "linear: counts of numbers": (
        lambda: model(bounds="auto", epsilon=4.0),
        noise_of(_COUNTS, "discrete_gaussian"),
    ),
    "linear on samples": (lambda: model(sampling_rate=0.2), scaled_samples),
    "linear in epochs": (lambda: model(solver="svrg"), scaled_steps),
    "linear by the paper, 1,000 steps": (
        lambda: model(calibration="theorem", n_steps=1000),
        scaled_theorem,
    ),
    "labels alone": (lambda: model(epsilon=0.01, score=1.0), scaled_constant),
    "additive: gradients": (lambda: model("AdditiveClassifier"), scaled_steps),
    "column sums": (means, sums_of("auditing.targets._releases")),
    "leakage": (leakage, noise_of(_COUNTS, "discrete_gaussian")),
    "synthetic table": (
        synthesizer,
        noise_of("corrdp.synthesis._estimation", "discrete_gaussian"),
    ),
    "queries: sums and counts": (
        lambda: questions("mean(age)", "mean(hours)", "count() by job"),
        noise_of(_VECTOR, "discrete_laplace"),
    ),
    # At epsilon 2 places are drawn at the largest rate there is: no bug could raise it.
    "queries: a median": (lambda: questions("median(age)", epsilon=0.6), scaled_places),
    "vectors, Laplace": (
        lambda: vector("laplace"),
        noise_of(_VECTOR, "discrete_laplace"),
    ),
    "vectors, Gaussian": (
        lambda: vector("gaussian"),
        noise_of(_VECTOR, "discrete_gaussian"),
    ),
}


def measured(name, limit):
    """Return by part of the noise what an audit found."""
    from corrdp.auditing import audit

    make, plant = RELEASES[name]
    subject, found = make(), {}
    for part in PARTS:
        started = time.process_time()
        with plant(part):
            report = audit(subject, n_rows=N_ROWS, time_limit=limit, random_state=5)
        worst = max(report.results, key=lambda result: result.tightness)
        found[str(part)] = {
            "found": not report.passed,
            "classes": len(report.violations),
            "of": len(report.results),
            "target": worst.target,
            "class": worst.class_name,
            "tightness": round(worst.tightness, 2),
            "seconds": round(time.process_time() - started, 1),
        }
        print(name, part, found[str(part)], flush=True)
    return found


def table(saved):
    """Return the table of the documentation."""
    header = ["release", *(f"noise x {part:g}" for part in PARTS), "seconds"]
    rows = []
    for name in [name for name in RELEASES if name in saved["releases"]]:
        own = saved["releases"][name]
        cells = [
            f"{'**found**' if cell['found'] else 'not found'}, {cell['tightness']:.2f}"
            for cell in own.values()
        ]
        slowest = max(cell["seconds"] for cell in own.values())
        rows.append([name, *cells, f"{slowest:.0f}"])
    return markdown_table(header, rows)


def run(names=tuple(RELEASES), limit=LIMIT):
    """Audit releases, save after each, and return what the page of benchmarks shows."""
    path = RESULTS / "audit_power.json"
    saved = read_figures("audit_power") if path.exists() else {"releases": {}}
    for name in names:
        saved |= {"limit": limit, "n_rows": N_ROWS, "budget": BUDGET}
        saved["releases"][name] = measured(name, limit)
        save_figures("audit_power", saved)
    save_table("audit_power", table(saved))
    releases = saved["releases"].values()
    return [
        {
            "name": f"releases whose noise x {part:g} an audit finds",
            "value": sum(own[str(part)]["found"] for own in releases) / len(releases),
            "unit": "share",
            "target": target,
            "note": f"{len(releases)} releases",
        }
        for part, target in ((1.0, "0"), (0.7, ""), (0.5, "1"), (0.3, "1"))
    ]


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=list(RELEASES))
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--render", action="store_true")
    given = parser.parse_args()
    run([] if given.render else given.only, given.limit)


if __name__ == "__main__":
    main()
