r"""What an attacker gains from a release, read off its trade-off curve.

Theory: ``docs/theory/risk.md``.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from corrdp._json import encode_number
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_real
from corrdp.accounting._composition import compose_curve, gaussian_part
from corrdp.accounting._events import PrivacyEvent

FALSE_POSITIVE_RATES = (0.01, 0.001)
PRIORS = (0.01, 0.1, 0.5)
# Below this rate of false positives (or misses) a curve that is not Gaussian is not
# compared with one: far in its tail a sampled step is an unsampled one.
SMALLEST_RATE = 1e-4
_RATES = 8_001
_LARGEST_EXPONENT = 700.0  # whose exponential is a number


@dataclass(frozen=True)
class Risk:
    """Upper bounds on what a release adds to an attacker who knows all the rest.

    Parameters
    ----------
    mu : float
        The Gaussian curve that is no harder to attack: the release tells neighbors
        apart at most as well as N(0, 1) and N(mu, 1) are told apart.
    mu_is_exact : bool
        True if the whole curve is the Gaussian one; otherwise `mu` bounds it where
        false positives and misses are both at least 1e-4.
    advantage : float
        Largest difference of true and false positive rate of any attack.
    true_positive_rate : mapping of float to float
        Largest true positive rate by false positive rate: 1 % and 0.1 %.
    guess : mapping of float to float
        Largest probability of naming the secret, by what it was before the release:
        1 %, 10 % and 50 %.

    Guarantee
    ---------
    Proved in ``docs/theory/risk.md`` for the composition of the events. Not covered:
    an attacker who does not know the rest of the record, and what columns that did
    not change reveal by correlation.
    """

    mu: float
    mu_is_exact: bool
    advantage: float
    true_positive_rate: Mapping[float, float]
    guess: Mapping[float, float]

    def __post_init__(self) -> None:
        for name in ("true_positive_rate", "guess"):
            proxy = MappingProxyType(dict(getattr(self, name)))
            object.__setattr__(self, name, proxy)

    def __reduce__(self) -> tuple[type["Risk"], tuple[Any, ...]]:
        curves = (dict(self.true_positive_rate), dict(self.guess))
        return type(self), (self.mu, self.mu_is_exact, self.advantage, *curves)

    @property
    def even_odds(self) -> float:
        """Largest probability of telling which of two equally likely values it is."""
        return 0.5 * (1.0 + self.advantage)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "mu": encode_number(self.mu),
            "mu_is_exact": self.mu_is_exact,
            "advantage": self.advantage,
            "even_odds": self.even_odds,
            "true_positive_rate": {
                f"{rate:g}": value for rate, value in self.true_positive_rate.items()
            },
            "guess": {f"{prior:g}": value for prior, value in self.guess.items()},
        }


NO_PROTECTION = Risk(
    math.inf,
    True,
    1.0,
    dict.fromkeys(FALSE_POSITIVE_RATES, 1.0),
    dict.fromkeys(PRIORS, 1.0),
)


def attack_risk(events: Iterable[PrivacyEvent]) -> Risk:
    """Return what all `events` together let an attacker gain, at most.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        Releases on the same data, all fixed before the first of them.

    Guarantee
    ---------
    Exact for Gaussian events; otherwise read from a curve that bounds the composition
    from above (``docs/theory/risk.md``).

    Examples
    --------
    >>> from corrdp.accounting import GaussianEvent
    >>> risk = attack_risk([GaussianEvent(mu=0.5)])
    >>> round(risk.advantage, 4), round(risk.true_positive_rate[0.01], 4)
    (0.1974, 0.0339)
    """
    return _attack_risk(tuple(events))


def true_positive_rate(
    events: Iterable[PrivacyEvent], *, false_positive_rate: float
) -> float:
    """Return the largest rate at which any attack finds a changed record.

    Parameters
    ----------
    events : iterable of PrivacyEvent
        Releases on the same data, all fixed before the first of them.
    false_positive_rate : float
        In [0, 1]. The same number bounds a guess: a secret that is named correctly
        with this probability beforehand.

    Guarantee
    ---------
    ``1 - f(false_positive_rate)`` with the trade-off curve ``f`` of the composition,
    or above it (``docs/theory/risk.md``).

    Examples
    --------
    >>> from corrdp.accounting import GaussianEvent
    >>> round(true_positive_rate([GaussianEvent(1.0)], false_positive_rate=0.5), 4)
    0.8413
    """
    rate = check_real("false_positive_rate", false_positive_rate, lower=0.0, upper=1.0)
    return float(_found(tuple(events), np.array([rate]))[0])


@lru_cache(maxsize=512)
def _attack_risk(events: tuple[PrivacyEvent, ...]) -> Risk:
    rates = np.array([*FALSE_POSITIVE_RATES, *PRIORS])
    found = _found(events, rates).tolist()
    mu, is_gaussian = gaussian_part(events)
    if is_gaussian:
        advantage = math.erf(mu / math.sqrt(8.0))
    else:
        advantage = float(_curve(events)[1][0])
        mu = _covering_mu(events)
    split = len(FALSE_POSITIVE_RATES)
    return Risk(
        mu=mu,
        mu_is_exact=is_gaussian,
        advantage=min(advantage, 1.0),
        true_positive_rate=dict(zip(FALSE_POSITIVE_RATES, found[:split], strict=True)),
        guess=dict(zip(PRIORS, found[split:], strict=True)),
    )


_curve = lru_cache(maxsize=512)(compose_curve)  # composing takes seconds


def _found(events: tuple[PrivacyEvent, ...], rates: FloatArray) -> FloatArray:
    """Return 1 - f at some rates, or more."""
    mu, is_gaussian = gaussian_part(events)
    if is_gaussian:
        return np.asarray(ndtr(ndtri(rates) + mu))
    epsilons, deltas = _curve(events)
    # Equation (2) of the note: every point of the curve gives two lines above 1 - f.
    found = np.ones_like(rates)
    for epsilon, delta in zip(epsilons.tolist(), deltas.tolist(), strict=True):
        steep = delta + rates * math.exp(min(epsilon, _LARGEST_EXPONENT))
        if epsilon > _LARGEST_EXPONENT:  # a steeper line than numbers can tell
            steep = np.where(rates > 0.0, 1.0, delta)
        flat = 1.0 - math.exp(-epsilon) * (1.0 - delta - rates)
        np.minimum(found, np.minimum(steep, flat), out=found)
    return found


def _covering_mu(events: tuple[PrivacyEvent, ...]) -> float:
    """Return a mu whose Gaussian curve lies above 1 - f between `SMALLEST_RATE`s."""
    farthest = float(ndtri(SMALLEST_RATE))
    rates = ndtr(np.linspace(farthest, -farthest, _RATES))
    missed = np.maximum(1.0 - _found(events, rates), SMALLEST_RATE)
    # Between two rates 1 - f is at most its value at the larger one, and the Gaussian
    # curve at least its value at the smaller one.
    gaps = ndtri(1.0 - missed[1:]) - ndtri(rates[:-1])
    return max(float(gaps.max()), 0.0)
