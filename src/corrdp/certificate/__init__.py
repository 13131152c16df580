"""Certificates: what a release proves, per neighbor class, and how to check it."""

from corrdp.certificate._certificate import Certificate, certify
from corrdp.certificate._claims import Calibration, ClassClaim, Component, LeakageClaim
from corrdp.certificate._text import (
    RISK_SCOPE,
    class_risk,
    grouped_by,
    listed,
    percent,
    risk_words,
    rounded_up,
)

__all__ = [
    "RISK_SCOPE",
    "Calibration",
    "Certificate",
    "ClassClaim",
    "Component",
    "LeakageClaim",
    "certify",
    "class_risk",
    "grouped_by",
    "listed",
    "percent",
    "risk_words",
    "rounded_up",
]
