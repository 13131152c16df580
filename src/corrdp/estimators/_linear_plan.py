"""What linear estimators plan before a row is read: noise, steps, codes of rows."""

from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from corrdp._validate import check_count, check_real
from corrdp.certificate import Calibration
from corrdp.estimators._estimator import PrivateEstimator
from corrdp.estimators._leakage_purchase import LeakagePurchase, plan_purchase
from corrdp.estimators._number_bounds import (
    AUTO,
    DECLARED,
    RELEASED,
    NarrowingPlan,
    plan_narrowing,
)
from corrdp.estimators._promises import Promise
from corrdp.exceptions import CorrDPError
from corrdp.leakage import (
    BLOCK,
    LeakageInput,
    known_means,
    policy_read,
    resolve_leakage,
)
from corrdp.policy import (
    Method,
    NeighborRelation,
    Policy,
    PolicyEncoder,
    protected_policy,
    without_knots,
)
from corrdp.tables import reads_once
from corrdp.training import (
    CONSTANT,
    LABEL_DEVIATION,
    LEAST_DEVIATION,
    MOST_ROWS,
    SVRG_EPOCH_STEPS,
    LabelTotals,
    Loss,
    PlanInputs,
    Solver,
    TheoremPlan,
    TrainingPlan,
    default_plan,
    free_deviation,
    labels_are_free,
    layout_by_feature,
    or_constant,
    plan_spending,
    standard_plan,
    theorem_plan,
    whole_record_spending,
)

_THEOREM_STEPS = 1000


