"""Codes of a table or file in chunks of rows, at the declared resolution.

A table that an engine holds is coded and counted where its rows are.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from corrdp.engines import Answer, hosted_sums, is_hosted
from corrdp.exceptions import PolicyError
from corrdp.leakage._counts import (
    CodeColumns,
    ContingencyCounts,
    CountLayout,
    count_codes,
)
from corrdp.policy import NumberDomain, Policy, PolicyEncoder, number_columns
from corrdp.tables import (
    BATCH_ROWS,
    check_columns,
    files_of,
    is_source,
    iter_batches,
)


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
    check_readable(data, policy, features)
    check_resolution(policy, features)
    encoder = PolicyEncoder(policy)
    types = {name: np.min_scalar_type(encoder.n_codes[name] - 1) for name in features}
    for chunk in _chunks(data, policy, features):
        codes = encoder.codes(chunk, features).T
        yield {
            name: column.astype(types[name])
            for name, column in zip(features, codes, strict=True)
        }


def check_resolution(policy: Policy, features: Sequence[str]) -> None:
    """Raise `PolicyError` unless every number among the features has bins, two or more.

    In one bin nothing is told apart, so that whatever a number gives away, or what is
    given away of it, would count as 0.
    """
    domains = {name: policy.feature(name).domain for name in features}
    bins = {n: d.bins for n, d in domains.items() if isinstance(d, NumberDomain)}
    single = [name for name, count in bins.items() if count == 1]
    if single:
        raise PolicyError(
            f"One bin tells no values apart, and these numbers have one: "
            f"{', '.join(single)}. Declare two or more for each "
            "(features.<name>.bins; label.bins for the label), or the leakage."
        )
    without = [name for name, count in bins.items() if count is None]
    if without:
        raise PolicyError(
            "Counting needs a declared resolution, and these numbers have none: "
            f"{', '.join(without)}. Declare bins for each (features.<name>.bins; "
            "label.bins for the label)."
        )


def check_readable(data: Any, policy: Policy, features: Sequence[str]) -> None:
    """Raise unless there is a file, or a table in memory with the named columns.

    No row is read: a private release asks before it is paid for.
    """
    if is_source(data):
        files_of(data)
    elif isinstance(data, np.ndarray):
        check_columns(data, [feature.name for feature in policy.features])
    elif not is_hosted(data):
        check_columns(data, features)


def _chunks(data: Any, policy: Policy, features: Sequence[str]) -> Iterator[Any]:
    if is_source(data):
        numbers = number_columns(policy.feature(name) for name in features)
        yield from iter_batches(data, features, number_columns=numbers)
        return
    if isinstance(data, np.ndarray):
        for start in range(0, len(data), BATCH_ROWS):
            yield data[start : start + BATCH_ROWS]
        return
    frame = nw.from_native(data, eager_only=True)
    for start in range(0, len(frame), BATCH_ROWS):
        yield frame[start : start + BATCH_ROWS].to_native()


def counts_of(
    data: Any, policy: Policy, layout: CountLayout, *, n_threads: int = 2
) -> ContingencyCounts:
    """Return the exact counts of a table, here or where an engine holds it."""
    if is_hosted(data):
        return hosted_counts(data, policy, layout)
    chunks = iter_codes(data, policy, layout.features)
    return count_codes(chunks, layout, n_threads=n_threads)


def hosted_counts(data: Any, policy: Policy, layout: CountLayout) -> ContingencyCounts:
    """Return the counts of all partitions of a table that an engine holds.

    Guarantee
    ---------
    Exact counts, as `count_codes` gives for the same rows in any order: nothing here
    is private (docs/theory/scale.md, Proposition 4).
    """
    check_resolution(policy, layout.features)
    count = partial(_tables_of, policy=policy, layout=layout)
    return ContingencyCounts(layout, tuple(hosted_sums(data, layout.features, count)))


def _tables_of(table: Any, policy: Policy, layout: CountLayout) -> Answer:
    chunks = iter_codes(table, policy, layout.features)
    return count_codes(chunks, layout, n_threads=1).tables
