"""The audit: run on both neighbors, choose the test on one half, prove on the other."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp._validate import check_count, check_real
from corrdp.auditing._challenge import LEAST_RUNS, Challenge, Deadline, as_rows
from corrdp.auditing._challenges_from import Neighbors, challenges_from
from corrdp.auditing._report import AuditReport, AuditResult
from corrdp.auditing.statistics import (
    Claim,
    EventBounds,
    FittedScore,
    event_bounds,
    roc_points,
)
from corrdp.auditing.statistics._attacks import check_scores
from corrdp.exceptions import CorrDPError
from corrdp.synthesis import Synthesizer

_THRESHOLDS = 60  # tried on the first half of the runs
_SYNTHESIS_SECONDS = 300.0

Progress = Callable[[str, float], None]


def audit(
    subject: Any,
    *,
    n_rows: int | None = None,
    neighbors: Neighbors | None = None,
    claims: Mapping[str, Claim] | None = None,
    n_runs: int | None = None,
    confidence: float = 0.99,
    n_comparisons: int | None = None,
    time_limit: float | None = None,
    random_state: int | None = None,
    progress: Progress | None = None,
) -> AuditReport:
    """Attack a mechanism class by class and report what was proved against its claims.

    Parameters
    ----------
    subject : estimator, Synthesizer, QueryPlan, PrivateTraining, or Challenge(s)
        An estimator or synthesizer of the library, fitted or not, or a plan of queries,
        of bounds or of an evaluation: the code that
        releases is attacked on records of the declared domain, no row is read. What
        `corrdp.torch.make_private` returned, with two steps or a few: its loop is run
        again and again on made-up rows, and it is spent afterwards. A callable
        ``release(data, n_runs, rng)`` that returns one output per row, with `neighbors`
        and `claims`. Or challenges: pairs of neighbors with a mechanism and its claim.
    n_rows : int, optional
        Rows that an estimator or synthesizer is planned for: by default those that it
        was fitted on, 1,000 if it was not. Fewer rows can have another plan.
    neighbors : mapping of str to pair, optional
        For a callable: two neighbors per class, in whatever form it takes.
    claims : mapping of str to Claim, optional
        For a callable: what it states per class.
    n_runs : int, optional
        Runs on each neighbor of each challenge; as each challenge says by default.
    confidence : float
        Probability with which all lower bounds hold at once.
    n_comparisons : int, optional
        Number of challenges among which the error is shared, if this is one of several
        audits that are read together; the number of challenges by default.
    time_limit : float, optional
        Seconds after which no further runs begin; the search for neighbors may use
        half of them, each challenge its share of the rest. Every challenge makes the
        fewest runs that can tell something, but slow ones are left out once time is
        up, which the report says. None for no limit, but 300 for a synthesizer, whose
        runs draw every table.
    random_state : int, optional
        Makes the audit replayable.
    progress : callable, optional
        Called with what is running and the fraction done.

    Returns
    -------
    report : AuditReport

    Guarantee
    ---------
    If all claims are true, no verdict is ``violated`` with probability `confidence`,
    whatever the mechanisms are: attack and threshold are chosen on runs that the bounds
    do not see, binomial bounds are exact, and their errors are added up over
    challenges. A time limit stops search and runs by the clock alone. Proof:
    `docs/theory/audit.md`.

    Examples
    --------
    >>> def noisy_count(data, n_runs, rng):
    ...     return data + rng.normal(0.0, 1.0, (n_runs, 1))  # half the noise
    >>> claim = Claim.gaussian(0.5, delta=1e-6)
    >>> challenge = Challenge("count", "sensitive", claim, 3.0, 4.0, noisy_count)
    >>> audit([challenge], random_state=0).violations[0].class_name
    'sensitive'
    """
    check_real(
        "confidence", confidence, lower=0.0, upper=1.0, open_lower=True, open_upper=True
    )
    if time_limit is not None:
        check_real("time_limit", time_limit, lower=0.0, allow_infinite=True)
    elif isinstance(subject, Synthesizer):
        time_limit = _SYNTHESIS_SECONDS
    whole = Deadline(time_limit)
    search = whole.share(0.5)
    if progress is not None and not isinstance(subject, Sequence):
        progress("searching for neighbors", 0.0)
    challenges = challenges_from(
        subject,
        n_rows=None if n_rows is None else check_count("n_rows", n_rows),
        neighbors=neighbors,
        claims=claims,
        random_state=random_state,
        deadline=search,
    )
    if not challenges:
        raise CorrDPError("challenges is empty. Pass at least one.")
    shared = len(challenges)
    if n_comparisons is not None:
        shared = check_count("n_comparisons", n_comparisons)
    if shared < len(challenges):
        raise CorrDPError(
            f"n_comparisons={shared} is below the number of challenges, "
            f"{len(challenges)}. Count them all."
        )
    failure = (1.0 - confidence) / shared
    rng = noise_generator(random_state)
    results: list[AuditResult] = []
    missed = 0.0
    cut = ["search"] if search.has_cut else []
    left_out: list[Challenge[Any]] = []
    for index, challenge in enumerate(challenges):
        if challenge.is_slow and results and whole.is_over():
            left_out.append(challenge)
            continue
        if progress is not None:
            label = f"{challenge.target}, {challenge.class_name}"
            progress(label, index / len(challenges))
        deadline = whole.share(1.0 / (len(challenges) - index))
        wanted = challenge.n_runs if n_runs is None else n_runs
        check_count("n_runs", wanted, lower=LEAST_RUNS)
        begun = whole.elapsed
        first, second = _run(challenge, wanted, rng, deadline)
        missed += (whole.elapsed - begun) * (wanted / len(first) - 1.0)
        if len(first) < wanted and "runs" not in cut:
            cut.append("runs")
        results.append(_result(challenge, first, second, failure))
    if left_out:
        cut.append("classes")
        missed += (whole.elapsed + missed) * len(left_out) / len(results)
    if progress is not None:
        progress("done", 1.0)
    return AuditReport(
        tuple(results),
        confidence,
        whole.elapsed,
        cut=tuple(cut),
        certificate_digest=_certificate_digest(subject, n_rows),
        wanted_seconds=whole.elapsed + missed if missed else None,
        not_attacked=_names(left_out, {result.class_name for result in results}),
    )


def _names(left_out: Sequence[Challenge[Any]], attacked: set[str]) -> tuple[str, ...]:
    """Return the classes without an attack; by what, if another one was made."""
    return tuple(
        f"{one.class_name} ({one.target})"
        if one.class_name in attacked
        else one.class_name
        for one in left_out
    )


def _certificate_digest(subject: Any, n_rows: int | None) -> str | None:
    """Return the digest of the certificate of a fit; of the same number of rows."""
    certificate = getattr(subject, "certificate_", None)
    if certificate is None or n_rows not in (None, subject.planned_.get("n_rows")):
        return None
    return str(certificate.to_dict()["digest"])


def _run(
    challenge: Challenge[Any],
    n_runs: int,
    rng: np.random.Generator,
    deadline: Deadline,
) -> tuple[FloatArray, FloatArray]:
    """Return outputs on both neighbors, equally many, until runs or time are up."""
    first: list[FloatArray] = []
    second: list[FloatArray] = []
    done = 0
    while done < n_runs:
        if done >= LEAST_RUNS and deadline.is_over():
            break
        most = min(challenge.batch, n_runs - done)
        size = deadline.fitting(done, most)
        first.append(as_rows(challenge.sample(challenge.first, size, rng), size))
        second.append(as_rows(challenge.sample(challenge.second, size, rng), size))
        done += size
    return np.vstack(first), np.vstack(second)


def _result(
    challenge: Challenge[Any],
    first: FloatArray,
    second: FloatArray,
    failure_probability: float,
) -> AuditResult:
    """Choose attack and thresholds on the first half, bound on the second."""
    claim = challenge.claim
    half = len(first) // 2
    criteria = _criteria(claim)
    each = failure_probability / len(criteria)
    bounded = partial(
        event_bounds, failure_probability=each, n_records=challenge.n_records
    )
    name, score, thresholds = _chosen(
        challenge, first[:half], second[:half], criteria, bounded
    )
    rare, likely = _scores(name, score, first[half:], second[half:])
    found = [bounded(rare, likely, threshold) for threshold in thresholds]
    return AuditResult.of(
        claim,
        is_broken=any(claim.is_broken_by(bounds) for bounds in found),
        epsilon_lower=max(claim.epsilon_lower(bounds) for bounds in found),
        mu_lower=(
            None if claim.mu is None else max(bounds.mu_lower() for bounds in found)
        ),
        target=challenge.target,
        class_name=challenge.class_name,
        attack=name,
        n_runs=len(first),
        n_records=challenge.n_records,
        roc=roc_points(rare, likely),
    )


Criterion = Callable[[EventBounds], float]


def _criteria(claim: Claim) -> tuple[Criterion, ...]:
    """Return what thresholds are chosen by: one test for each."""
    if claim.events is None:
        return (claim.epsilon_lower,)
    if claim.mu is not None:
        return (EventBounds.mu_lower,)
    return (claim.excess, claim.epsilon_lower)


def _chosen(
    challenge: Challenge[Any],
    first: FloatArray,
    second: FloatArray,
    criteria: tuple[Criterion, ...],
    bounded: Callable[[FloatArray, FloatArray, float], EventBounds],
) -> tuple[str, FittedScore, tuple[float, ...]]:
    """Return the attack that promises most, its score and one threshold per criterion.

    Attacks are fitted on one part and compared on the other.
    """
    quarter = len(first) // 2
    best: tuple[float, str, FittedScore, tuple[float, ...]] | None = None
    for attack in challenge.attacks:
        score = attack.fit(first[:quarter], second[:quarter])
        rare, likely = _scores(attack.name, score, first[quarter:], second[quarter:])
        levels = np.quantile(
            np.concatenate([rare, likely]), np.linspace(0.0, 1.0, _THRESHOLDS)
        )
        bounds = [bounded(rare, likely, float(level)) for level in levels]
        values = np.array([[rule(b) for b in bounds] for rule in criteria])
        promise = float(values[0].max())
        if best is None or promise > best[0]:
            picks = tuple(float(levels[_middle(row)]) for row in values)
            best = (promise, attack.name, score, picks)
    if best is None:
        raise CorrDPError(
            f"the challenge {challenge.target!r} has no attacks. Pass at least one."
        )
    return best[1:]


def _scores(
    name: str, score: FittedScore, *outputs: FloatArray
) -> tuple[FloatArray, ...]:
    owner = f"the attack {name!r}"
    return tuple(check_scores(owner, score(rows), len(rows)) for rows in outputs)


def _middle(values: FloatArray) -> int:
    """Return the middle of the largest values: where many tie, the ends are chance."""
    ties = np.flatnonzero(values == values.max())
    return int(ties[ties.size // 2])
