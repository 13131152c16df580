"""How far each group of a released vector can move under each neighbor class."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from corrdp._names import WHOLE_RECORD
from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count, check_nonnegative_array, check_real
from corrdp.exceptions import CorrDPError, GuaranteeVoidError


@dataclass(frozen=True)
class Group:
    """Coordinates that share one noise scale.

    Parameters
    ----------
    name : str
        Name shown in plans and reports.
    size : int
        Number of coordinates.
    features : tuple of str
        Raw features whose coordinates these are; empty for an intercept.
    weight : float
        Cost of one unit of variance on each coordinate.
    """

    name: str
    size: int
    features: tuple[str, ...] = ()
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_count(f"size of group {self.name!r}", self.size)
        check_real(
            f"weight of group {self.name!r}", self.weight, lower=0.0, open_lower=True
        )


@dataclass(frozen=True, eq=False)
class SensitivityTable:
    """Bounds Delta[row, group] on how far the sum over records moves, in 2-norm.

    A neighbor class may own several rows: its worst case is then one of them. The
    class ``whole_record`` must be present, because every certificate prices it.

    Parameters
    ----------
    groups : tuple of Group
        Columns of the table.
    classes : tuple of str
        Neighbor class of each row.
    bounds : array of float, shape (n_rows, n_groups)
        Largest movement of the group, in the units of the released vector.
    contribution : array of float, shape (n_groups,), optional
        Largest norm of one record's part of the group; needed for sampling only.
    """

    groups: tuple[Group, ...]
    classes: tuple[str, ...]
    bounds: FloatArray
    contribution: FloatArray | None = None

    def __post_init__(self) -> None:
        bounds = check_nonnegative_array(
            "sensitivity bounds", self.bounds, ndim=2, error=GuaranteeVoidError
        )
        names = [group.name for group in self.groups]
        if len(set(names)) != len(names):
            raise CorrDPError(f"group names must differ, got {names}. Rename one.")
        if bounds.shape != (len(self.classes), len(self.groups)):
            raise CorrDPError(
                f"sensitivity bounds must have shape (rows, groups) = "
                f"({len(self.classes)}, {len(self.groups)}), got {bounds.shape}. "
                "Give one row per entry of classes and one column per group."
            )
        if WHOLE_RECORD not in self.classes:
            named = ", ".join(sorted(set(self.classes))) or "none"
            raise CorrDPError(
                f"classes must contain {WHOLE_RECORD!r}, got {named}. Add a row that "
                "bounds a change of the whole record."
            )
        object.__setattr__(self, "bounds", read_only(bounds))
        if self.contribution is not None:
            contribution = check_nonnegative_array(
                "contribution", self.contribution, ndim=1, error=GuaranteeVoidError
            )
            if contribution.shape != (len(self.groups),):
                raise CorrDPError(
                    f"contribution must have one entry per group ({len(self.groups)}), "
                    f"got shape {contribution.shape}. Bound every group's norm."
                )
            object.__setattr__(self, "contribution", read_only(contribution))

    @property
    def class_names(self) -> tuple[str, ...]:
        """Neighbor classes in order of first appearance."""
        return tuple(dict.fromkeys(self.classes))

    @property
    def sizes(self) -> FloatArray:
        """Number of coordinates of each group."""
        return np.array([group.size for group in self.groups], dtype=np.float64)

    @property
    def weights(self) -> FloatArray:
        """Cost per unit of variance of each group."""
        return np.array([group.weight for group in self.groups], dtype=np.float64)

    def rows_of(self, class_name: str) -> FloatArray:
        """Return the rows of one class, shape (rows of the class, n_groups)."""
        return self.bounds[[name == class_name for name in self.classes]]

    def to_json(self) -> JSONObject:
        """Return a JSON-able description that `from_json` reads back equal."""
        return {
            "groups": [
                asdict(group) | {"features": list(group.features)}
                for group in self.groups
            ],
            "classes": list(self.classes),
            "bounds": self.bounds.tolist(),
            "contribution": (
                None if self.contribution is None else self.contribution.tolist()
            ),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "SensitivityTable":
        """Read what `to_json` wrote."""
        contribution: Sequence[float] | None = document["contribution"]
        return cls(
            groups=tuple(
                Group(**(group | {"features": tuple(group["features"])}))
                for group in document["groups"]
            ),
            classes=tuple(document["classes"]),
            bounds=np.array(document["bounds"], dtype=np.float64).reshape(
                len(document["classes"]), len(document["groups"])
            ),
            contribution=None if contribution is None else np.array(contribution),
        )


def read_only(array: FloatArray) -> FloatArray:
    """Return a copy that nobody can change."""
    frozen = array.copy()
    frozen.flags.writeable = False
    return frozen
