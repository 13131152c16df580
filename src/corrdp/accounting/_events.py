"""What was released, in numbers: the events that can be priced.

An event describes and never prices. The meaning of a kind that has been released is
frozen; a new meaning gets a new kind.
"""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, Literal, TypeAlias, get_args

from corrdp._typing import JSONObject
from corrdp._validate import check_choice, check_count, check_delta, check_real
from corrdp.accounting._sampled import STEP_CHECKS
from corrdp.accounting._selection import check_mean_runs
from corrdp.exceptions import UnsupportedEventError

Sampling: TypeAlias = Literal["fixed_size", "poisson"]


@dataclass(frozen=True)
class PrivacyEvent(ABC):
    """A release whose parameters were fixed before it began."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for field in fields(self):
            if check := _CHECKS.get(field.name):
                checked = check(field.name, getattr(self, field.name))
                object.__setattr__(self, field.name, checked)

    def to_json(self) -> JSONObject:
        """Return the event as an object of JSON types, with its kind."""
        names = (field.name for field in fields(type(self)))
        return {"kind": self.kind} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class GaussianEvent(PrivacyEvent):
    """Gaussian noise: `count` releases of mu-Gaussian DP each.

    Parameters
    ----------
    mu : float
        How far one release moves, in units of its noise.
    count : int
        Number of such releases.
    """

    kind: ClassVar[str] = "gaussian"
    mu: float
    count: int = 1


@dataclass(frozen=True)
class SampledGaussianEvent(PrivacyEvent):
    """Gaussian noise on sampled records: `n_steps` steps of one kind.

    Parameters
    ----------
    rate : float
        Probability that a record takes part in a step.
    contribution : float
        Largest norm of one record's contribution, in units of the noise.
    change : float
        Largest norm by which the contribution changes, in units of the noise.
    n_steps : int
        Number of steps.
    sampling : {"poisson", "fixed_size"}
        Each record by its own coin, or a batch of fixed size without replacement.
    """

    kind: ClassVar[str] = "sampled_gaussian"
    rate: float
    contribution: float
    change: float
    n_steps: int
    sampling: str = "poisson"

    @property
    def count(self) -> int:
        """Number of steps."""
        return self.n_steps


@dataclass(frozen=True)
class LaplaceEvent(PrivacyEvent):
    """Laplace noise: `count` releases.

    Parameters
    ----------
    epsilon : float
        How far one release moves in the 1-norm, in units of its noise scale.
    count : int
        Number of such releases.
    """

    kind: ClassVar[str] = "laplace"
    epsilon: float
    count: int = 1


@dataclass(frozen=True)
class SelectedGaussianEvent(PrivacyEvent):
    """The best of a random number of runs of mu-Gaussian DP each, and nothing else.

    Parameters
    ----------
    mu : float
        How far all that one run computes moves, its score included, in units of the
        noise.
    mean_runs : float
        Mean of the number of runs, which is geometric on 1, 2, ..., independent of the
        rows and not told.

    Guarantee
    ---------
    Price and proof: ``docs/theory/selection.md``.
    """

    kind: ClassVar[str] = "selected_gaussian"
    mu: float
    mean_runs: float


@dataclass(frozen=True)
class ApproximateEvent(PrivacyEvent):
    """Any mechanism known only to be (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    epsilon : float
        Non-negative.
    delta : float
        In [0, 1).
    count : int
        Number of such releases.
    """

    kind: ClassVar[str] = "approximate"
    epsilon: float
    delta: float
    count: int = 1


_NOISE_FIRST = "A release without noise cannot be priced; add noise first."
_price = partial(check_real, lower=0.0, remedy=_NOISE_FIRST)
# What a field of an event may be, in every kind that has it.
_CHECKS: dict[str, Callable[[str, Any], object]] = {
    **STEP_CHECKS,
    "mu": _price,
    "epsilon": _price,
    "delta": lambda _, delta: check_delta(delta, allow_zero=True),
    "count": check_count,
    "n_steps": check_count,
    "sampling": partial(
        check_choice,
        choices=get_args(Sampling),
        remedy="Prefer 'poisson': it costs less.",
    ),
    "mean_runs": lambda _, mean_runs: check_mean_runs(mean_runs),
}
_KINDS: dict[str, type[Any]] = {
    event.kind: event
    for event in (
        ApproximateEvent,
        GaussianEvent,
        LaplaceEvent,
        SampledGaussianEvent,
        SelectedGaussianEvent,
    )
}


def event_from_json(data: object) -> PrivacyEvent:
    """Return the event that `PrivacyEvent.to_json` described.

    Raises
    ------
    UnsupportedEventError
        If the kind, or a field of it, is not known to this version.

    Examples
    --------
    >>> event_from_json({"kind": "gaussian", "mu": 0.5, "count": 2})
    GaussianEvent(mu=0.5, count=2)
    """
    if not isinstance(data, Mapping) or "kind" not in data:
        raise UnsupportedEventError(
            "an event must be a JSON object with a field 'kind', got "
            f"{type(data).__name__} without one. Pass what to_json() returned."
        )
    kind = data["kind"]
    event_type = _KINDS.get(kind) if isinstance(kind, str) else None
    if event_type is None:
        raise UnsupportedEventError(
            f"kind must be one of {', '.join(_KINDS)}, got kind={kind!r}. "
            "Use the version of corrdp that wrote it, or charge it by hand as an "
            "'approximate' event."
        )
    known = {field.name for field in fields(event_type)}
    given = set(data) - {"kind"}
    if given != known:
        raise UnsupportedEventError(
            f"an event of kind {kind!r} has the fields {sorted(known)}, got "
            f"{sorted(map(str, given))}. Pass what to_json() returned."
        )
    event: PrivacyEvent = event_type(**{name: data[name] for name in known})
    return event
