"""What NIST SP 800-226 asks of a claim, answered from a certificate or left open."""

from corrdp._names import NUMBER_COUNTS
from corrdp._typing import JSONObject
from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Calibration, Certificate, risk_words, rounded_up
from corrdp.report._markdown import plain

SCHEMA = "corrdp.nist/1"
NOT_COVERED = "not covered"


def nist_statement(certificate: Certificate) -> JSONObject:
    """Return one answer per layer of SP 800-226, each marked covered or not.

    Layers that no certificate can answer, such as access control, are marked ``not
    covered`` with what to say there.

    Notes
    -----
    Near, Darais, Lefkovitz and Howarth, *Guidelines for evaluating differential privacy
    guarantees*, NIST SP 800-226, 2025: the layers of its pyramid, top to bottom.
    """
    whole = certificate.classes[WHOLE_RECORD]
    layers = [
        ("Privacy parameters", _parameters(certificate)),
        ("Unit of privacy", _unit(certificate)),
        (
            "Ordinary differential privacy of the same release",
            f"For a change of the whole record: epsilon {rounded_up(whole.epsilon)}, "
            f"delta {certificate.delta:g}. Priced, not promised.",
        ),
        (
            "What the numbers mean",
            risk_words(certificate.risk(next(iter(certificate.classes)))) + ".",
        ),
        ("Algorithms and correctness", _correctness(certificate)),
        ("Bounds and pre-processing", _bounds(certificate)),
        ("Randomness and arithmetic", _randomness(certificate)),
        ("Composition", _composition(certificate)),
        (
            "Query model",
            "One release, not interactive. Later releases from the same rows add up; a "
            "ledger keeps the sum.",
        ),
        (
            "Trust model",
            "Central: whoever runs the software sees all rows. The promise holds "
            "against everybody who sees the release.",
        ),
        (
            "Utility and bias",
            f"{NOT_COVERED}: a certificate says nothing of quality or of its spread "
            "over groups. See the report, or pay for corrdp evaluate.",
        ),
        (
            "Side channels",
            f"{NOT_COVERED}: time and memory of the machine that trained. The program "
            "prints no time that depends on rows.",
        ),
        (
            "Data security and access control",
            f"{NOT_COVERED}: describe who can reach the rows, the policy and the keys.",
        ),
        (
            "Exposure at collection",
            f"{NOT_COVERED}: describe how rows were collected, and on what grounds.",
        ),
    ]
    return {
        "schema": SCHEMA,
        "certificate_digest": certificate.to_dict()["digest"],
        "layers": [
            {
                "layer": layer,
                "covered": not answer.startswith(NOT_COVERED),
                "answer": answer,
            }
            for layer, answer in layers
        ],
    }


def nist_text(statement: JSONObject) -> str:
    """Return a statement as Markdown."""
    lines = ["# Differential privacy claim, by the layers of NIST SP 800-226", ""]
    for row in statement["layers"]:
        lines += [f"## {row['layer']}", "", plain(row["answer"]), ""]
    lines.append(f"Certificate {statement['certificate_digest']}.")
    return "\n".join(lines) + "\n"


def _parameters(certificate: Certificate) -> str:
    claims = [
        f"{name}: {rounded_up(claim.epsilon)}"
        for name, claim in certificate.classes.items()
        if claim.promised
    ]
    return (
        f"Correlation-aware differential privacy, epsilon "
        f"{rounded_up(certificate.epsilon)}, delta {certificate.delta:g}. By what "
        f"changes in a record: {'; '.join(claims)}."
    )


def _unit(certificate: Certificate) -> str:
    label = "may change" if certificate.label_protected else "is not protected"
    return (
        "One record, replaced: the number of rows is public. Neighbors differ in the "
        "sensitive features of one record, or in insensitive ones by the relation "
        f"{certificate.relation}. The label {label}. If a person has several records, "
        "the unit is one of them."
    )


def _correctness(certificate: Certificate) -> str:
    if certificate.calibration is Calibration.THEOREM:
        return (
            f"{NOT_COVERED} by a proof: noise follows closed forms with unstated "
            f"constants. Provable for it: epsilon {rounded_up(certificate.epsilon)}."
        )
    parts = ", ".join(part.name for part in certificate.components)
    return (
        f"Proved for every part of the release ({parts}); every number can be "
        "recomputed from the certificate: corrdp certificate verify."
    )


def finds_bounds(certificate: Certificate) -> bool:
    """Return whether bounds of numbers were narrowed by what a part of it released."""
    return any(part.name == NUMBER_COUNTS for part in certificate.components)


def _bounds(certificate: Certificate) -> str:
    leakage = certificate.leakage
    origin = "Declared in the policy, not read off the rows"
    if finds_bounds(certificate):
        origin = (
            "Declared in the policy; numbers are read between narrower bounds, which a "
            f"part of the release ({NUMBER_COUNTS}) found with noise and paid for"
        )
    sentence = f"{origin}: {certificate.assumptions[0]}. Leakage: {leakage.source}"
    if leakage.failure_probability > 0:
        sentence += f", wrong with probability {leakage.failure_probability:g}"
    return sentence + "."


def _randomness(certificate: Certificate) -> str:
    source = certificate.noise_source or "a generator that was not recorded"
    if certificate.replayable_noise:
        return (
            f"{NOT_COVERED}: {source} with a fixed seed, so whoever knows the seed can "
            "take the noise away."
        )
    return f"Noise from {source}. Floating-point noise is a known limit."


def _composition(certificate: Certificate) -> str:
    return (
        f"{len(certificate.components)} parts, fixed in advance, composed by their "
        "trade-off curves. Other releases from the same rows are not in it."
    )
