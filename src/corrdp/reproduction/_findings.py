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
from operator import itemgetter

import numpy as np

from corrdp._typing import FloatArray
from corrdp.certificate import Calibration
from corrdp.reproduction._experiments import CALIBRATIONS, Model
from corrdp.reproduction._results import Panel, Results, deviation, standard_error

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


Check = Callable[[Sequence[Panel]], Outcome]


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper and how it is checked."""

    quote: str
    experiments: tuple[str, ...]  # that must have been run
    rule: Check  # of their curves under one calibration
    reason: str = ""  # why it fails where it fails, as far as is known
    printed_only: bool = False  # is it about the paper's own noise alone?

    @property
    def calibrations(self) -> tuple[Calibration, ...]:
        """Whose curves it is checked on."""
        return (Calibration.THEOREM,) if self.printed_only else CALIBRATIONS

    def check(self, results: Results, calibration: Calibration) -> Outcome:
        """Return whether the sentence holds of the curves of one calibration."""
        return self.rule([results.panel(e, calibration) for e in self.experiments])


def outranks(of: str, to: str, *, by: float = 0.0) -> Check:
    """Check that one method is better than another at every epsilon, by some lead."""

    def check(panels: Sequence[Panel]) -> Outcome:
        found = [
            panel.difference(epsilon, of=of, to=to)
            for panel in panels
            for epsilon in panel.epsilons
        ]
        better = sum(one.is_better and one.mean >= by for one in found)
        worse = sum(one.is_worse for one in found)
        largest = max((0.0, *(one.mean for one in found)), key=abs)
        told = panels[0].told
        return Outcome(
            _verdict(better, len(found)),
            f"{of} better {f'by {told(by)} or more ' if by else ''}at {better} of "
            f"{len(found)} points, worse at {worse}; largest difference "
            f"{told(largest)}",
        )

    return check


def stays_close(of: str, to: str) -> Check:
    """Check that two methods differ little at every epsilon."""

    def check(panels: Sequence[Panel]) -> Outcome:
        gaps = [
            (panel.difference(epsilon, of=to, to=of).mean, epsilon)
            for panel in panels
            for epsilon in panel.epsilons
        ]
        close = sum(gap <= CLOSE for gap, _ in gaps)
        far, epsilon = max(gaps, key=itemgetter(0))
        told = panels[0].told
        return Outcome(
            _verdict(close, len(gaps)),
            f"within {told(CLOSE)} of {to} at {close} of {len(gaps)} points; "
            f"most behind by {told(far)} at epsilon {epsilon:g}",
        )

    return check


def outranks_partial(*methods: str) -> Check:
    """Check that methods beat the model without sensitive features everywhere."""

    def check(panels: Sequence[Panel]) -> Outcome:
        (panel,) = panels
        partial = panel.plain("partial")
        points = [panel.scores(m, e) for m in methods for e in panel.epsilons]
        won = sum(
            float(scores.mean()) - partial > 2 * standard_error(scores)
            for scores in points
        )
        return Outcome(
            _verdict(won, len(points)),
            f"better at {won} of {len(points)} points; partial scores {partial:.4f}",
        )

    return check


def grows_with_privacy(panels: Sequence[Panel]) -> Outcome:
    """Check that the lead of corr over standard is largest at the smallest epsilon."""
    (panel,) = panels
    epsilons = panel.epsilons
    leads = [panel.difference(e, of="corr", to="standard").mean for e in epsilons]
    falls = sum(a >= b for a, b in pairwise(leads))
    return Outcome(
        _verdict(falls, len(leads) - 1),
        f"lead {panel.told(leads[0])} at epsilon {epsilons[0]:g}, "
        f"{panel.told(leads[-1])} at {epsilons[-1]:g}",
    )


def gap_below(limit: float, window: tuple[float, float]) -> Check:
    """Check that corr loses less than a limit within a window of epsilon."""

    def check(panels: Sequence[Panel]) -> Outcome:
        (panel,) = panels
        gaps = {
            epsilon: panel.baseline - float(panel.scores("corr", epsilon).mean())
            for epsilon in panel.epsilons
            if window[0] < epsilon < window[1]
        }
        if not gaps:
            return Outcome(Verdict.FAILS, "no epsilon of the window was run")
        return Outcome(
            _verdict(sum(gap < limit for gap in gaps.values()), len(gaps)),
            ", ".join(f"{100 * gap:.2f} points at {e:g}" for e, gap in gaps.items()),
        )

    return check


def baseline_is(printed: float) -> Check:
    """Check that training without noise scores what the paper prints."""

    def check(panels: Sequence[Panel]) -> Outcome:
        (panel,) = panels
        found = panel.plain()
        near = abs(found - printed) <= _BASELINE_TOLERANCE
        return Outcome(
            Verdict.HOLDS if near else Verdict.FAILS,
            f"{100 * found:.1f} % here, {100 * printed:.0f} % printed",
        )

    return check


def outranks_at_equal_proof(panels: Sequence[Panel]) -> Outcome:
    """Check that corr beats standard where both prove the same epsilon.

    The score of standard is interpolated in the logarithm of its provable epsilon, that
    of linear regression by the logarithm of its gap; points of corr outside its range
    are left out.
    """
    better, leads = 0, []
    for panel in panels:
        proved, means = _proved_curve(panel)
        for epsilon in panel.epsilons:
            proof = panel.cell("corr", epsilon).provable_epsilon
            if not proved.size or not proved[0] <= proof <= proved[-1]:
                continue
            scores = panel.scores("corr", epsilon)
            lead = float(scores.mean()) - _interpolated(panel, proved, means, proof)
            better += lead > 2 * deviation(scores) * math.sqrt(2.0 / scores.size)
            leads.append(lead)
    if not leads:
        return Outcome(Verdict.FAILS, "nothing is proved, so nothing to compare")
    told = panels[0].told
    return Outcome(
        _verdict(better, len(leads)),
        f"corr better at {better} of {len(leads)} points; lead between "
        f"{told(min(leads))} and {told(max(leads))}",
    )


def _proved_curve(panel: Panel) -> tuple[FloatArray, FloatArray]:
    """Return what standard proves at each of its points, and its mean scores."""
    cells = [panel.cell("standard", epsilon) for epsilon in panel.epsilons]
    finite = [cell for cell in cells if math.isfinite(cell.provable_epsilon)]
    proved = np.array([cell.provable_epsilon for cell in finite])
    return proved, np.array([float(np.mean(cell.scores)) for cell in finite])


def _interpolated(
    panel: Panel, proved: FloatArray, means: FloatArray, proof: float
) -> float:
    """Return the score that standard would have where it proves an epsilon."""
    if panel.experiment.model is not Model.LINEAR:
        return float(np.interp(math.log(proof), np.log(proved), means))
    best = panel.baseline
    gap = np.interp(math.log(proof), np.log(proved), np.log(best - means))
    return best - math.exp(float(gap))


def _verdict(won: int, total: int) -> Verdict:
    if won == total:
        return Verdict.HOLDS
    return Verdict.IN_PART if won else Verdict.FAILS


def available(results: Results, findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings whose experiments were run."""
    return [f for f in findings if all(e in results.experiments for e in f.experiments)]
