"""`Synthesizer`: a synthetic table under a policy, with its certificate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from corrdp._json import check_shape
from corrdp._random import check_seed, noise_generator
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_choice, check_count
from corrdp.certificate import Calibration, Certificate
from corrdp.engines import refuse_hosted
from corrdp.estimators import read_model, write_model
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage import policy_read, resolve_leakage
from corrdp.ledger import Ledger, require_recorded
from corrdp.policy import Budget, Method, Policy, protected_policy, require_policy
from corrdp.synthesis._budget import Selection, SynthesisPlan, plan_synthesis
from corrdp.synthesis._columns import DEFAULT_BINS, TableColumns, opened
from corrdp.synthesis._constraints import Zeros, structural_zeros
from corrdp.synthesis._estimation import combined, fit_model, softened
from corrdp.synthesis._fitted import FITTED_SHAPE, FittedTable, kind_of, plain
from corrdp.synthesis._junction_tree import Region, junction_tree
from corrdp.synthesis._quality import measure_quality
from corrdp.synthesis._release import Release, release_tables
from corrdp.synthesis._structure import TableShape

MAX_CELLS = 100_000
_METHODS = (Method.CORR, Method.STANDARD, Method.SEMI)
# What a saved synthesizer was made with; versions before had fewer of them.
_PARAMETERS = {
    "epsilon": float,
    "delta": float,
    "method": str,
    "selection": str,
    "bins": int,
    "shapes": {...: str},
    "impossible": [{}],
    "determines": [{"column": str, "gives": str, "values": {}}],
    "max_cells": int,
    "random_state": (int, None),
}


class Synthesizer:
    """Learn a table under a policy; draw synthetic rows of the same columns.

    Single columns and pairs of columns are counted with noise, a graphical model is
    chosen from the noisy tables, the rest of the budget measures what was chosen again,
    pairs with the label as triples. A table without sensitive columns does not move
    when sensitive features change, so it costs little: this is where CorrDP gains most.

    Parameters
    ----------
    policy : Policy
        Roles, domains, label. Numbers without bins get `bins` equal ones.
    epsilon, delta : float
        Budget of everything together.
    leakage : None, mapping, float, or LeakageTable
        Distances; what a policy declares by default.
    method : str
        ``corr``, ``standard`` (ordinary DP) or ``semi``.
    selection : str
        ``screen``: all pairs are measured roughly, what the model holds is chosen from
        them for free. ``adaptive``: round by round the table that the model explains
        worst is chosen, which is paid for, and measured. ``auto``: adaptive where
        screening would see too little through its noise, by public numbers;
        `plan_.selection` says which.
    bins : int
        Bins of numbers that declare none.
    shapes : mapping of str to str, optional
        How numbers are drawn inside their bins: ``uniform`` (default), ``whole``
        numbers, or the ``lower`` edge.
    impossible, determines : sequence of mapping
        Combinations that never occur, and columns that determine others; respected by
        every synthetic row. See `docs/synthesis.md`.
    max_cells : int
        Most cells of the model: bounds time and memory.
    random_state : int, optional
        A seed, for research: whoever knows it can subtract the noise.

    Attributes
    ----------
    certificate_ : Certificate
        What was released, priced per class.
    plan_ : SynthesisPlan
        Noise and limits, decided before any row was read; not saved.
    policy_ : Policy
        The policy that is kept.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy, whatever number of rows is drawn: sampling
    is post-processing (`docs/theory/synthesis.md`).

    Examples
    --------
    >>> from corrdp.datasets import hospital_policy, hospital_table
    >>> from corrdp.synthesis import Synthesizer
    >>> table = hospital_table(random_state=0)
    >>> maker = Synthesizer(hospital_policy(), epsilon=1.0, delta=1e-6).fit(table)
    >>> rows = maker.sample(100, random_state=0)
    >>> list(rows.columns) == list(table.columns)
    True
    """

    certificate_: Certificate
    plan_: SynthesisPlan
    policy_: Policy
    _fitted: FittedTable | None = None
    _settings: JSONObject  # as they were at the fit
    quality = measure_quality

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        leakage: Any = None,
        method: str = "corr",
        selection: str = "auto",
        bins: int = DEFAULT_BINS,
        shapes: Mapping[str, str] | None = None,
        impossible: Sequence[Mapping[str, Any]] = (),
        determines: Sequence[Mapping[str, Any]] = (),
        max_cells: int = MAX_CELLS,
        random_state: int | None = None,
    ) -> None:
        self.policy = policy
        self.epsilon = epsilon
        self.delta = delta
        self.leakage = leakage
        self.method = method
        self.selection = selection
        self.bins = bins
        self.shapes = shapes
        self.impossible = impossible
        self.determines = determines
        self.max_cells = max_cells
        self.random_state = random_state

    def plan(self, n_rows: int) -> SynthesisPlan:
        """Return the noise for a table of `n_rows` rows, reading no data.

        Guarantee
        ---------
        A function of the policy, the budget and the public number of rows
        (`docs/theory/synthesis.md`).
        """
        declared = self._declared()
        return self._planned(declared, self._columns(declared), n_rows)

    def _planned(
        self, declared: Policy, columns: TableColumns, n_rows: int
    ) -> SynthesisPlan:
        method = Method(check_choice("method", self.method, _METHODS))
        policy = protected_policy(declared, method)
        return plan_synthesis(
            policy,
            columns,
            n_rows=check_count("n_rows", n_rows),
            budget=Budget.chosen(epsilon=self.epsilon, delta=self.delta),
            leakage=resolve_leakage(
                policy,
                self.leakage,
                declared=declared,
                calibration=Calibration.CERTIFIED,
            ),
            max_cells=check_count("max_cells", self.max_cells),
            selection=Selection(check_choice("selection", self.selection, Selection)),
        )

    def shape(self, n_rows: int) -> TableShape:
        """Return the public facts of a table of `n_rows` rows."""
        return self._shaped(self._columns(self._declared()), n_rows)

    def _shaped(self, columns: TableColumns, n_rows: int) -> TableShape:
        return TableShape(
            columns.sizes, n_rows, columns.label, self.max_cells, self._zeros(columns)
        )

    def fit(
        self,
        table: Any,
        *,
        ledger: Ledger | None = None,
        accept_new_data: bool = False,
    ) -> Self:
        """Release noisy tables and fit the model that synthetic rows are drawn from.

        Parameters
        ----------
        table : table
            pandas, polars or pyarrow, with the policy's columns and the label.
        ledger : Ledger, optional
            Charged before anything is counted; what it raises stops the fit.
        accept_new_data : bool
            Whether the ledger accepts a table other than that of earlier charges.
        """
        refuse_hosted(table, "a synthesizer")
        check_seed(self.random_state)
        declared = self._declared()
        declared.require_confirmed()
        columns = self._columns(declared)
        frame = opened(table)
        n_rows = len(frame)
        if n_rows == 0:
            raise CorrDPError("the table has no rows. Pass at least one.")
        settings = self._plain_settings()
        plan = self._planned(declared, columns, n_rows)
        plan.budget.warn_if_large_delta(n_rows)
        shape = self._shaped(columns, n_rows)
        if not shape.fits:
            joined = {column for region, _ in shape.zeros for column in region}
            raise PolicyError(
                f"the declared zeros need more than max_cells={self.max_cells}. "
                f"Coarsen their columns, the largest first: {columns.largest(joined)}; "
                "or raise max_cells."
            )
        if not shape.is_possible:
            raise PolicyError(
                "the declared zeros leave no possible row: together they exclude every "
                "combination. Remove one of them."
            )
        codes = columns.codes(table)
        certificate = plan.certificate(replayable_noise=self.random_state is not None)
        if ledger is not None:
            self._pay(ledger, plan, table, accept_new_data)
        release = release_tables(
            codes,
            plan,
            shape,
            noise=noise_generator(self.random_state, purpose="synthesis"),
            choices=np.random.default_rng(self.random_state),
        )
        self._fitted = FittedTable(
            columns,
            shape.zeros,
            estimated_parameters(release, shape),
            n_rows,
            release.chosen,
            kind_of(frame),
        )
        self.plan_, self.policy_, self.certificate_ = plan, plan.policy, certificate
        self._settings = settings
        return self

    def sample(
        self,
        n_rows: int | None = None,
        *,
        given: Any = None,
        random_state: int | None = None,
        output: str | None = None,
    ) -> Any:
        """Return synthetic rows.

        Parameters
        ----------
        n_rows : int, optional
            How many; as many as the table had, or as `given` has, by default.
        given : table, optional
            Rows of some or all *public* features: the others are drawn given these.
        random_state : int, optional
            A seed; drawing costs nothing and may be repeated.
        output : str, optional
            ``pandas``, ``polars`` or ``pyarrow``; that of the fitted table by default.

        Guarantee
        ---------
        Post-processing of what was released (`docs/theory/synthesis.md`).
        """
        fitted = self._require_fitted()
        check_seed(random_state)
        generator = np.random.default_rng(random_state)
        if given is None:
            return fitted.sample(n_rows, generator, output)
        n_given = len(opened(given))
        if n_rows not in (None, n_given):
            raise CorrDPError(
                f"n_rows={n_rows!r} and given has {n_given} rows. Leave n_rows out."
            )
        return fitted.sample_given(given, generator, output)

    @property
    def pairs_(self) -> tuple[tuple[str, ...], ...]:
        """Pairs of columns that the model holds, in the order in which they joined."""
        fitted = self._require_fitted()
        names = fitted.columns.names
        return tuple(tuple(names[c] for c in pair) for pair in fitted.pairs)

    def save(self, directory: str | Path) -> None:
        """Write model, policy and certificate to a directory; see `load`."""
        fitted = self._require_fitted()
        content: JSONObject = {
            "kind": type(self).__name__,
            "parameters": self._settings,
            "fitted": fitted.to_json(),
        }
        write_model(directory, content, self.policy_, self.certificate_)

    @classmethod
    def load(cls, directory: str | Path) -> Self:
        """Read a saved synthesizer; whatever was changed since is refused.

        Raises
        ------
        GuaranteeVoidError
            A file was changed, or the certificate cannot be recomputed.
        """
        content, policy, certificate = read_model(directory)
        if content.get("kind") != cls.__name__ or certificate is None:
            raise CorrDPError(
                f"the directory holds a {content.get('kind')!r}, not a "
                f"{cls.__name__!r}. Load it with the class of that name."
            )
        check_shape(content, {"parameters": {}, "fitted": FITTED_SHAPE}, "model")
        parameters = content["parameters"]
        for name, value in parameters.items():
            if name not in _PARAMETERS:
                raise CorrDPError(
                    f"the model is damaged: it was made with a parameter {name!r} that "
                    f"no {cls.__name__} has. Ask for the original."
                )
            check_shape(value, _PARAMETERS[name], f"model.parameters.{name}")
        maker = cls(policy, **parameters)
        columns = maker._columns(policy)
        maker._fitted = FittedTable.from_json(
            content["fitted"], columns, maker._zeros(columns, is_saved=True)
        )
        maker.policy_, maker.certificate_ = policy, certificate
        maker._settings = maker._plain_settings()
        return maker

    def _plain_settings(self) -> JSONObject:
        settings = {name: plain(getattr(self, name)) for name in _PARAMETERS}
        return settings | {"shapes": settings["shapes"] or {}}

    def _declared(self) -> Policy:
        declared = require_policy(self.policy)
        declared.require_single_rows("synthesis")
        return policy_read(declared, self.leakage)

    def _columns(self, policy: Policy) -> TableColumns:
        return TableColumns(policy, check_count("bins", self.bins), self.shapes or {})

    def _zeros(self, columns: TableColumns, *, is_saved: bool = False) -> Zeros:
        return structural_zeros(
            columns,
            impossible=plain(self.impossible),
            determines=plain(self.determines),
            max_cells=self.max_cells,
            is_saved=is_saved,
        )

    def _pay(
        self, ledger: Ledger, plan: SynthesisPlan, table: Any, accept_new_data: bool
    ) -> None:
        """Charge the tables, and the leakage unless the ledger knows it is paid for."""
        events = {name: list(own) for name, own in plan.charged_events().items()}
        spent = plan.leakage.spent
        if spent:
            require_recorded(ledger, self.leakage)
        if spent and not ledger.has_paid(self.leakage.digest):
            for name, own in events.items():
                for part in spent:
                    own.extend(part.events_of(name) or ())
        # Joined levels make a policy that nobody could have registered before.
        ledger.introduce(plan.policy, leakage=plan.leakage.distances)
        ledger.charge_for_rows(
            table,
            events,
            policy=plan.policy,
            purpose=f"synthetic table, method {self.method}",
            accept_new_data=accept_new_data,
        )

    @property
    def planned_(self) -> dict[str, int]:
        """What a plan takes besides the parameters, to be made again."""
        return {} if self._fitted is None else {"n_rows": self._fitted.n_rows}

    def _require_fitted(self) -> FittedTable:
        if self._fitted is None:
            raise CorrDPError("the synthesizer is not fitted yet. Call fit first.")
        return self._fitted


def estimated_parameters(
    release: Release, shape: TableShape
) -> dict[Region, FloatArray]:
    """Fit the model on every noisy table that its junction tree can hold."""
    wanted = [*shape.required, *release.chosen]
    if release.refined is not None:
        wanted += release.refined.regions
    tree = junction_tree(wanted, shape.sizes)
    held = [table for table in release.tables if tree.holds(table.region)]
    return fit_model(
        tree,
        softened(combined(held)),
        n_rows=shape.n_rows,
        sizes=shape.sizes,
        zeros=shape.zeros,
    )[1]
