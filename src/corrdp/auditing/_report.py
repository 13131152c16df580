"""Results of an audit: what was claimed, what was proved against it, the verdict."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from corrdp._json import decode_number, encode_number
from corrdp._typing import JSONObject
from corrdp.auditing.statistics import Claim

SCHEMA = "corrdp.audit/1"
_CUT = {
    "search": "The time limit cut the search for neighbors: worse ones may exist, and "
    "bounds may be weaker.",
    "runs": "The time limit cut the number of runs: all of them would prove more.",
    "classes": "The time limit left no time for some attacks: nothing is said of them.",
}


class Verdict(StrEnum):
    """What an audit found for one class.

    ``consistent`` is not a proof: no attack that was tried contradicts the claim.
    ``violated`` is one, up to the stated confidence. ``no claim``: nothing is promised,
    so nothing can be broken.
    """

    CONSISTENT = "consistent"
    VIOLATED = "violated"
    NO_CLAIM = "no claim"


@dataclass(frozen=True)
class AuditResult:
    """What an audit found for one class of one mechanism.

    Parameters
    ----------
    target : str
        The mechanism and what the adversary sees.
    class_name : str
        Neighbor class.
    certified_epsilon : float
        Stated epsilon at `delta`; infinite if nothing is stated.
    audited_epsilon : float
        Lower bound that the attack proves at `delta`.
    certified_mu, audited_mu : float or None
        The same as Gaussian-DP parameters, for Gaussian claims.
    delta : float
        Where epsilons are read.
    verdict : Verdict
        Whether the claim is contradicted.
    attack : str
        The attack that did best on the first half of the runs.
    n_runs : int
        Runs on each of the two neighbors, both halves together.
    n_records : int
        In how many records the two tables of the attack differed; what was proved is
        what follows for one.
    roc : tuple of (float, float)
        Rates of false and of true alarms of the attack, on the runs that prove.
    """

    target: str
    class_name: str
    certified_epsilon: float
    audited_epsilon: float
    certified_mu: float | None
    audited_mu: float | None
    delta: float
    verdict: Verdict
    attack: str
    n_runs: int
    roc: tuple[tuple[float, float], ...] = ()
    n_records: int = 1

    @classmethod
    def of(
        cls,
        claim: Claim,
        *,
        is_broken: bool,
        epsilon_lower: float,
        mu_lower: float | None,
        **rest: Any,
    ) -> "AuditResult":
        """Return the result of an attack on a claim, from what it proved."""
        verdict = Verdict.VIOLATED if is_broken else Verdict.CONSISTENT
        return cls(
            certified_epsilon=claim.epsilon,
            audited_epsilon=epsilon_lower,
            certified_mu=claim.mu,
            audited_mu=mu_lower,
            delta=claim.delta,
            verdict=Verdict.NO_CLAIM if claim.events is None else verdict,
            **rest,
        )

    @property
    def tightness(self) -> float:
        """Audited over certified: in mu for Gaussian claims, in epsilon otherwise."""
        if self.certified_mu is not None and self.audited_mu is not None:
            return _ratio(self.audited_mu, self.certified_mu)
        return _ratio(self.audited_epsilon, self.certified_epsilon)

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "target": self.target,
            "class": self.class_name,
            "certified_epsilon": encode_number(self.certified_epsilon),
            "audited_epsilon": encode_number(self.audited_epsilon),
            "certified_mu": _optional(self.certified_mu),
            "audited_mu": _optional(self.audited_mu),
            "delta": self.delta,
            "verdict": str(self.verdict),
            "tightness": encode_number(self.tightness),
            "attack": self.attack,
            "n_runs": self.n_runs,
            "n_records": self.n_records,
            "roc": [list(point) for point in self.roc],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "AuditResult":
        """Read what `to_json` wrote."""
        mus = [
            None if document[key] is None else decode_number(document[key])
            for key in ("certified_mu", "audited_mu")
        ]
        return cls(
            target=document["target"],
            class_name=document["class"],
            certified_epsilon=decode_number(document["certified_epsilon"]),
            audited_epsilon=decode_number(document["audited_epsilon"]),
            certified_mu=mus[0],
            audited_mu=mus[1],
            delta=document["delta"],
            verdict=Verdict(document["verdict"]),
            attack=document["attack"],
            n_runs=document["n_runs"],
            roc=tuple((x, y) for x, y in document.get("roc", ())),
            n_records=document.get("n_records", 1),
        )


@dataclass(frozen=True)
class AuditReport:
    """All results of an audit; they hold jointly with the stated confidence.

    Parameters
    ----------
    results : tuple of AuditResult
        One per mechanism and class.
    confidence : float
        Probability with which every lower bound holds at once.
    seconds : float
        How long the audit took.
    cut : tuple of str
        What the time limit cut short: ``search`` (for neighbors), ``runs``, or the
        number of ``classes`` that each attack is made on. Verdicts hold either way;
        less is proved.
    certificate_digest : str, optional
        Of the certificate of the fit, if its own number of rows was planned for.
    wanted_seconds : float, optional
        How long it would have taken without the cut in runs and classes, about.
    not_attacked : tuple of str
        Classes for which no time was left, with the attack that was left out if
        there was time for another one.
    """

    results: tuple[AuditResult, ...]
    confidence: float
    seconds: float
    cut: tuple[str, ...] = ()
    certificate_digest: str | None = None
    wanted_seconds: float | None = None
    not_attacked: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether the time limit cut nothing."""
        return not self.cut

    @property
    def violations(self) -> tuple[AuditResult, ...]:
        """Results whose claim is contradicted."""
        return tuple(r for r in self.results if r.verdict is Verdict.VIOLATED)

    @property
    def passed(self) -> bool:
        """Whether no claim is contradicted."""
        return not self.violations

    def to_json(self) -> JSONObject:
        """Return a JSON-able description that `from_json` reads back equal."""
        return {
            "schema": SCHEMA,
            "certificate_digest": self.certificate_digest,
            "passed": self.passed,
            "confidence": self.confidence,
            "seconds": self.seconds,
            "is_complete": self.is_complete,
            "cut": list(self.cut),
            "wanted_seconds": self.wanted_seconds,
            "not_attacked": list(self.not_attacked),
            "results": [result.to_json() for result in self.results],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "AuditReport":
        """Read what `to_json` wrote."""
        return cls(
            results=tuple(AuditResult.from_json(r) for r in document["results"]),
            confidence=document["confidence"],
            seconds=document["seconds"],
            cut=tuple(document["cut"]),
            certificate_digest=document["certificate_digest"],
            wanted_seconds=document.get("wanted_seconds"),
            not_attacked=tuple(document.get("not_attacked", ())),
        )

    def to_text(self) -> str:
        """Return a plain table and the verdict in words."""
        target = max([6, *(len(r.target) for r in self.results)])
        name = max([5, *(len(r.class_name) for r in self.results)])
        lines = [
            f"{'target':<{target}}  {'class':<{name}}  {'certified':>9}  "
            f"{'audited':>9}  {'tightness':>9}  {'runs':>7}  verdict"
        ]
        lines += [
            f"{r.target:<{target}}  {r.class_name:<{name}}  "
            f"{r.certified_epsilon:>9.4g}  {r.audited_epsilon:>9.4g}  "
            f"{r.tightness:>9.2f}  {r.n_runs:>7}  {r.verdict}"
            for r in self.results
        ]
        count = len(self.violations)
        found = f"{count} of {len(self.results)} claims are contradicted"
        lines += [
            "",
            f"{found if count else 'No claim is contradicted'}, at joint confidence "
            f"{self.confidence:.4g}. Epsilons at the delta of each claim; tightness "
            "compares mu where noise is Gaussian.",
        ]
        lines += [_CUT[what] for what in self.cut]
        if self.not_attacked:
            lines.append(f"Not attacked: {', '.join(self.not_attacked)}.")
        if self.wanted_seconds is not None:
            lines.append(
                f"It took {self.seconds:.0f} s; for all runs allow "
                f"{self.wanted_seconds:.0f} s (--time-limit)."
            )
        return "\n".join(lines)


def _ratio(audited: float, certified: float) -> float:
    if math.isinf(certified):
        return 0.0
    if certified == 0.0:
        return 0.0 if audited == 0.0 else math.inf
    return audited / certified


def _optional(value: float | None) -> Any:
    return None if value is None else encode_number(value)
