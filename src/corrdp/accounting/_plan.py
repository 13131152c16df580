"""Noise plans: all noise decided before any data is touched, with its price."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from corrdp._display import html_card
from corrdp._json import decode_number, encode_number
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import (
    check_count,
    check_delta,
    check_nonnegative_array,
    check_real,
)
from corrdp.accounting._allocation import step_mu
from corrdp.accounting._composition import epsilon_within
from corrdp.accounting._events import GaussianEvent, SampledGaussianEvent
from corrdp.accounting._sensitivity import SensitivityTable, read_only
from corrdp.exceptions import BudgetError, CorrDPError


@dataclass(frozen=True, eq=False)
class NoisePlan:
    """Noise per group, and what it proves for each neighbor class.

    Parameters
    ----------
    table : SensitivityTable
        How far each group moves under each class.
    noise_scale : array of float, shape (n_groups,)
        Standard deviation of the Gaussian noise on each coordinate of the group.
    allowed_epsilon : mapping of str to float
        Largest epsilon each class may have at `delta`; infinite for classes that are
        priced but not promised.
    delta : float
        Failure probability at which every class is priced.
    n_steps : int
        Number of releases of such a vector.
    rate : float, optional
        Poisson sampling rate; None means every record takes part in every step.

    Guarantee
    ---------
    `epsilon(c)` is proved for class ``c``: `docs/theory/gaussian.md` for full batches,
    `docs/theory/sampling.md` for sampled ones. Nothing is assumed of the data
    beyond the bounds in `table`.
    """

    table: SensitivityTable
    noise_scale: FloatArray
    allowed_epsilon: Mapping[str, float]
    delta: float
    n_steps: int = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        noise_scale = check_nonnegative_array("noise_scale", self.noise_scale, ndim=1)
        if noise_scale.shape != (len(self.table.groups),):
            raise CorrDPError(
                f"noise_scale must have one entry per group "
                f"({len(self.table.groups)}), got shape {noise_scale.shape}. "
                "Give a standard deviation for every group."
            )
        object.__setattr__(self, "noise_scale", read_only(noise_scale))
        object.__setattr__(
            self,
            "allowed_epsilon",
            MappingProxyType(check_allowed(self.table, self.allowed_epsilon)),
        )
        check_delta(self.delta)
        check_count("n_steps", self.n_steps)
        check_rate(self.table, self.rate)

    @property
    def scale_of_group(self) -> dict[str, float]:
        """Noise scale of every group, by its name."""
        names = (group.name for group in self.table.groups)
        return dict(zip(names, self.noise_scale.tolist(), strict=True))

    @cached_property
    def _step_mu(self) -> dict[str, float]:
        per_row = step_mu(self.table.bounds, self.noise_scale)
        names = np.array(self.table.classes)
        return {
            name: float(per_row[names == name].max()) for name in self.table.class_names
        }

    @cached_property
    def _prices(self) -> dict[str, float]:
        return {
            name: epsilon_within(
                (self.event(name),),
                delta=self.delta,
                allowed_epsilon=self.allowed_epsilon[name],
            )
            if self.covers(name)
            else math.inf
            for name in self.table.class_names
        }

    @property
    def step_contribution(self) -> float:
        """Largest norm of one record's part in one step, in units of the noise."""
        if self.table.contribution is None:
            raise CorrDPError(
                "the sensitivity table has no contribution, which sampling needs. "
                "Bound the norm of one record's part of every group."
            )
        return float(step_mu(self.table.contribution[None, :], self.noise_scale)[0])

    def step_change(self, class_name: str) -> float:
        """Return how far one step moves under a class, in units of the noise."""
        return self._step_mu[class_name]

    def covers(self, class_name: str) -> bool:
        """Return whether every group that moves under a class has noise."""
        moves = math.isfinite(self.step_change(class_name))
        return moves and (self.rate is None or math.isfinite(self.step_contribution))

    def event(self, class_name: str) -> GaussianEvent | SampledGaussianEvent:
        """Return what the whole release costs a class."""
        change = self.step_change(class_name)
        if self.rate is None:
            return GaussianEvent(mu=change, count=self.n_steps)
        contribution = self.step_contribution
        return SampledGaussianEvent(
            rate=self.rate,
            contribution=contribution,
            change=min(change, 2 * contribution),
            n_steps=self.n_steps,
        )

    def epsilon(self, class_name: str) -> float:
        """Return the epsilon proved for a class at `delta`; infinite if none is."""
        return self._prices[class_name]

    @property
    def fits(self) -> bool:
        """Whether every class stays within its allowed epsilon."""
        return all(
            self.epsilon(name) <= self.allowed_epsilon[name]
            for name in self.table.class_names
        )

    @property
    def weighted_variance(self) -> float:
        """Total noise variance per step, weighted by the groups' weights."""
        return float(
            np.sum(self.table.weights * self.table.sizes * self.noise_scale**2)
        )

    def to_json(self) -> JSONObject:
        """Return a JSON-able description that `from_json` reads back equal."""
        return {
            "table": self.table.to_json(),
            "noise_scale": self.noise_scale.tolist(),
            "allowed_epsilon": {
                name: encode_number(value)
                for name, value in self.allowed_epsilon.items()
            },
            "delta": self.delta,
            "n_steps": self.n_steps,
            "rate": self.rate,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "NoisePlan":
        """Read what `to_json` wrote."""
        return cls(
            table=SensitivityTable.from_json(document["table"]),
            noise_scale=np.array(document["noise_scale"], dtype=np.float64),
            allowed_epsilon={
                name: decode_number(value)
                for name, value in document["allowed_epsilon"].items()
            },
            delta=document["delta"],
            n_steps=document["n_steps"],
            rate=document["rate"],
        )

    def __reduce__(self) -> tuple[Any, tuple[JSONObject]]:
        return type(self).from_json, (self.to_json(),)

    def _repr_html_(self) -> str:
        return html_card(
            "Noise plan",
            [f"{self.n_steps} releases, delta {self.delta:g}"],
            ("group", "columns", "noise scale"),
            [
                (group.name, group.size, scale)
                for group, scale in zip(
                    self.table.groups, self.noise_scale.tolist(), strict=True
                )
            ],
        )

    def to_text(self) -> str:
        """Return the plan as two plain tables: noise by group, budget by class."""
        width = max(12, *(len(group.name) for group in self.table.groups))
        lines = [f"{'group':<{width}}  {'columns':>7}  {'noise_scale':>12}"]
        lines += [
            f"{group.name:<{width}}  {group.size:>7}  {scale:>12.6g}"
            for group, scale in zip(self.table.groups, self.noise_scale, strict=True)
        ]
        width = max(12, *(len(name) for name in self.table.class_names))
        lines += ["", f"{'class':<{width}}  {'allowed':>12}  {'proved':>12}"]
        for name in self.table.class_names:
            allowed = self.allowed_epsilon[name]
            shown = f"{allowed:.6g}" if math.isfinite(allowed) else "not promised"
            lines.append(f"{name:<{width}}  {shown:>12}  {self.epsilon(name):>12.6g}")
        batch = "full batch" if self.rate is None else f"Poisson rate {self.rate:g}"
        lines += ["", f"steps {self.n_steps}, {batch}, delta {self.delta:g}"]
        return "\n".join(lines)


def check_allowed(
    table: SensitivityTable, allowed_epsilon: Mapping[str, float]
) -> dict[str, float]:
    """Return one positive epsilon per class of the table, or raise."""
    unknown = sorted(set(allowed_epsilon) - set(table.class_names))
    missing = sorted(set(table.class_names) - set(allowed_epsilon))
    if unknown or missing:
        raise BudgetError(
            f"allowed_epsilon must name the classes of the sensitivity table, got "
            f"unknown {unknown} and missing {missing}. Give every class an epsilon, "
            "infinite for one that is only priced."
        )
    return {
        name: check_real(
            f"allowed_epsilon[{name!r}]",
            allowed_epsilon[name],
            lower=0.0,
            open_lower=True,
            allow_infinite=True,
            error=BudgetError,
        )
        for name in table.class_names
    }


def check_rate(table: SensitivityTable, rate: float | None) -> None:
    """Raise unless the rate is None, or a rate the table can be sampled at."""
    if rate is None:
        return
    check_real("rate", rate, lower=0.0, upper=1.0, open_lower=True)
    if table.contribution is None:
        raise CorrDPError(
            f"rate={rate!r} needs contribution in the sensitivity table. "
            "Bound the norm of one record's part of every group."
        )
