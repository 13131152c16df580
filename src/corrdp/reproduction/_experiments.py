"""The paper's experiments as data: one description per figure, cells as units of work.

Settings are those of section 5 and appendix D; what the paper leaves open is decided
here and said on the page of findings.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from corrdp._json import decode_number, digest, encode_number
from corrdp._names import WHOLE_RECORD
from corrdp._typing import JSONObject
from corrdp.certificate import Calibration
from corrdp.exceptions import CorrDPError
from corrdp.policy import Budget, NeighborClass

# Raise when the same settings would train other models: saved cells are then redone.
ALGORITHM = 2
EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.7, 1.0, 2.0, 5.0, 10.0)
_FEW_EPSILONS = (0.1, 0.3, 1.0, 10.0)  # where training takes long
PRIVATE_METHODS = ("corr", "semi", "standard")
N_SEEDS = 20
_ANY_EPSILON = 1.0  # plans of methods without noise do not keep it
_QUICK_ROWS = 500
CALIBRATIONS = (Calibration.THEOREM, Calibration.CERTIFIED)  # left and right panels


class Model(StrEnum):
    """What is trained."""

    LINEAR = "linear"
    LOGISTIC = "logistic"
    NETWORK = "network"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """One figure of the paper.

    Its step and number of steps are those of the ``theorem`` runs, as are `epsilons`.
    """

    name: str
    title: str  # of its figure
    data: str  # synthetic, adult, credit_card, medical_cost or sepsis
    model: Model
    delta: float = 1e-5  # of every budget
    step_size: float  # constant
    n_steps: int
    n_rows: int | None = None  # drawn from the table; None for all of them
    n_sensitive: int = 10  # columns of the synthetic data
    roles: str = "appendix"  # which of two partitions of Medical Cost (E22)
    batch_size: int | None = None  # of networks: rows per step
    clip_norm: float = math.inf  # of networks: of one record's gradient
    hidden_units: int = 0  # of networks: first layer
    partial: bool = False  # has the figure the method without sensitive features?
    epsilons: tuple[float, ...] = EPSILONS
    certified_epsilons: tuple[float, ...] = EPSILONS

    @property
    def classifies(self) -> bool:
        """Whether the label is one of two classes, and not a number."""
        return self.data in ("adult", "credit_card", "sepsis")

    @property
    def metric(self) -> str:
        """What a score is."""
        return "accuracy" if self.classifies else "R squared"

    def budgets(self, calibration: Calibration) -> tuple[float, ...]:
        """Return the epsilons of one calibration."""
        if calibration is Calibration.THEOREM:
            return self.epsilons
        return self.certified_epsilons

    def cells(self, n_seeds: int) -> Iterator["Cell"]:
        """Yield every cell; methods without noise have an infinite epsilon."""
        for calibration in CALIBRATIONS:
            for method in PRIVATE_METHODS:
                for epsilon in self.budgets(calibration):
                    yield Cell(self, calibration, method, epsilon, n_seeds)
            plain = ("nonprivate", "partial") if self.partial else ("nonprivate",)
            for method in plain:
                yield Cell(self, calibration, method, math.inf, n_seeds)

    def quick(self) -> "Experiment":
        """Return a small version for tests: fewer rows, steps and budgets."""
        return replace(
            self,
            n_rows=_QUICK_ROWS,
            n_steps=min(self.n_steps, 100),
            batch_size=self.batch_size and min(self.batch_size, _QUICK_ROWS),
            epsilons=(0.3, 3.0),
            certified_epsilons=(0.3,),
        )


@dataclass(frozen=True)
class Cell:
    """One point of one curve: all seeds of a method at an epsilon."""

    experiment: Experiment
    calibration: Calibration  # the paper's noise, or the certified one
    method: str  # corr, semi, standard, partial or nonprivate
    epsilon: float  # nominal; infinite without noise
    n_seeds: int  # models, seeded 0, 1, ...

    @property
    def is_private(self) -> bool:
        """Whether noise is added."""
        return self.method in PRIVATE_METHODS

    @property
    def budget(self) -> Budget:
        """What a plan is asked to keep; without noise any will do."""
        epsilon = self.epsilon if self.is_private else _ANY_EPSILON
        return Budget(epsilon=epsilon, delta=self.experiment.delta)

    def to_json(self) -> JSONObject:
        """Return by what a saved result is found again."""
        return {
            "experiment": self.experiment.name,
            "calibration": self.calibration.value,
            "method": self.method,
            "epsilon": encode_number(self.epsilon),
        }

    def key(self) -> str:
        """Return the hash of everything that decides the result."""
        settings = asdict(self.experiment)
        for name in ("title", "epsilons", "certified_epsilons", "partial"):
            del settings[name]
        return digest(
            {
                "algorithm": ALGORITHM,
                "experiment": {name: str(value) for name, value in settings.items()},
                "calibration": self.calibration.value,
                "method": self.method,
                "epsilon": str(self.epsilon),
                "n_seeds": self.n_seeds,
            }
        )


@dataclass(frozen=True)
class CellResult:
    """What training a cell gave.

    `provable` is the epsilon that is proved for each neighbor class, at the delta of
    the experiment, and empty without noise; `provable_epsilon` is what they imply,
    infinite if some promised class has none.
    """

    scores: tuple[float, ...]  # one per seed; one alone if nothing is random
    provable: Mapping[str, float] = field(default_factory=dict)
    provable_epsilon: float = math.inf
    lipschitz: float | None = None  # under theorem: the gradient bound L behind
    constant: float | None = None  # the paper's C

    def to_json(self) -> JSONObject:
        """Return a JSON-able description that `from_json` reads back equal."""
        return {
            "scores": list(self.scores),
            "provable": {k: encode_number(v) for k, v in self.provable.items()},
            "provable_epsilon": encode_number(self.provable_epsilon),
            "lipschitz": self.lipschitz,
            "constant": self.constant,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "CellResult":
        """Read what `to_json` wrote, among other fields."""
        return cls(
            scores=tuple(document["scores"]),
            provable={k: decode_number(v) for k, v in document["provable"].items()},
            provable_epsilon=decode_number(document["provable_epsilon"]),
            lipschitz=document["lipschitz"],
            constant=document["constant"],
        )


def implied_epsilon(
    classes: Iterable[NeighborClass], provable: Mapping[str, float]
) -> float:
    """Return the CorrDP epsilon: the largest distance times epsilon that is promised.

    What is proved of a change of the whole record is proved of every other.
    """
    whole = provable.get(WHOLE_RECORD, math.inf)
    return max(
        c.distance * min(provable.get(c.name, whole), whole)
        for c in classes
        if c.promised
    )


def _synthetic(n_sensitive: int) -> Experiment:
    main = n_sensitive == 10
    return Experiment(
        name="synthetic" if main else f"synthetic-ms-{n_sensitive}",
        title=f"Synthetic data, least squares, m_s = {n_sensitive}",
        data="synthetic",
        model=Model.LINEAR,
        delta=1e-4,
        step_size=0.001,
        n_steps=4000,
        n_rows=2000,
        n_sensitive=n_sensitive,
        partial=main,
        certified_epsilons=EPSILONS if main else _FEW_EPSILONS,
    )


_ALL = (
    _synthetic(10),
    *(_synthetic(n_sensitive) for n_sensitive in (5, 20, 50, 80)),
    Experiment(
        name="adult",
        title="Adult, logistic regression",
        data="adult",
        model=Model.LOGISTIC,
        step_size=0.05,
        n_steps=5000,
        partial=True,
    ),
    Experiment(
        name="sepsis",
        title="Sepsis, network with 5 units",
        data="sepsis",
        model=Model.NETWORK,
        step_size=0.005,
        n_steps=200,
        n_rows=10_000,
        batch_size=1024,
        clip_norm=5.0,
        hidden_units=5,
        certified_epsilons=_FEW_EPSILONS,
    ),
    Experiment(
        name="credit",
        title="Credit Card, logistic regression",
        data="credit_card",
        model=Model.LOGISTIC,
        step_size=0.005,
        n_steps=2000,
    ),
    Experiment(
        name="medical-linear",
        title="Medical Cost, linear regression",
        data="medical_cost",
        model=Model.LINEAR,
        step_size=0.001,
        n_steps=5000,
        n_rows=1000,
    ),
    Experiment(
        name="medical-nn",
        title="Medical Cost, network with 20 units",
        data="medical_cost",
        model=Model.NETWORK,
        step_size=0.005,
        n_steps=1000,
        n_rows=1000,
        batch_size=1000,
        clip_norm=10.0,
        hidden_units=20,
        certified_epsilons=_FEW_EPSILONS,
    ),
)
EXPERIMENTS: Mapping[str, Experiment] = {one.name: one for one in _ALL}
_VARIED = tuple(name for name in EXPERIMENTS if name.startswith("synthetic-ms"))
GROUPS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in EXPERIMENTS if name not in _VARIED},
    "synthetic-ms": _VARIED,
    "tables": (),
    "all": tuple(EXPERIMENTS),
}


def experiments(name: str, *, quick: bool = False) -> tuple[Experiment, ...]:
    """Return the experiments that a name of the command line stands for."""
    if name not in GROUPS:
        raise CorrDPError(
            f"the experiment must be one of {', '.join(GROUPS)}, got {name!r}. "
            "Choose one."
        )
    chosen = tuple(EXPERIMENTS[one] for one in GROUPS[name])
    return tuple(one.quick() for one in chosen) if quick else chosen
