"""Each sentence of the paper's findings, checked against saved results.

Methods are compared seed by seed: one is better where the mean of the paired
differences exceeds two standard errors. One is close to another where its mean falls
behind by no more than a hundredth of R squared or one point of accuracy.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np

from corrdp._typing import FloatArray
from corrdp.certificate import Calibration
from corrdp.reproduction._experiments import CALIBRATIONS, Model
from corrdp.reproduction._results import Results, deviation, standard_error

CLOSE = 0.01
_BASELINE_TOLERANCE = 0.01


class Verdict(StrEnum):
    """Whether a sentence holds on the results."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"


@dataclass(frozen=True)
class Outcome:
    """A verdict with the numbers behind it."""

    verdict: Verdict
    numbers: str


Check = Callable[[Results, Calibration], Outcome]


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper and how it is checked."""

    quote: str
    experiments: tuple[str, ...]  # that must have been run
    check: Check  # of the curves of one calibration
    reason: str = ""  # why it fails where it fails, as far as is known
    printed_only: bool = False  # is it about the paper's own noise alone?

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Whose curves it is checked on."""
        return (Calibration.THEOREM,) if self.printed_only else CALIBRATIONS


def outranks(experiments: Sequence[str], of: str, to: str, *, by: float = 0.0) -> Check:
    """Check that one method is better than another at every epsilon, by some lead."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        better, worse, total = 0, 0, 0
        largest = 0.0
        for name in experiments:
            for epsilon in results.epsilons(name, calibration):
                difference = results.difference(
                    name, calibration, epsilon, of=of, to=to
                )
                better += difference.is_better and difference.mean >= by
                worse += difference.is_worse
                total += 1
                if abs(difference.mean) > abs(largest):
                    largest = difference.mean
        unit = _unit(results, experiments[0])
        return Outcome(
            _verdict(better, total),
            f"{of} better {f'by {unit(by)} or more ' if by else ''}at {better} of "
            f"{total} points, worse at {worse}; largest difference {unit(largest)}",
        )

    return check


def stays_close(experiments: Sequence[str], of: str, to: str) -> Check:
    """Check that two methods differ little at every epsilon."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        gaps = {
            (name, epsilon): results.difference(
                name, calibration, epsilon, of=to, to=of
            ).mean
            for name in experiments
            for epsilon in results.epsilons(name, calibration)
        }
        close = [key for key, gap in gaps.items() if gap <= CLOSE]
        unit = _unit(results, experiments[0])
        far = max(gaps, key=lambda key: gaps[key])
        return Outcome(
            _verdict(len(close), len(gaps)),
            f"within {unit(CLOSE)} of {to} at {len(close)} of {len(gaps)} points; "
            f"most behind by {unit(gaps[far])} at epsilon {far[1]:g}",
        )

    return check


def outranks_partial(experiment: str, methods: Sequence[str]) -> Check:
    """Check that methods beat the model without sensitive features everywhere."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        partial = results.plain(experiment, calibration, "partial")
        won, total = 0, 0
        for method in methods:
            for epsilon in results.epsilons(experiment, calibration):
                scores = results.scores(experiment, calibration, method, epsilon)
                won += float(scores.mean()) - partial > 2 * standard_error(scores)
                total += 1
        return Outcome(
            _verdict(won, total),
            f"better at {won} of {total} points; partial scores {partial:.4f}",
        )

    return check


def grows_with_privacy(experiment: str) -> Check:
    """Check that the lead of corr over standard is largest at the smallest epsilon."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        epsilons = results.epsilons(experiment, calibration)
        leads = [
            results.difference(
                experiment, calibration, epsilon, of="corr", to="standard"
            ).mean
            for epsilon in epsilons
        ]
        falls = sum(a >= b for a, b in pairwise(leads))
        unit = _unit(results, experiment)
        return Outcome(
            _verdict(falls, len(leads) - 1),
            f"lead {unit(leads[0])} at epsilon {epsilons[0]:g}, {unit(leads[-1])} at "
            f"{epsilons[-1]:g}",
        )

    return check


