"""Rows of a training, and batches drawn from them by Poisson sampling."""

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset, default_collate

from corrdp.exceptions import CorrDPError, GuaranteeVoidError, UtilityWarning
from corrdp.torch._ranks import Ranks
from corrdp.torch._rows import versions


class PoissonLoader:
    """Yield one batch per planned step; every row joins each by its own coin.

    Parameters
    ----------
    features, labels : Tensor
        One row per record; kept as they are and gathered by index.
    rate : float, optional
        Probability that a row joins a batch; None for all rows in every batch.
    n_steps : int
        Number of batches.
    generator : numpy.random.Generator
        Secret randomness: who knows which rows were drawn has no use for the
        sampling in the proof.
    ranks : Ranks, optional
        The processes that hold the rows; this one alone by default.

    Guarantee
    ---------
    The set of rows is a Poisson sample: a binomial count, then that many distinct rows
    uniformly, has the same law as one coin per row. Batches may be empty. What sampling
    is worth is `docs/theory/sampling.md`. Of several processes rank 0 draws one sample
    of the rows of all (`docs/theory/networks.md`, section 8).
    """

    def __init__(
        self,
        features: Tensor,
        labels: Tensor,
        *,
        rate: float | None,
        n_steps: int,
        generator: np.random.Generator,
        ranks: Ranks | None = None,
    ) -> None:
        if len(features) != len(labels) or len(features) == 0:
            raise CorrDPError(
                f"features and labels must have equally many rows and at least one, "
                f"got {len(features)} and {len(labels)}. Pass one label per row."
            )
        self.features = features
        self.labels = labels
        self.rate = rate
        self.n_steps = n_steps
        self.steps_taken = 0
        self._generator = generator
        self._ranks = ranks or Ranks(0, (0, len(features)))
        self._handed_out: list[_Batch] = []

    @property
    def n_rows(self) -> int:
        """Public number of rows, of all ranks."""
        # Audits put rows of their own, and fewer, into a loader that is alone.
        alone = self._ranks.is_alone
        return len(self.features) if alone else self._ranks.n_rows

    @property
    def expected_batch(self) -> float:
        """Expected number of rows of a batch, which sums are divided by."""
        return self.n_rows * (1.0 if self.rate is None else self.rate)

    def __len__(self) -> int:
        """Return the number of batches that are left."""
        return self.n_steps - self.steps_taken

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while self.steps_taken < self.n_steps:
            self.steps_taken += 1
            yield self.draw()

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return one batch."""
        if self.rate is None:
            return self._hand_out(self.features, self.labels)
        index = self._sample().to(self.features.device)
        return self._hand_out(
            self.features.index_select(0, index), self.labels.index_select(0, index)
        )

    def _sample(self) -> Tensor:
        """Return the numbers of the rows of a new batch that this process holds."""
        assert self.rate is not None
        if not self._ranks.is_first:
            return self._ranks.scattered(None)
        count = self._generator.binomial(self.n_rows, self.rate)
        chosen = self._generator.choice(
            self.n_rows, size=count, replace=False, shuffle=False
        )
        return self._ranks.scattered(chosen)

    def take_back(self, features: Tensor, labels: Tensor) -> None:
        """Accept a batch that was drawn here, once and unchanged, or raise.

        Guarantee
        ---------
        What is trained on was sampled as it is priced (`docs/theory/sampling.md`).
        """
        for index, batch in enumerate(self._handed_out):
            if batch.is_made_of(features, labels):
                del self._handed_out[index]
                return
        raise GuaranteeVoidError(
            "the batch was not drawn by the loader of this training, was changed, or "
            "was used before; its price is that of a fresh Poisson sample. Loop over "
            "the loader and pass each batch to module.backward once, as it is: give "
            "make_private data of the type and on the device that the module needs."
        )

    def _hand_out(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        self._handed_out.append(_Batch(features, labels, versions(features, labels)))
        return features, labels


class _Batch(NamedTuple):
    features: Tensor
    labels: Tensor
    versions: tuple[int, int]

    def is_made_of(self, features: Tensor, labels: Tensor) -> bool:
        """Whether these are the very tensors, with the values they had."""
        same = self.features is features and self.labels is labels
        return same and self.versions == versions(features, labels)


Rows: TypeAlias = tuple[Tensor, Tensor] | Dataset[Any] | DataLoader[Any]


def rows_of(data: Rows) -> tuple[Tensor, Tensor, int | None]:
    """Return all features and labels, and the batch size that a data loader had.

    Items of a data set are read once, in order: transformations are not drawn anew, and
    an item must be a function of its row. Order, sampler, shuffling and workers of a
    loader are not used; batches are Poisson samples (`docs/theory/sampling.md`).
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
