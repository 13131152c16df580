"""Plans whose noise is given, and the epsilon that follows from it."""

import math

import numpy as np

from corrdp._validate import check_real
from corrdp.accounting import WHOLE_RECORD, NoisePlan, gaussian_epsilon, sampled_epsilon
from corrdp.certificate import Calibration
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.torch._layout import flat_layout
from corrdp.torch._plan_inputs import NetworkPlan, NetworkPlanInputs

_ROUND_OFF = 1e-6  # pricing rounds the last digits


def epsilon_of_noise(
    noise_multiplier: float,
    *,
    epsilon: float | None,
    delta: float,
    n_steps: int,
    rate: float | None,
    method: str,
) -> float:
    """Return the epsilon that flat clipping with so much noise keeps at `delta`.

    Parameters
    ----------
    noise_multiplier : float
        Standard deviation of the noise in units of the clipping norm.
    epsilon : float, optional
        Must not be given as well.
    delta : float
        Failure probability.
    n_steps : int
        Number of steps.
    rate : float, optional
        Poisson sampling rate.
    method : str
        Must be ``standard``: other methods have several noise scales.

    Guarantee
    ---------
    One record moves a sum by twice the clipping norm (`docs/theory/networks.md`,
    section 2), priced as `docs/theory/gaussian.md` and `docs/theory/sampling.md` say.
    """
    if epsilon is not None:
        raise BudgetError(
            f"both epsilon={epsilon!r} and noise_multiplier={noise_multiplier!r} are "
            "given, and one follows from the other. Give one."
        )
    if method != "standard":
        raise CorrDPError(
            f"noise_multiplier is for method='standard' and certified noise, which has "
            f"one scale, got {method!r}. Give epsilon instead."
        )
    noise = check_real("noise_multiplier", noise_multiplier, lower=0.0, open_lower=True)
    if rate is None:
        mu = 2.0 * math.sqrt(n_steps) / noise
        return gaussian_epsilon(mu=mu, delta=delta) * (1.0 + _ROUND_OFF)
    return (1.0 + _ROUND_OFF) * sampled_epsilon(
        rate=rate,
        contribution=1.0 / noise,
        change=2.0 / noise,
        n_steps=n_steps,
        delta=delta,
    )


def plan_given_noise(facts: NetworkPlanInputs, noise_multiplier: float) -> NetworkPlan:
    """Return flat clipping with the noise that was asked for.

    Guarantee
    ---------
    Priced like any plan; `facts.budget` holds what `epsilon_of_noise` returned
    (`docs/theory/networks.md`, section 2).
    """
    layout = flat_layout(facts.layers).with_clip_norm(facts.clip_norm)
    epsilon = facts.remaining_epsilon(WHOLE_RECORD, facts.budget.epsilon)
    table = layout.sensitivity_table(facts.classes)
    noise = NoisePlan(
        table,
        np.array([noise_multiplier * facts.clip_norm]),
        dict.fromkeys(table.class_names, epsilon),
        facts.budget.delta,
        facts.n_steps,
        facts.rate,
    )
    return NetworkPlan("standard", Calibration.CERTIFIED, layout, layout, noise)