class PlansTraining(PrivateEstimator):
    """Linear models before their rows.

    Guarantee
    ---------
    What every method here returns is a function of the policy, the budget, the public
    number of rows and other public numbers (`docs/theory/default_rule.md`).
    """

    solver: str | Solver
    n_steps: int | None
    step_size: float | None
    theorem_constant: float | None
    sampling_rate: float | None
    n_jobs: int | None
    cache_dir: str | Path | None
    bounds: str = DECLARED  # of models without the parameter
    _planned_blind = False  # labels tell sizes, but where costs were planned before

    def plan(
        self, n_rows: int, *, label_deviation: float | None = None
    ) -> TrainingPlan:
        """Return the training plan for a table of `n_rows` rows, reading no data.

        Parameters
        ----------
        n_rows : int
            Public number of rows.
        label_deviation : float, optional
            Deviation of a label that is a number, in units of its declared range, if
            it is public; a sixth by default. `fit` takes that of the rows where no
            class changes labels.
        """
        return self.plan_with_counts(n_rows, label_deviation=label_deviation)[0]

    def plan_with_counts(
        self, n_rows: int, *, label_deviation: float | None = None
    ) -> tuple[TrainingPlan, NarrowingPlan | None]:
        """Return the training plan, and how numbers are counted before it.

        Parameters as for `plan`. None where bounds of numbers stay as declared.
        """
        deviation = checked_deviation(label_deviation)

        def planned(at: Self, n_rows: int) -> tuple[TrainingPlan, NarrowingPlan | None]:
            policy, leakage = at._known(n_rows)
            if leakage is None:
                raise CorrDPError(
                    f"method={self.method!r} protects nothing, so no noise can be "
                    "planned. Choose method='corr', or fit without a plan."
                )
            promise = Promise.of(policy, leakage)
            return at._plan_fit(promise, n_rows, deviation, counts=at._narrows())

        plan, counted = planned(self, n_rows)
        self._budget().warn_if_large_delta(n_rows)
        return self._advised(plan, planned), counted

    def _advised(
        self,
        plan: TrainingPlan,
        planned: Callable[[Self, int], tuple[TrainingPlan, Any]],
    ) -> TrainingPlan:
        """Return the plan; where it learns little, with what would do.

        `planned` says how it was chosen, by this estimator or one of another epsilon,
        for a number of rows.
        """

        def at_epsilon(epsilon: float) -> TrainingPlan:
            other = copy(self)
            other.epsilon = epsilon
            return planned(other, plan.n_rows)[0]

        return plan.advised(
            lambda n_rows: planned(self, n_rows)[0],
            at_epsilon,
            epsilon=self._family_budget().epsilon,
        )

    def ordinary_plan(
        self, policy: Policy, n_rows: int, *, label_deviation: float | None = None
    ) -> TrainingPlan:
        """Return the plan of the same model and budget under ordinary privacy.

        Rows are read by the policy, whose roles do not matter; the rest as for `plan`.
        """
        method = Method.STANDARD
        kept = protected_policy(policy, method)
        leakage = resolve_leakage(
            kept, None, declared=kept, calibration=Calibration.CERTIFIED
        )
        promise = Promise.of(self._coded(kept, n_rows, leakage, method), leakage)
        if self._narrows():
            counted = self._planned_narrowing(promise, n_rows)
            promise = promise if counted is None else counted.after(promise)
        deviation = checked_deviation(label_deviation)
        return self._planned(self._plan_inputs(promise, n_rows, deviation), method)

    def plan_leakage(self, n_rows: int) -> LeakagePurchase:
        """Return what ``leakage="auto"`` would buy for `n_rows` rows, reading no data.

        The rule is in `docs/theory/default_rule.md`, section 6.
        """
        declared = self._policy_for("plan_leakage")
        rows = check_count("n_rows", n_rows)
        self._budget().warn_if_large_delta(rows)
        kept = protected_policy(declared, self._method())
        policy = without_knots(self._shared(kept))
        return plan_purchase(
            policy,
            budget=self._budget(),
            n_rows=rows,
            predicted_loss=lambda leakage: (
                self._plan(Promise.of(policy, leakage), rows).prediction.compared
            ),
        )

    def label_deviation(self, labels: NDArray[Any]) -> float:
        """Return the deviation that a fit on these encoded labels is planned with.

        Guarantee
        ---------
        That of the labels only where no class changes them; else what is assumed
        (`docs/theory/default_rule.md`, Proposition 4b).
        """
        policy, leakage = self._known(len(labels))
        if leakage is None:
            return LABEL_DEVIATION
        promise = Promise.of(policy, leakage)
        return self._deviation_of(partial(LabelTotals.of, labels), promise)

    def _deviation_of(
        self, totals: Callable[[Loss], LabelTotals], promise: Promise
    ) -> float:
        # Sums of labels are asked for only where they are free: on partitions of an
        # engine asking reads rows, and nothing else may be read before it is paid.
        loss = self.loss_of(promise.policy)
        if loss.is_likelihood or not labels_are_free(promise.classes):
            return LABEL_DEVIATION
        return free_deviation(totals(loss), loss, promise.classes)

    def coded_policy(self, n_rows: int) -> Policy:
        """Return the policy that a fit on `n_rows` rows keeps and codes rows by."""
        return self._known(n_rows)[0]

    def _known(self, n_rows: int) -> tuple[Policy, LeakageInput | None]:
        """Return the policy that codes rows, and the leakage, before a row is read."""
        policy = self._policy_for("plan")
        method = self._method()
        declared = policy_read(policy, self._leakage_given())
        kept = self._shared(protected_policy(declared, method))
        leakage = self._leakage(kept, declared) if method.is_private else None
        count = check_count("n_rows", n_rows)
        return self._coded(kept, count, leakage, method), leakage

    def theorem_plan(self, n_rows: int) -> TheoremPlan:
        """Return the plan under ``theorem`` for `n_rows` rows, reading no data.

        Guarantee
        ---------
        None by the formula; ``noise`` of the plan states what is proved
        (`docs/theory/paper_noise.md`).
        """
        self._method()
        given = self._policy_for("theorem_plan")
        declared = policy_read(given, self._leakage_given())
        policy = self._shared(declared)
        promise = Promise.of(policy, self._leakage(policy, declared))
        return self._theorem_plan(promise, check_count("n_rows", n_rows))

    def _is_to_buy(self) -> bool:
        return isinstance(self.leakage, str) and self.leakage == AUTO

    def _leakage_given(self) -> Any:
        if not self._is_to_buy():
            return self.leakage
        if "leakage_" not in vars(self):
            raise CorrDPError(
                "leakage='auto' is bought from the rows when the model is fitted, so "
                "there is no plan before. plan_leakage(n_rows) says what it will buy."
            )
        return self.leakage_

    def _narrows(self, X: Any = None) -> bool:
        """Return whether bounds of numbers are to be released; raise if they cannot.

        By default wherever that is proved, but for labels that are numbers: there
        clipping features bends as much as narrower bounds save (`docs/defaults.md`).
        """
        if self.bounds not in (AUTO, DECLARED, RELEASED):
            raise CorrDPError(
                f"bounds must be {AUTO!r}, {DECLARED!r} or {RELEASED!r}, got bounds="
                f"{self.bounds!r}. Choose one."
            )
        if self.bounds == DECLARED:
            return False
        hindered = {
            "a policy that declares no bounds": not isinstance(self.policy, Policy),
            f"method={self.method!r}": not self._method().is_private,
            f"calibration={self.calibration!r}": (
                self.calibration != Calibration.CERTIFIED
            ),
            f"sampling_rate={self.sampling_rate!r}": self.sampling_rate is not None,
            f"a {type(X).__name__}, which can be read once": reads_once(X),
        }
        what = [name for name, is_so in hindered.items() if is_so]
        if what and self.bounds == RELEASED:
            raise CorrDPError(
                f"bounds={RELEASED!r} is for certified training on all rows, which are "
                f"read more than once, got {', '.join(what)}. Leave bounds at {AUTO!r}."
            )
        return not what and (self.bounds == RELEASED or not self._numeric_label)

    def _plan_fit(
        self, promise: Promise, n_rows: int, deviation: float, *, counts: bool
    ) -> tuple[TrainingPlan, NarrowingPlan | None]:
        """Return the plan, and how numbers are counted before; None if they are not.

        A model that would learn labels alone is planned without `counts`, which are no
        use to it: what they would cost may be what it lacks.
        """
        counted = self._planned_narrowing(promise, n_rows) if counts else None
        if counted is not None:
            plan = self._plan(counted.after(promise), n_rows, deviation)
            if plan.noise != CONSTANT:
                return plan, counted
        return self._plan(promise, n_rows, deviation), None

    def _planned_narrowing(self, promise: Promise, n_rows: int) -> NarrowingPlan | None:
        """Return how numbers are counted.

        By default not those whose rows per level a leakage table has told: it gives
        their means, which would be lost between other bounds.
        """
        return plan_narrowing(
            promise,
            budget=self._budget(),
            n_rows=n_rows,
            known=promise.leakage.margins if self.bounds == AUTO else (),
        )

    def _coded(
        self, policy: Policy, n_rows: int, leakage: LeakageInput | None, method: Method
    ) -> Policy:
        """Return the policy by which rows are coded: numbers are straight lines."""
        del n_rows, leakage, method  # additive models need them
        return without_knots(policy)

    def _theorem_plan(self, promise: Promise, n_rows: int) -> TheoremPlan:
        policy = promise.policy
        loss = self.loss_of(policy)
        if loss.n_outputs > 1:
            raise CorrDPError(
                f"calibration='theorem' is for two labels, got {loss.n_outputs}: the "
                "paper's formulas are for one score. Choose calibration='certified'."
            )
        known = promise.leakage.claim.values
        if policy.relation is NeighborRelation.ALL_INSENSITIVE and BLOCK in known:
            known = dict.fromkeys(policy.insensitive, known[BLOCK])
        return theorem_plan(
            layout_by_feature(PolicyEncoder(policy).blocks_),
            promise.classes,
            known,
            budget=self._budget(),
            epsilon_cap=policy.epsilon_cap,
            n_rows=n_rows,
            loss=loss,
            method=self.method,
            n_steps=self.n_steps or _THEOREM_STEPS,
            constant=self.theorem_constant,
            step_size=self.step_size,
        )

    def _plan(
        self, promise: Promise, n_rows: int, label_deviation: float = LABEL_DEVIATION
    ) -> TrainingPlan:
        facts = self._plan_inputs(promise, n_rows, label_deviation)
        plan = or_constant(self._planned(facts, self._method()))
        return plan.with_solver(self._solver()).with_steps(self.n_steps)

    def _plan_inputs(
        self, promise: Promise, n_rows: int, label_deviation: float = LABEL_DEVIATION
    ) -> PlanInputs:
        """Return what the rule may know."""
        policy, leakage = promise.policy, promise.leakage
        policy.require_single_rows("an encoded table")
        loss = self.loss_of(policy)
        spending = plan_spending(
            policy,
            promise.classes,
            budget=self._budget(),
            spent=leakage.spent,
            adapts_residual_bound=loss.adapts_residual_bound,
            known_means=known_means(policy, leakage.margins, n_rows),
        )
        return PlanInputs(
            spending.blocks,
            spending,
            n_rows,
            loss,
            leakage=self._known_leakage(),
            label_deviation=label_deviation,
        )

    def _planned(self, facts: PlanInputs, method: Method) -> TrainingPlan:
        """Return the plan of the rule for what is known."""
        if method is Method.STANDARD:
            return standard_plan(facts)
        by_the_rule = (
            self._solver() == Solver()
            and self.n_steps is None
            and self.sampling_rate is None
        )
        return default_plan(
            facts, whole_record_spending(facts.spending), in_two_walks=by_the_rule
        )

    def _known_leakage(self) -> dict[str, float]:
        """Return the leakage of features that the kept policy does not protect.

        Weaker promises are planned with what policy and mapping declare, as stronger
        ones are: it tells which features the influence of sensitive ones matters to.
        """
        if not isinstance(self.policy, Policy):
            return {}
        known = {
            feature.name: leakage
            for feature in self.policy.features
            if (leakage := feature.known_leakage) is not None
        }
        given = vars(self).get("leakage_") if self._is_to_buy() else self.leakage
        if isinstance(given, Mapping):
            known |= {str(name): float(value) for name, value in given.items()}
        return known

    def _method(self) -> Method:
        method = self._chosen_method(list(Method))
        solver = self._solver()
        if self.n_jobs is not None:
            check_count("n_jobs", self.n_jobs)
        if self.calibration == Calibration.THEOREM and solver.epoch_steps > 1:
            raise CorrDPError(
                f"solver={self.solver!r} has epochs, and calibration='theorem' is the "
                "paper's plain descent. Choose solver='gd'."
            )
        if self.sampling_rate is not None:
            check_real(
                "sampling_rate",
                self.sampling_rate,
                lower=1.0 / MOST_ROWS,
                upper=1.0,
                remedy="It is the share of rows in a step.",
            )
        if self.sampling_rate is not None and solver.epoch_steps > 1:
            raise CorrDPError(
                f"sampling_rate must be None with variance reduction (epoch_steps="
                f"{solver.epoch_steps}), got sampling_rate={self.sampling_rate!r}. Its "
                "differences are taken over all rows."
            )
        if self.calibration == Calibration.THEOREM and self.sampling_rate is not None:
            raise CorrDPError(
                f"sampling_rate must be None under calibration='theorem', got "
                f"sampling_rate={self.sampling_rate!r}. Its formulas are full-batch."
            )
        return method

    def _solver(self) -> Solver:
        if isinstance(self.solver, Solver):
            return self.solver
        named = {"gd": Solver(), "svrg": Solver(epoch_steps=SVRG_EPOCH_STEPS)}
        if self.solver not in named:
            raise CorrDPError(
                f"solver must be 'gd', 'svrg' or a Solver, got solver={self.solver!r}. "
                "Choose one."
            )
        return named[self.solver]

    def loss_of(self, policy: Policy) -> Loss:
        raise NotImplementedError


def checked_deviation(label_deviation: float | None) -> float:
    """Return the deviation that is planned with; what is assumed of labels if None."""
    if label_deviation is None:
        return LABEL_DEVIATION
    known = check_real("label_deviation", label_deviation, lower=0.0, upper=0.5)
    return min(max(known, LEAST_DEVIATION), LABEL_DEVIATION)
