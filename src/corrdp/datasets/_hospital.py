"""The built-in hospital example."""

from importlib.resources import files

from corrdp.policy import Policy


def hospital_policy_text() -> str:
    """Return the policy file of the hospital example, comments included."""
    return (files("corrdp.datasets") / "hospital.toml").read_text(encoding="utf-8")


def hospital_policy() -> Policy:
    """Return the policy of the hospital example."""
    return Policy.from_toml(hospital_policy_text())
