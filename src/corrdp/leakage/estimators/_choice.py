"""Which estimator fits which column types, and why."""

from collections.abc import Sequence

from corrdp._validate import check_choice
from corrdp.exceptions import PolicyError
from corrdp.leakage.estimators._discrete import Histogram, PlugIn
from corrdp.leakage.estimators._gaussian import GaussianPosterior
from corrdp.leakage.estimators._sample import Estimator
from corrdp.leakage.estimators._unbounded import (
    MAX_NUMBERS,
    MonteCarlo,
    MultinomialLogistic,
    ProductKernel,
    VariationalCritic,
)
from corrdp.policy import NumberDomain, Policy

ESTIMATORS: dict[str, type[Estimator]] = {
    "plug_in": PlugIn,
    "histogram": Histogram,
    "gaussian": GaussianPosterior,
    "logistic": MultinomialLogistic,
    "kernel": ProductKernel,
    "monte_carlo": MonteCarlo,
    "critic": VariationalCritic,
}


def estimator_named(estimator: str | Estimator) -> Estimator:
    """Return an estimator with its defaults, or the estimator itself."""
    if not isinstance(estimator, str) and hasattr(estimator, "estimate"):
        return estimator
    remedy = "Leave it out to choose by column types."
    return ESTIMATORS[check_choice("estimator", estimator, ESTIMATORS, remedy=remedy)]()


def choose_estimator(policy: Policy, changed: Sequence[str]) -> tuple[Estimator, str]:
    """Return the estimator for the types of the columns, and the reason in words.

    Joint counting at the declared resolution whenever there is one: it alone has an
    upper bound without a model.
    """
    fine_changed = _without_resolution(policy, changed)
    fine_sensitive = _without_resolution(policy, policy.sensitive)
    if not fine_changed and not fine_sensitive:
        return PlugIn(), "every column has a declared resolution"
    if not fine_changed:
        return Histogram(), (
            f"sensitive numbers without bins ({', '.join(fine_sensitive)}) and a "
            "discrete feature"
        )
    what = f"{', '.join(fine_changed)} without bins"
    if not fine_sensitive:
        return MultinomialLogistic(), f"discrete sensitive features and {what}"
    changed_are_numbers = len(fine_changed) == len(changed)
    if changed_are_numbers and len(fine_sensitive) == len(policy.sensitive):
        return GaussianPosterior(), f"only numbers, {what}"
    if len(fine_sensitive) <= MAX_NUMBERS:
        return ProductKernel(), f"mixed sensitive features and {what}"
    raise PolicyError(
        f"No estimator fits {len(fine_sensitive)} sensitive numbers without bins "
        f"beside discrete ones, and {what}. Declare bins for "
        f"{', '.join([*fine_sensitive, *fine_changed])}."
    )


def _without_resolution(policy: Policy, names: Sequence[str]) -> list[str]:
    domains = {name: policy.feature(name).domain for name in names}
    return [
        name
        for name, domain in domains.items()
        if isinstance(domain, NumberDomain) and domain.bins is None
    ]
