"""Certificates: what a release proves, per neighbor class, and how to check it."""

from corrdp.certificate._certificate import Certificate, certify
from corrdp.certificate._claims import (
    Calibration,
    ClassClaim,
    Component,
    LeakageClaim,
)

__all__ = [
    "Calibration",
    "Certificate",
    "ClassClaim",
    "Component",
    "LeakageClaim",
    "certify",
]
