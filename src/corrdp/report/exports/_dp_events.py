"""Events of Google's dp-accounting, so that outsiders recompute every epsilon."""

from functools import singledispatch
from typing import Any

from corrdp._json import encode_number
from corrdp._typing import JSONObject
from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
)
from corrdp.certificate import Certificate, Component
from corrdp.exceptions import UnsupportedEventError

SCHEMA = "corrdp.dp-event/1"


def dp_events(certificate: Certificate) -> JSONObject:
    """Return what every class paid as events named and shaped as in dp-accounting.

    By class: ``epsilon`` as the certificate states it, and ``event``, whose ``type`` is
    a class of ``dp_accounting`` and whose other fields are its arguments.
    ``neighboring_relation`` is the one to price them under.

    Notes
    -----
    A noise multiplier is the noise per unit of what changes between neighbors, who
    replace a record: ``1 / mu``. dp-accounting takes a multiplier for that of the whole
    change under ``ADD_OR_REMOVE_ONE`` alone; under ``REPLACE_ONE`` it would double it.
    A class that does
    not move has ``NoOpDpEvent``, one without noise ``NonPrivateDpEvent``. Sampled steps
    whose change is bounded, and mechanisms known by epsilon and delta alone, have no
    event there: they are ``UnsupportedDpEvent``, with how to price them in
    ``recompute``.
    """
    return {
        "schema": SCHEMA,
        "neighbors": "one record is replaced",
        "neighboring_relation": "ADD_OR_REMOVE_ONE",
        "delta": certificate.delta,
        "certificate_digest": certificate.to_dict()["digest"],
        "classes": {
            name: {
                "epsilon": encode_number(claim.epsilon),
                "event": _of_class(certificate, name),
            }
            for name, claim in certificate.classes.items()
        },
    }


def _of_class(certificate: Certificate, class_name: str) -> JSONObject:
    events = Component.joint_events(certificate.components, class_name)
    if events is None:
        return {"type": "NonPrivateDpEvent"}
    return {"type": "ComposedDpEvent", "events": [_event(event) for event in events]}


@singledispatch
def _event(event: PrivacyEvent) -> JSONObject:
    raise UnsupportedEventError(
        f"events of kind {event.kind!r} have no counterpart in dp-accounting. Export "
        "with --format nist instead."
    )


@_event.register
def _(event: GaussianEvent) -> JSONObject:
    return _repeated("GaussianDpEvent", event.mu, event.count)


@_event.register
def _(event: LaplaceEvent) -> JSONObject:
    return _repeated("LaplaceDpEvent", event.epsilon, event.count)


@_event.register
def _(event: ApproximateEvent) -> JSONObject:
    recompute = (
        f"any mechanism with epsilon {event.epsilon!r} and delta {event.delta!r}, "
        f"{event.count} times: add epsilons and deltas"
    )
    return {"type": "UnsupportedDpEvent", "recompute": recompute}


@_event.register
def _(event: SampledGaussianEvent) -> JSONObject:
    command = (
        f"corrdp account sampled --rate {event.rate!r} --contribution "
        f"{event.contribution!r} --change {event.change!r} --steps {event.n_steps}"
    )
    return {"type": "UnsupportedDpEvent", "recompute": command}


@_event.register
def _(event: SelectedGaussianEvent) -> JSONObject:
    recompute = (
        f"the best of a geometric number of runs, {event.mean_runs!r} on average, each "
        f"of Gaussian noise with multiplier 1 / {event.mu!r}: corrdp.accounting"
        ".compose_epsilon prices a SelectedGaussianEvent"
    )
    return {"type": "UnsupportedDpEvent", "recompute": recompute}


def _repeated(kind: str, change: float, count: int) -> dict[str, Any]:
    if change == 0.0:
        return {"type": "NoOpDpEvent"}
    single = {"type": kind, "noise_multiplier": 1.0 / change}
    return {"type": "SelfComposedDpEvent", "event": single, "count": count}
