"""What a fit leaves behind: a model of the table, from which rows are drawn."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp._typing import FloatArray, JSONObject
from corrdp._validate import check_count
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.synthesis._columns import TableColumns, opened
from corrdp.synthesis._constraints import Zeros
from corrdp.synthesis._estimation import rebuilt_model
from corrdp.synthesis._junction_tree import Region, n_cells
from corrdp.synthesis._model import Calibrated

FITTED_SHAPE = {
    "n_rows": int,
    "output": str,
    "pairs": [[str]],
    "potentials": [{"columns": [str], "values": [float]}],
}
"""Of what `FittedTable.to_json` writes."""

_KINDS = ("pandas", "polars", "pyarrow")


@dataclass(frozen=True, eq=False)
class FittedTable:
    """Parameters of the model by region, and how its codes become values.

    `zeros` are cells that never occur, `pairs` those that were chosen, `output` is the
    kind of table that `sample` returns unless told otherwise.
    """

    columns: TableColumns
    zeros: Zeros
    theta: Mapping[Region, FloatArray]
    n_rows: int
    pairs: tuple[Region, ...]
    output: str

    @cached_property
    def model(self) -> Calibrated:
        """The distribution of codes: a function of the parameters alone."""
        return rebuilt_model(self.theta, sizes=self.columns.sizes, zeros=self.zeros)

    def sample(
        self, n_rows: int | None, generator: np.random.Generator, output: str | None
    ) -> Any:
        """Return synthetic rows; see `Synthesizer.sample`."""
        size = self.n_rows if n_rows is None else check_count("n_rows", n_rows)
        codes = self.model.sample(size, generator)
        return self._frame(self.columns.values(codes, generator), output)

    def sample_given(
        self, given: Any, generator: np.random.Generator, output: str | None
    ) -> Any:
        """Return one synthetic row for each row of public columns."""
        frame = opened(given)
        names = self._public_columns(list(frame.columns))
        backend = self._backend(output)
        # Given values are returned as they came, not as the middle of their bins.
        known = [_of_kind(frame, name, backend) for name in names]
        fixed = self.columns.codes(given, names)
        codes = self.model.sample_given(
            {self.columns.index(name): fixed[:, i] for i, name in enumerate(names)},
            generator,
        )
        values = self.columns.values(codes, generator)
        drawn = self._frame({n: v for n, v in values.items() if n not in names}, output)
        whole = nw.from_native(drawn, eager_only=True).with_columns(known)
        return whole.select(list(values)).to_native()

    def to_json(self) -> JSONObject:
        """Return the parameters by column names; `from_json` reads them."""
        names = self.columns.names
        return {
            "n_rows": self.n_rows,
            "output": self.output,
            "pairs": [[names[c] for c in pair] for pair in self.pairs],
            "potentials": [
                {"columns": [names[c] for c in region], "values": own.ravel().tolist()}
                for region, own in self.theta.items()
            ],
        }

    @classmethod
    def from_json(
        cls, document: Mapping[str, Any], columns: TableColumns, zeros: Zeros
    ) -> "FittedTable":
        """Read what `to_json` wrote."""

        def region_of(names: list[str]) -> Region:
            return tuple(columns.index(name) for name in names)

        theta = {}
        for entry in document["potentials"]:
            region = region_of(entry["columns"])
            values = np.array(entry["values"], dtype=np.float64)
            ordered = region == tuple(sorted(set(region))) != ()
            if not ordered or values.size != n_cells(region, columns.sizes):
                raise CorrDPError(
                    f"the model is damaged: {values.size} numbers are no table of "
                    f"{', '.join(map(repr, entry['columns'])) or 'no column'}. Ask for "
                    "the original."
                )
            theta[region] = values.reshape([columns.sizes[c] for c in region])
        return cls(
            columns,
            zeros,
            theta,
            check_count("n_rows", document["n_rows"]),
            tuple(region_of(pair) for pair in document["pairs"]),
            document["output"],
        )

    def _public_columns(self, names: list[str]) -> list[str]:
        public = self.columns.policy.unprotected
        stray = [name for name in names if name not in public]
        if stray or not names:
            raise PolicyError(
                "given may hold public columns only, got "
                f"{', '.join(map(repr, stray)) or 'no column'}. "
                f"Public columns: {', '.join(public) or 'none'}."
            )
        return names

    def _backend(self, output: str | None) -> str:
        backend = output or self.output
        if backend not in _KINDS:
            raise _unknown(backend)
        return backend

    def _frame(self, values: Mapping[str, list[Any]], output: str | None) -> Any:
        backend: Any = self._backend(output)
        types = self.columns.schema(backend)
        try:
            made = nw.from_dict(
                dict(values),
                {name: types[name] for name in values},
                backend=backend,
            )
            if backend == "pandas":  # before 3, it casts gaps among texts to "None"
                made = made.with_columns(
                    *(
                        nw.new_series(name, column, backend=backend)
                        for name, column in values.items()
                        if types[name] is nw.String
                        and None in column
                        and made[name].null_count() == 0
                    )
                )
        except ImportError:
            raise _unknown(backend) from None
        return made.to_native()


def plain(setting: Any) -> Any:
    """Return a setting as a file holds it, before anything is paid for.

    Numbers of numpy and their like become numbers; an end of an interval that is
    infinite becomes one beyond all bounds.
    """
    if isinstance(setting, Mapping):
        return {
            name if isinstance(name, tuple) else plain(name): plain(value)
            for name, value in setting.items()
        }
    if isinstance(setting, list | tuple):
        return [plain(value) for value in setting]
    if isinstance(setting, np.generic):
        setting = setting.item()
    if isinstance(setting, Real) and not isinstance(setting, int):
        setting = float(np.nan_to_num(float(setting), nan=math.nan))
    return setting


def _unknown(output: Any) -> CorrDPError:
    return CorrDPError(
        f"output must be {', '.join(_KINDS[:-1])} or {_KINDS[-1]}, and installed, got "
        f"output={output!r}. Choose one."
    )


def _of_kind(frame: nw.DataFrame[Any], name: str, backend: Any) -> nw.Series[Any]:
    """Return a column of a table as one of a table of another kind."""
    column = frame.get_column(name)
    if kind_of(frame) == backend:
        return column
    try:
        import pyarrow as pa

        if column.dtype == nw.Object:  # of which polars hands on where they lie
            alone = pa.table({name: pa.array(column.to_list(), from_pandas=True)})
        else:
            alone = frame.select(name).to_arrow()
        return nw.from_arrow(alone, backend=backend).get_column(name)
    except ImportError:
        raise _unknown(backend) from None
    except Exception:  # whatever it says may quote a cell
        raise CorrDPError(
            f"column {name!r} of given holds values of several types, of which no "
            f"column of {backend} is made. Convert them to one, or choose another "
            "output."
        ) from None


def kind_of(frame: nw.DataFrame[Any]) -> str:
    """Return ``pandas``, ``polars`` or ``pyarrow``."""
    return str(frame.implementation.name).lower()
