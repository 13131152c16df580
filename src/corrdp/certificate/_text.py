"""A certificate in words, and what it means for an attack, in numbers and in words."""

import math
from collections.abc import Iterable, Mapping
from textwrap import fill
from typing import TYPE_CHECKING

from corrdp.accounting import NO_PROTECTION, Risk, attack_risk
from corrdp.certificate._claims import Calibration, ClassClaim, Component

if TYPE_CHECKING:
    from corrdp.certificate._certificate import Certificate

RISK_SCOPE = (
    "These bound what the release adds for an attacker who knows all other records and "
    "everything of this one but what changes. They say nothing of what insensitive "
    "columns reveal about sensitive ones by correlation; where the attacker knows none "
    "of the record, whole_record is the row to read."
)

WIDTH = 80


def class_risk(certificate: "Certificate", class_name: str) -> Risk:
    """Return the risk of one class, from all components together."""
    events = Component.joint_events(certificate.components, class_name)
    return NO_PROTECTION if events is None else attack_risk(events)


def risk_words(risk: Risk) -> str:
    """Return the numbers of a risk as one phrase; all are rounded up."""
    if risk.advantage >= 1.0:
        return "nothing is bounded: an attacker may be certain"
    mu = f"mu {rounded_up(risk.mu)}"
    if not risk.mu_is_exact:
        mu = f"at most Gaussian {mu} at rates from 0.01 % up"
    one, tenth = (percent(value) for value in risk.true_positive_rate.values())
    return (
        f"{mu}; advantage of any attack at most {percent(risk.advantage)}; it finds at "
        f"most {one} of cases at 1 % false alarms, {tenth} at 0.1 %; a value guessed "
        f"with probability 10 % before is guessed with at most "
        f"{percent(risk.guess[0.1])} after, one of two equally likely ones with "
        f"{percent(risk.even_odds)}"
    )


