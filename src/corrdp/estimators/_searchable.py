"""What an estimator does for a search that pays for all its fits together."""

import warnings
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from corrdp.certificate import Calibration, Certificate, certify
from corrdp.estimators._family import Family, Spending
from corrdp.estimators._fitting import Charge
from corrdp.estimators._narrowing import AUTO, DECLARED, RELEASED
from corrdp.estimators._training import TrainsLinearModel
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    CorrDPWarning,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.leakage import LeakageInput, policy_read
from corrdp.policy import Budget, Policy, protected_policy, without_knots


class Searchable(TrainsLinearModel):
    """Estimators whose cost is known before a row is read."""

    def require_searchable(self) -> None:
        """Raise unless a search can pay for fits of this estimator."""
        if not isinstance(self.policy, Policy):
            raise PolicyError(
                f"a search needs a Policy, got policy={self.policy!r}. Load one with "
                "Policy.from_file."
            )
        if self.epsilon is not None or self.ledger is not None:
            raise BudgetError(
                f"the budget is that of the search, got an estimator with epsilon="
                f"{self.epsilon!r} and ledger={self.ledger!r}. Pass both to "
                "PrivateSearchCV instead."
            )
        if self.fits != 1 or self.disjoint:
            raise BudgetError(
                f"the search counts its fits itself, got fits={self.fits!r}, disjoint="
                f"{self.disjoint!r}. Leave both at their defaults."
            )
        if self.random_state is not None:
            raise GuaranteeVoidError(
                "every run of a search draws noise of its own, got an estimator with "
                f"random_state={self.random_state!r}, of which all runs would draw the "
                "same. Pass it to PrivateSearchCV instead."
            )
        if isinstance(self.leakage, str):
            raise BudgetError(
                f"leakage={self.leakage!r} would be bought in every run. Declare the "
                "leakage, or estimate it from public rows."
            )
        if self.bounds == RELEASED:
            raise BudgetError(
                f"bounds={self.bounds!r} would be released in every run, which the "
                f"search does not pay for. Leave bounds at {AUTO!r}, which stands for "
                f"{DECLARED!r} in a search, or declare narrower ones."
            )
        certified = self.calibration == Calibration.CERTIFIED
        full = certified and self.sampling_rate is None
        if not self._method().is_private or not full:
            raise CorrDPError(
                "a search is for certified training on full batches, got method="
                f"{self.method!r}, calibration={self.calibration!r}, sampling_rate="
                f"{self.sampling_rate!r}. Leave them at their defaults."
            )

    def searched_promise(self) -> tuple[Policy, LeakageInput]:
        """Return the policy that a search keeps, and its distances."""
        assert isinstance(self.policy, Policy)  # as `require_searchable` demands
        declared = policy_read(self.policy, self._leakage_given())
        kept = without_knots(protected_policy(declared, self._method()))
        leakage = self._leakage(kept, declared)
        if leakage.spent or leakage.claim.source in ("private", "in_sample"):
            raise BudgetError(
                "a search does not share its budget with a leakage table of private "
                f"rows (source {leakage.claim.source!r}). Declare the leakage, or "
                "estimate it from public rows."
            )
        return kept, leakage

    def searched_rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the table, and the labels as a column of their own.

        All cells have been read by then, so that one which is refused costs nothing.
        """
        policy, table, labels = self._declared(X, y)
        self._require_readable(table, labels, policy)
        return table, labels

    def paying_for_search(
        self, budget: Budget, *, elsewhere: bool
    ) -> AbstractContextManager[None]:
        """Record a search around its payment, for this estimator and all its copies.

        Guarantee
        ---------
        That of `Family.spending`: a search is one spending of its whole budget
        (``docs/theory/composition.md``, section 9).
        """
        whole = Spending.of(budget, ceiling=self._cap())
        return self._family_record().spending(
            whole, None if elsewhere or self.research else whole
        )

    def fit_in_search(self, X: Any, y: Any, check: Charge) -> None:
        """Fit for a search, which is charged for all of its fits; `check` is told.

        Guarantee
        ---------
        None by itself: the search pays (``docs/theory/selection.md``).
        """
        if self.bounds == RELEASED:  # an estimator that no search has asked for
            self.require_searchable()
        self._family, self._planned_blind = Family(), True
        with warnings.catch_warnings():
            # A warning per run would tell how many there were.
            warnings.simplefilter("ignore", CorrDPWarning)
            self._fit(X, y, check)

    @property
    def family(self) -> Family:
        """The record of spending that this estimator shares with its copies."""
        return self._family_record()

    def release_from_search(
        self, template: "Searchable", budget: Budget, certificate: Certificate
    ) -> None:
        """Take on the budget, the family and the certificate of a whole search.

        Guarantee
        ---------
        The model says what the search cost, not what its own fit did, and shares the
        budget of the estimator that was searched with
        (``docs/theory/selection.md``).
        """
        self.policy, self.leakage = template.policy, template.leakage
        self.epsilon, self.delta = budget.epsilon, budget.delta
        self.random_state = template.random_state
        self._family = template.family
        self.policy_ = replace(self.policy_, epsilon_cap=certificate.epsilon_cap)
        self.certificate_ = certify(
            self.policy_,
            certificate.components,
            budget=budget,
            leakage=certificate.leakage,
            assumptions=certificate.assumptions[1:],  # the first is every certificate's
            replayable_noise=certificate.replayable_noise,
            research=self.research,
        )