def gap_below(experiment: str, limit: float, window: tuple[float, float]) -> Check:
    """Check that corr loses less than a limit within a window of epsilon."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        baseline = results.baseline(experiment, calibration)
        inside = [
            epsilon
            for epsilon in results.epsilons(experiment, calibration)
            if window[0] < epsilon < window[1]
        ]
        if not inside:
            return Outcome(Verdict.FAILS, "no epsilon of the window was run")
        gaps = [
            baseline
            - float(results.scores(experiment, calibration, "corr", epsilon).mean())
            for epsilon in inside
        ]
        text = ", ".join(
            f"{100 * gap:.2f} points at {epsilon:g}"
            for epsilon, gap in zip(inside, gaps, strict=True)
        )
        return Outcome(_verdict(sum(g < limit for g in gaps), len(gaps)), text)

    return check


def baseline_is(experiment: str, printed: float) -> Check:
    """Check that training without noise scores what the paper prints."""

    def check(results: Results, calibration: Calibration) -> Outcome:
        found = results.plain(experiment, calibration)
        near = abs(found - printed) <= _BASELINE_TOLERANCE
        return Outcome(
            Verdict.HOLDS if near else Verdict.FAILS,
            f"{100 * found:.1f} % here, {100 * printed:.0f} % printed",
        )

    return check


def outranks_at_equal_proof(experiments: Sequence[str]) -> Check:
    """Check that corr beats standard where both prove the same epsilon.

    The score of standard is interpolated in the logarithm of its provable epsilon, that
    of linear regression by the logarithm of its gap; points of corr outside its range
    are left out.
    """

    def check(results: Results, calibration: Calibration) -> Outcome:
        better, total, leads = 0, 0, []
        for name in experiments:
            epsilons = results.epsilons(name, calibration)
            proved, _ = _proved_curve(results, name, calibration)
            for epsilon in epsilons:
                cell = results.cell(name, calibration, "corr", epsilon)
                proof = cell.provable_epsilon
                if not proved.size or not proved[0] <= proof <= proved[-1]:
                    continue
                scores = np.array(cell.scores)
                rival = _interpolated(results, name, calibration, proof)
                lead = float(scores.mean()) - rival
                error = deviation(scores) * math.sqrt(2.0 / scores.size)
                better += lead > 2 * error
                total += 1
                leads.append(lead)
        if not total:
            return Outcome(Verdict.FAILS, "nothing is proved, so nothing to compare")
        unit = _unit(results, experiments[0])
        return Outcome(
            _verdict(better, total),
            f"corr better at {better} of {total} points; lead between "
            f"{unit(min(leads))} and {unit(max(leads))}",
        )

    return check


def _interpolated(
    results: Results, name: str, calibration: Calibration, proof: float
) -> float:
    """Return the score that standard would have where it proves an epsilon."""
    proved, means = _proved_curve(results, name, calibration)
    if results.experiments[name].model is not Model.LINEAR:
        return float(np.interp(math.log(proof), np.log(proved), means))
    best = results.baseline(name, calibration)
    gap = np.interp(math.log(proof), np.log(proved), np.log(best - means))
    return best - math.exp(float(gap))


def _proved_curve(
    results: Results, name: str, calibration: Calibration
) -> tuple[FloatArray, FloatArray]:
    """Return what standard proves at each of its points, and its mean scores."""
    cells = [
        results.cell(name, calibration, "standard", epsilon)
        for epsilon in results.epsilons(name, calibration)
    ]
    finite = [cell for cell in cells if math.isfinite(cell.provable_epsilon)]
    proved = np.array([cell.provable_epsilon for cell in finite])
    return proved, np.array([float(np.mean(cell.scores)) for cell in finite])


def _verdict(won: int, total: int) -> Verdict:
    if won == total:
        return Verdict.HOLDS
    return Verdict.IN_PART if won else Verdict.FAILS


def _unit(results: Results, experiment: str) -> Callable[[float], str]:
    if results.experiments[experiment].metric == "accuracy":
        return lambda value: f"{100 * value:.2f} points"
    return lambda value: f"{value:.4f}"


def available(results: Results, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose experiments were run."""
    return [f for f in findings if all(e in results.experiments for e in f.experiments)]