def grouped_by(values: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that share each value, in order of first appearance."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    return groups


def listed(names: Iterable[str], limit: int = 6) -> str:
    """Return names with commas between, and a count instead of the last ones."""
    known = list(names)
    if len(known) <= limit:
        return ", ".join(known)
    return f"{', '.join(known[: limit - 1])} and {len(known) - limit + 1} more"


def percent(share: float) -> str:
    """Return a probability as a percentage of three digits, rounded up."""
    if share >= 1.0:
        return "100 %"
    shown = rounded_up(100.0 * share)
    # 99.97 would round up to certainty.
    return f"{shown} %" if float(shown) < 100.0 else "above 99.9 %"


def rounded_up(value: float) -> str:
    """Return a non-negative number with three significant digits, not below it."""
    if value == 0.0 or math.isinf(value):
        return f"{value:g}"
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    # A last unit of round-off is no reason to go up by one in the third digit.
    return f"{math.ceil(value / unit * (1 - 1e-12)) * unit:.3g}"


def certificate_text(certificate: "Certificate") -> str:
    """Return what is promised, to whom, on what grounds, and what is not."""
    paragraphs = [_headline(certificate)]
    if certificate.replayable_noise:
        paragraphs.append(
            "REPLAYABLE NOISE: a fixed seed was used. Whoever knows the seed can "
            "subtract the noise. Use this result for research only."
        )
    if certificate.research:
        paragraphs.append(
            "RESEARCH: made in research mode, in which nothing limits how often the "
            "rows are used and exact numbers may be shown. For rows that may be "
            "disclosed only."
        )
    paragraphs += [
        f"- {_class_sentence(name, claim)}"
        for name, claim in certificate.classes.items()
    ]
    paragraphs += _risk_paragraphs(certificate)
    paragraphs += [
        _leakage_sentence(certificate),
        _label_sentence(certificate),
        f"Noise: {certificate.noise_source or 'its generator was not recorded'}.",
        "Assumptions: " + "; ".join(certificate.assumptions) + ".",
        "Not covered: what insensitive columns reveal about sensitive ones by "
        "correlation. Leakage bounds an additive shift of a distribution, not an odds "
        "ratio.",
        f"Policy {certificate.policy_fingerprint[:16]}; "
        + ", ".join(f"{n} {v}" for n, v in certificate.software.items())
        + ".",
    ]
    return "\n\n".join(
        fill(text, WIDTH, subsequent_indent="  " if text.startswith("- ") else "")
        for text in paragraphs
    )


def certificate_short_text(certificate: "Certificate") -> str:
    """Return the certificate in a few lines: what somebody reads after a release."""
    lines = [_headline(certificate)]
    if certificate.replayable_noise:
        lines.append("REPLAYABLE NOISE: a fixed seed was used; for research only.")
    if certificate.research:
        lines.append("RESEARCH: exact numbers may be shown; not for private rows.")
    promised = [c for c in certificate.classes.values() if c.promised]
    for distance_one in (True, False):
        epsilons = sorted(
            c.epsilon for c in promised if (c.distance == 1.0) == distance_one
        )
        if epsilons:
            what = "as sensitive" if distance_one else "by leakage"
            span = " to ".join(
                dict.fromkeys(_number(e) for e in (epsilons[0], epsilons[-1]))
            )
            many = "class" if len(epsilons) == 1 else "classes"
            lines.append(f"Protected {what}: {len(epsilons)} {many}, epsilon {span}.")
    whole = [c for c in certificate.classes.values() if not c.promised]
    lines += [
        f"Whole record: epsilon {_number(claim.epsilon)} (a price, not a promise)."
        for claim in whole
    ]
    first = next(iter(certificate.classes))
    lines.append(f"Risk, {first}: {risk_words(class_risk(certificate, first))}.")
    lines.append(_label_sentence(certificate))
    return "\n".join(fill(line, WIDTH, subsequent_indent="  ") for line in lines)


def certificate_table(
    certificate: "Certificate",
) -> tuple[list[str], tuple[str, ...], list[tuple[object, ...]]]:
    """Return notes, heads and rows of the certificate as a small table."""
    notes = [_headline(certificate), _label_sentence(certificate)]
    if certificate.replayable_noise:
        notes.append("REPLAYABLE NOISE: a fixed seed was used; for research only.")
    if certificate.research:
        notes.append("RESEARCH: not for private rows.")
    heads = ("class", "epsilon", "allowed", "mu", "found at 1 % false alarms")
    rows: list[tuple[object, ...]] = []
    for name, claim in certificate.classes.items():
        risk = class_risk(certificate, name)
        rows.append(
            (
                name,
                claim.epsilon,
                claim.allowed_epsilon if claim.promised else "not promised",
                risk.mu,
                percent(risk.true_positive_rate[0.01]),
            )
        )
    return notes, heads, rows


def _headline(certificate: "Certificate") -> str:
    budget = f"epsilon {certificate.target_epsilon:g}, delta {certificate.delta:g}"
    if certificate.calibration is Calibration.THEOREM:
        return (
            f"Theorem calibration, nominal {budget}. This is not a proof: "
            f"{certificate.assumptions[0]}. Epsilon proved for this noise: "
            f"{_number(certificate.epsilon)}."
        )
    return (
        f"Certified: correlation-aware differential privacy with epsilon "
        f"{_number(certificate.epsilon)} and delta {certificate.delta:g} (asked for: "
        f"{budget}), relation {certificate.relation}, conditioning "
        f"{certificate.conditioning}."
    )


def _class_sentence(name: str, claim: ClassClaim) -> str:
    changed = ", ".join(claim.features) or "no feature"
    if claim.label_changes:
        changed = f"{changed} and the label" if claim.features else "the label"
    sentence = (
        f"{name}: if one record changes in {changed}, outputs are "
        f"({_number(claim.epsilon)}, delta)-indistinguishable"
    )
    if not claim.promised:
        return sentence + " (a price, not a promise)."
    return (
        f"{sentence} (allowed {_number(claim.allowed_epsilon)}, distance "
        f"{claim.distance:.4g})."
    )


def _risk_paragraphs(certificate: "Certificate") -> list[str]:
    words = {
        name: risk_words(class_risk(certificate, name)) for name in certificate.classes
    }
    return [
        "Risk in words, by what changes. " + RISK_SCOPE,
        *(f"- {listed(names)}: {text}." for text, names in grouped_by(words).items()),
    ]


def _leakage_sentence(certificate: "Certificate") -> str:
    leakage = certificate.leakage
    if not leakage.values:
        return "Leakage: no insensitive feature needs a distance."
    values = ", ".join(f"{n} {v:.4g}" for n, v in leakage.values.items())
    metric = leakage.metric.replace("_", " ")
    sentence = f"Leakage ({leakage.source}, {metric}): {values}."
    if leakage.failure_probability > 0:
        sentence += (
            f" As an upper bound it may fail with probability "
            f"{leakage.failure_probability:g}, if rows are independent draws."
        )
    elif leakage.assumption:
        sentence += " It is taken at its word: nothing here has checked it."
    return sentence


def _label_sentence(certificate: "Certificate") -> str:
    if certificate.label_protected and certificate.label_is_sensitive:
        return (
            "Label: protected as one more sensitive feature. A change of the label "
            "along with an insensitive feature is priced as whole_record, not promised."
        )
    if certificate.label_protected:
        return "Label: protected; it may change along with every class above."
    return "Label: not protected. A change of a record's label is not covered."


def _number(value: float) -> str:
    return "infinite" if math.isinf(value) else f"{value:.6g}"
