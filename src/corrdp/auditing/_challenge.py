"""Challenges: two neighbors, a mechanism to run on both, and what it claims.

Searching for neighbors and running on them share a time limit.
"""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing.statistics import (
    Attack,
    Claim,
    FittedScore,
    LikelihoodAttack,
    LinearAttack,
)
from corrdp.exceptions import CorrDPError
from corrdp.policy import NeighborClass

Data = TypeVar("Data")

LEAST_RUNS = 40  # that can tell something
_FIRST_RUNS = 200  # that tell whether noise is missing, before anybody asks for time
_SOON = 1e-9


@dataclass(frozen=True, eq=False)
class Challenge(Generic[Data]):
    """One pair of neighbors and everything needed to attack it.

    Parameters
    ----------
    target : str
        The mechanism and what the adversary sees, for the report.
    class_name : str
        The neighbor class that the pair belongs to.
    claim : Claim
        What the mechanism states for the class.
    first, second : data
        Two neighbors of the class, in whatever form `sample` takes.
    sample : callable
        ``sample(data, n_runs, rng)`` runs the mechanism independently and returns its
        outputs, one row per run.
    attacks : tuple of Attack
        Tried on the first part of the runs; the best one is used on the rest.
    n_runs : int
        Runs on each neighbor, unless the audit says otherwise.
    batch : int
        Most runs per call of `sample`; time limits are checked between calls.
    is_slow : bool
        Whether even the fewest runs that can tell something take long, so that the
        challenge is left out once time is up.
    n_records : int
        In how many records the two differ, each as the class allows: so many neighbors
        on the way from the first to the second. More than one for Gaussian claims
        alone, of which so many add up to a multiple.

    Examples
    --------
    >>> def noisy_count(data, n_runs, rng):
    ...     return data + rng.normal(0.0, 2.0, (n_runs, 1))
    >>> claim = Claim.gaussian(0.5, delta=1e-6)
    >>> Challenge("count", "sensitive", claim, 3.0, 4.0, noisy_count).batch
    4096
    """

    target: str
    class_name: str
    claim: Claim
    first: Data
    second: Data
    sample: Callable[[Data, int, np.random.Generator], FloatArray]
    attacks: tuple[Attack, ...] = (LinearAttack(),)
    n_runs: int = 20_000
    batch: int = 4096
    is_slow: bool = False
    n_records: int = 1

    def __post_init__(self) -> None:
        if self.n_records > 1 and self.claim.mu is None:
            raise CorrDPError(
                f"n_records={self.n_records} needs a Gaussian claim: of others it is "
                "not known what they say of several records. Change one."
            )


def replayed(
    target: str,
    classes: Iterable[NeighborClass],
    claim_of: Callable[[str], Claim],
    pair_of: Callable[[NeighborClass, int], tuple[Data, Data]],
    sample: Callable[[Data, int, np.random.Generator], FloatArray],
    *,
    most_records: int,
    score: Callable[[Data, Data], FittedScore] | None = None,
    **settings: Any,
) -> tuple[Challenge[Data], ...]:
    """Challenge one release, replayed on two tables of every class.

    `claim_of` says what is stated for a class, `pair_of` makes two tables that differ
    in so many records of it, no more than `most_records`, and `score` the likelihood
    ratio of the two, if it is known. Settings are those of `Challenge`.
    """
    challenges = []
    for neighbor in classes:
        claim = claim_of(neighbor.name)
        n_records = claim.n_records(most_records)
        first, second = pair_of(neighbor, n_records)
        attacks: tuple[Attack, ...] = (LinearAttack(),)
        if score is not None:
            attacks = (LikelihoodAttack(score(first, second)), *attacks)
        challenges.append(
            Challenge(
                target,
                neighbor.name,
                claim,
                first,
                second,
                sample,
                attacks,
                n_records=n_records,
                **settings,
            )
        )
    return tuple(challenges)


def as_rows(outputs: Any, n_runs: int) -> FloatArray:
    """Return outputs as a matrix, one row per run, or raise.

    Guarantee
    ---------
    Rows are as many as runs: bounds count them as independent. None of their values is
    beyond comparison: scores of NaN exceed no threshold, on either neighbor, and an
    output that gives the record away would pass for one that tells nothing
    (`docs/theory/audit.md`).
    """
    rows = np.asarray(outputs, dtype=np.float64)
    if rows.shape[:1] != (n_runs,):
        raise CorrDPError(
            f"the mechanism was run {n_runs} times and returned outputs of shape "
            f"{rows.shape}. Return one row per run."
        )
    if not np.isfinite(rows).all():
        raise CorrDPError(
            "the mechanism returned values that are not finite, which attacks cannot "
            "compare. Return numbers, for example 0 and a column that says where a "
            "value is missing."
        )
    return rows.reshape(n_runs, -1)


class Deadline:
    """A moment so many seconds from now, after which no further work begins.

    None for no limit; `whole` is the deadline that this one is a share of.
    """

    def __init__(
        self, seconds: float | None = None, whole: "Deadline | None" = None
    ) -> None:
        self._whole = whole
        self._begin = time.monotonic()
        self._end = math.inf if seconds is None else self._begin + seconds
        self.has_cut = False

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begin

    @property
    def left(self) -> float:
        """Seconds to go; infinite without a limit."""
        return max(0.0, self._end - time.monotonic())

    def is_over(self) -> bool:
        """Return whether to stop; whoever asks and is told so has been cut short."""
        is_late = time.monotonic() >= self._end
        if is_late:
            self._mark()
        return is_late

    def fitting(self, done: int, most: int) -> int:
        """Return how many runs the next call may make, if so many were made by now.

        All at once without a limit; otherwise what fits, but no more than were done
        before, so that one call is never much longer than all others together.
        """
        if math.isinf(self._end):
            return most
        fits = done * self.left / max(self.elapsed, _SOON)
        return min(most, max(_FIRST_RUNS, int(min(fits, done))))

    def share(self, part: float) -> "Deadline":
        """Return a deadline after a part of what is left."""
        seconds = None if math.isinf(self._end) else part * self.left
        return Deadline(seconds, self)

    def _mark(self) -> None:
        self.has_cut = True
        if self._whole is not None:
            self._whole._mark()  # noqa: SLF001
