"""Price events against a limit without losing a last digit."""

import math
from collections.abc import Sequence

from corrdp.accounting._composition import compose_delta, compose_epsilon
from corrdp.accounting._events import ApproximateEvent, LaplaceEvent, PrivacyEvent

# Calibrating and pricing are two inversions; each may round the last digits.
ROUND_OFF = 1e-9


def epsilon_within(
    events: Sequence[PrivacyEvent], *, delta: float, allowed_epsilon: float
) -> float:
    """Return the epsilon of events at `delta`, exact where it meets a limit.

    Parameters
    ----------
    events : sequence of events
        All fixed before the first of them runs.
    delta : float
        Failure probability.
    allowed_epsilon : float
        The limit; infinite if there is none.

    Guarantee
    ---------
    The result is proved for the composition (`docs/theory/composition.md`). It is
    the limit itself where inverting the curve lands within round-off above it and
    the curve read at the limit is within `delta`: a direct evaluation, not a
    tolerance. At ``delta=0`` pure epsilons add, and anything else is infinite.
    """
    if delta == 0.0:
        return _pure_epsilon(events)
    epsilon = compose_epsilon(events, delta=delta)
    just_above = allowed_epsilon < epsilon <= allowed_epsilon * (1 + ROUND_OFF)
    if just_above and compose_delta(events, epsilon=allowed_epsilon) <= delta:
        return allowed_epsilon
    return epsilon


def _pure_epsilon(events: Sequence[PrivacyEvent]) -> float:
    total = 0.0
    for event in events:
        if isinstance(event, LaplaceEvent) or (
            isinstance(event, ApproximateEvent) and event.delta == 0.0
        ):
            total += event.count * event.epsilon
        else:
            return math.inf
    return total
