"""Finished cells on disk: one file each, named by the hash of its settings."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from corrdp._json import decode_number, encode_number
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._experiments import Cell, CellResult


class CellCache:
    """Results by cell; a changed setting is another file, so nothing goes stale.

    Parameters
    ----------
    directory : path
        Where the files are; created when the first result is stored.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)

    def get(self, cell: Cell) -> CellResult | None:
        """Return a stored result, or None."""
        try:
            text = self._path(cell).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        document = json.loads(text)
        return CellResult(
            scores=tuple(document["scores"]),
            provable={k: decode_number(v) for k, v in document["provable"].items()},
            provable_epsilon=decode_number(document["provable_epsilon"]),
            lipschitz=document["lipschitz"],
            constant=document["constant"],
        )

    def put(self, cell: Cell, result: CellResult) -> None:
        """Store a result whole or not at all."""
        document: dict[str, Any] = {
            "experiment": cell.experiment.name,
            "calibration": cell.calibration.value,
            "method": cell.method,
            "epsilon": encode_number(cell.epsilon),
            "scores": list(result.scores),
            "provable": {k: encode_number(v) for k, v in result.provable.items()},
            "provable_epsilon": encode_number(result.provable_epsilon),
            "lipschitz": result.lipschitz,
            "constant": result.constant,
        }
        path = self._path(cell)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    json.dump(document, file, allow_nan=False)
                os.replace(name, path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            raise CorrDPError(
                f"cannot write {str(path.parent)!r} ({error.strerror}). Choose another "
                "directory."
            ) from None

    def _path(self, cell: Cell) -> Path:
        name = f"{cell.experiment.name}-{cell.method}-{cell.key()[:20]}.json"
        return self._directory / name
