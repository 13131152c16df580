"""Codes of a table or file in chunks of rows, at the declared resolution."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from numpy.typing import NDArray

from corrdp._frames import check_columns
from corrdp._tables import BATCH_ROWS, iter_batches
from corrdp.exceptions import PolicyError
from corrdp.leakage._counts import CodeColumns
from corrdp.policy import NumberDomain, Policy, PolicyEncoder


def iter_codes(
    data: Any, policy: Policy, features: Sequence[str]
) -> Iterator[CodeColumns]:
    """Yield codes of the named features, a chunk of rows at a time.

    Parameters
    ----------
    data : table, or path of a file
        A file is read in batches and never held whole.
    policy : Policy
        Domains, and the declared resolution of numbers.
    features : sequence of str
        Features to code.
    """
    encoder = PolicyEncoder(policy)
    check_resolution(policy, features)
    types = {name: np.min_scalar_type(encoder.n_codes[name] - 1) for name in features}
    for chunk in _chunks(data, policy, features):
        yield {
            name: codes.astype(types[name])
            for name, codes in _coded(chunk, encoder, features)
        }


def check_resolution(policy: Policy, features: Sequence[str]) -> None:
    """Raise `PolicyError` if a number among the features has no declared bins."""
    without = [
        name
        for name in features
        if isinstance(domain := policy.feature(name).domain, NumberDomain)
        and domain.bins is None
    ]
    if without:
        raise PolicyError(
            "Counting needs a declared resolution, and these numbers have none: "
            f"{', '.join(without)}. Declare features.<name>.bins for each."
        )


def _chunks(data: Any, policy: Policy, features: Sequence[str]) -> Iterator[Any]:
    if isinstance(data, str | Path):
        numbers = [
            name
            for name in features
            if isinstance(policy.feature(name).domain, NumberDomain)
        ]
        yield from iter_batches(data, features, number_columns=numbers)
        return
    if isinstance(data, np.ndarray):
        for start in range(0, len(data), BATCH_ROWS):
            yield data[start : start + BATCH_ROWS]
        return
    check_columns(data, features)
    frame = nw.from_native(data, eager_only=True)
    for start in range(0, len(frame), BATCH_ROWS):
        yield frame[start : start + BATCH_ROWS].to_native()


def _coded(
    chunk: Any, encoder: PolicyEncoder, features: Sequence[str]
) -> Iterator[tuple[str, NDArray[Any]]]:
    texts = [] if isinstance(chunk, np.ndarray) else _text_columns(chunk, features)
    for name in texts:
        yield name, _codes_by_dictionary(chunk, encoder, name)
    others = [name for name in features if name not in texts]
    if others:
        yield from zip(others, encoder.codes(chunk, others).T, strict=True)


def _text_columns(chunk: Any, features: Sequence[str]) -> list[str]:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return []
    frame = nw.from_native(chunk, eager_only=True)
    kinds = (nw.String, nw.Categorical)
    return [name for name in features if frame.get_column(name).dtype in kinds]


def _codes_by_dictionary(chunk: Any, encoder: PolicyEncoder, name: str) -> NDArray[Any]:
    """Encode each distinct text once: rows repeat few of them."""
    import pyarrow as pa

    column = nw.from_native(chunk, eager_only=True).get_column(name).to_arrow()
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    if not _is_text(column.type.value_type):
        return np.asarray(encoder.codes(chunk, [name])[:, 0])
    values = [*column.dictionary.to_pylist(), None]
    indices = column.indices.fill_null(len(values) - 1).to_numpy()
    used = np.flatnonzero(np.bincount(indices, minlength=len(values)))
    distinct = pa.array([values[index] for index in used], pa.string())
    codes = np.zeros(len(values), dtype=np.int64)
    codes[used] = encoder.codes(pa.table({name: distinct}), [name])[:, 0]
    return np.asarray(codes[indices])


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
