"""Steps of linear models that are trained on Poisson samples, drawn as they train."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim, FittedScore
from corrdp.auditing.targets._descent import (
    as_labels,
    candidate_paths,
    label_values,
    noise_of_coefficients,
)
from corrdp.auditing.targets._sampling import sampled_score
from corrdp.auditing.targets._steps import (
    FEWEST_ROWS,
    EncodedRows,
    NoisySteps,
    step_challenges,
)
from corrdp.policy import Block
from corrdp.training import (
    SampledBudget,
    SampledSums,
    TrainingPlan,
    central_codes,
    prepare_rows,
    record_gradients,
)

N_RUNS = 2000


class SampledSteps(NoisySteps):
    """Noisy sums of the sampled descent, at parameters fixed in advance.

    The budget is priced for as many steps as the path is long. `sums` is what releases;
    another one in tests that plant a bug.

    Guarantee
    ---------
    None is given, one is attacked: that of `corrdp.training.SampledSums`
    (`docs/theory/audit.md`).
    """

    def __init__(
        self,
        plan: TrainingPlan,
        budget: SampledBudget,
        path: FloatArray,
        sums: type[SampledSums] = SampledSums,
    ) -> None:
        self._plan = replace(plan, n_rows=FEWEST_ROWS)
        self._budget, self._path, self._sums = budget, path, sums
        self.blocks: tuple[Block, ...] = plan.layout.blocks
        self.labels = label_values(plan.loss)
        self.noise_scale = self._noise_scale()

    def parts(self, codes: FloatArray, y: FloatArray) -> FloatArray:
        """Return what every record adds if it is drawn, shape (n_records, n)."""
        plan = self._plan
        y, center = as_labels(y, plan.loss), central_codes(plan.layout)
        each = [
            record_gradients(codes, y, coef, plan.loss, plan.layout, center)
            for coef in self._path
        ]
        return np.hstack([part.reshape(len(codes), -1) for part in each])

    def given(self, codes: FloatArray, y: FloatArray) -> EncodedRows:
        """Return the table itself: every run draws samples of its rows."""
        return EncodedRows(codes, as_labels(y, self._plan.loss))

    def sample(
        self, given: EncodedRows, n_runs: int, rng: np.random.Generator
    ) -> FloatArray:
        """Return the sums of `SampledSums.release` along the path, one row per run."""
        sums = self._releasing(given, rng)
        return np.stack(
            [
                np.concatenate([sums.release(coef)[0].ravel() for coef in self._path])
                for _ in range(n_runs)
            ]
        )

    def score(self, first: EncodedRows, second: EncodedRows) -> FittedScore:
        """Return the log likelihood ratio of two tables under what is priced."""
        n_steps = len(self._path)
        one, other = (
            np.split(self.parts(table.codes, table.y), n_steps, axis=1)
            for table in (first, second)
        )
        scales = np.split(self.noise_scale, n_steps)
        return sampled_score(one, other, scales, rate=self._budget.rate)

    def _releasing(self, table: EncodedRows, rng: np.random.Generator) -> SampledSums:
        rows = prepare_rows(
            table.codes, table.y, self._plan.layout, compiled=False, sort_rows=False
        )
        return self._sums(rows, self._plan, self._budget, rng)

    def _noise_scale(self) -> FloatArray:
        """Return the noise that is planned along the path."""
        nobody = EncodedRows(
            np.zeros((FEWEST_ROWS, self.blocks[-1].stop)), np.zeros(FEWEST_ROWS, int)
        )
        sums = self._releasing(nobody, np.random.default_rng(0))
        scales = [
            noise_of_coefficients(sums.release(coef)[1], self._plan.layout, coef)
            for coef in self._path
        ]
        return np.concatenate(scales)


def sampled_challenges(
    plan: TrainingPlan,
    budget: SampledBudget,
    *,
    delta: float,
    class_names: Sequence[str] | None = None,
    n_runs: int = N_RUNS,
    sums: type[SampledSums] = SampledSums,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[EncodedRows], ...]:
    """Challenge the noisy sums of the sampled descent, class by class.

    The budget is as `corrdp.estimators.sampled_budget` gives it, for a few steps: every
    run draws samples and noise of all of them. `class_names` are the classes to attack,
    all by default; `sums` is what releases, another one in tests that plant a bug.
    Everything else as in `descent_challenges`.

    Guarantee
    ---------
    Tables of a few rows that are neighbors of the class they are named for, at
    parameters for which training is certified (`docs/theory/audit.md`). Once as rows
    are sampled, and once with all of them drawn, where nothing hides too little noise.
    """
    rng = np.random.default_rng(random_state)
    short = replace(plan, n_steps=budget.n_steps)
    classes = [
        neighbor
        for neighbor in plan.spending.classes
        if class_names is None or neighbor.name in class_names
    ]
    whole = deadline or Deadline()
    everybody = replace(budget, rate=1.0)

    def claims(drawn: SampledBudget, class_name: str) -> dict[str, Claim]:
        event = drawn.event(class_name)
        if drawn is budget:
            return {"": Claim((event,), delta)}
        mu = event.change * math.sqrt(event.n_steps)
        return {"all rows drawn": Claim.gaussian(mu, delta=delta)}

    challenges: list[Challenge[EncodedRows]] = []
    for drawn, part in ((budget, 0.5), (everybody, 1.0)):
        challenges += step_challenges(
            [
                SampledSteps(plan, drawn, path, sums)
                for path in candidate_paths(short, rng)
            ],
            classes,
            partial(claims, drawn),
            name="sampled steps, white box",
            n_rows=FEWEST_ROWS,
            n_runs=n_runs,
            batch=500,
            rng=rng,
            deadline=whole.share(part),
        )
    return tuple(challenges)
