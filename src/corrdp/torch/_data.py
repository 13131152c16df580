"""Rows of a training, from tensors, a data set or a data loader."""

import warnings
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from corrdp.exceptions import CorrDPError, UtilityWarning

Rows: TypeAlias = tuple[Tensor, Tensor] | Dataset[Any] | DataLoader[Any]


def rows_of(data: Rows) -> tuple[Tensor, Tensor, int | None]:
    """Return features, labels and the batch size that a data loader had.

    Parameters
    ----------
    data : tuple of Tensor, Dataset or DataLoader
        Features and labels; a data set whose items are pairs of them; or a loader of
        one. Items are read once, in order: transformations are not drawn anew.

    Returns
    -------
    features, labels : Tensor
        All rows.
    batch_size : int or None
        Of the loader, if it was one.

    Guarantee
    ---------
    None of its own: an item must be a function of its row. Order, sampler, shuffling
    and workers of a loader are not used; batches are Poisson samples
    (`docs/theory/sampling.md`).
    """
    batch_size = None
    if isinstance(data, DataLoader):
        batch_size = data.batch_size
        warnings.warn(
            f"the {type(data.sampler).__name__} of the data loader is replaced by "
            "Poisson sampling, which the price is for: batches have "
            f"{batch_size} rows on average, and not each the same number.",
            UtilityWarning,
            stacklevel=3,
        )
        data = data.dataset
    if isinstance(data, TensorDataset):
        return *_pair(data.tensors), batch_size
    if isinstance(data, Dataset):
        if not hasattr(data, "__len__"):
            raise CorrDPError(
                f"the data set {type(data).__name__} has no length, so a rate of "
                "sampling is not known. Pass a data set that can be indexed."
            )
        items = [data[index] for index in range(len(data))]
        return *_pair(default_collate(items)), batch_size
    return *_pair(data), batch_size


def _pair(parts: Any) -> tuple[Tensor, Tensor]:
    if (
        isinstance(parts, (tuple, list))
        and len(parts) == 2
        and all(isinstance(part, torch.Tensor) for part in parts)
    ):
        return parts[0], parts[1]
    raise CorrDPError(
        "data must be features and labels: two tensors, a data set whose items are "
        f"pairs, or a data loader of one, got {type(parts).__name__}. Join several "
        "inputs into one tensor."
    )
