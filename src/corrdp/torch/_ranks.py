"""Training on several processes: each sums over its own rows, one of them releases.

Rank 0 holds the secret generator. It draws every sample and tells each rank which of
its own rows are in it; ranks clip and add up; rank 0 receives the total, adds noise
once and sends the released gradient to all. Optimizers read the same numbers
everywhere, so parameters stay equal.
"""

import hashlib
from collections.abc import Iterator
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    suppress,
)
from typing import Self

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from corrdp.exceptions import CorrDPError, GuaranteeVoidError

SHARDS = "shards"
COPIES = "copies"


_ALONE = nullcontext()


class Ranks:
    """The processes of one training; often one, which has nobody to talk to.

    `bounds` are the numbers of the first row of every rank among all rows, and of all.

    Guarantee
    ---------
    Every record is held by one rank and its contribution is added once; one draw of
    noise per step, on rank 0. Proof: `docs/theory/networks.md`, section 8.
    """

    def __init__(self, rank: int, bounds: tuple[int, ...]) -> None:
        self.rank = rank
        self.size = len(bounds) - 1
        self.bounds = bounds
        self._has_ended = False

    @property
    def is_alone(self) -> bool:
        """Whether this process is the only one."""
        return self.size == 1

    @property
    def is_first(self) -> bool:
        """Whether this process draws noise and knows the certificate."""
        return self.rank == 0

    @property
    def n_rows(self) -> int:
        """Public number of rows of all ranks."""
        return self.bounds[-1]

    @classmethod
    def joined(
        cls, distributed: str | None, features: Tensor, labels: Tensor
    ) -> tuple[Self, Tensor, Tensor]:
        """Return the processes, and the rows of this one.

        ``shards``: every process was given records of its own. ``copies``: all of them
        the same table, of which each takes its part.
        """
        is_group = dist.is_available() and dist.is_initialized()
        size = dist.get_world_size() if is_group else 1
        if size == 1:
            return cls(0, (0, len(features))), features, labels
        if distributed not in (SHARDS, COPIES):
            raise CorrDPError(
                f"a process group of {size} processes is initialized, and distributed="
                f"{distributed!r} does not say which rows this one holds. Pass "
                "distributed='shards' if every process was given records of its own, "
                "'copies' if all were given the same table."
            )
        if dist.get_backend() != "gloo" or features.device.type != "cpu":
            raise CorrDPError(
                f"private training runs on several processes with backend 'gloo' and "
                f"rows on the CPU, got {dist.get_backend()!r} and "
                f"{features.device.type!r}. Initialize the group with 'gloo'."
            )
        _refuse_equal_shards(distributed, features, labels)
        rank = dist.get_rank()
        if distributed == COPIES:
            edges = np.linspace(0, len(features), size + 1).round().astype(int)
            own = slice(int(edges[rank]), int(edges[rank + 1]))
            features, labels = features[own], labels[own]
        counts = torch.zeros(size, dtype=torch.int64)
        counts[rank] = len(features)
        dist.all_reduce(counts)
        bounds = (0, *counts.cumsum(0).tolist())
        if not all(counts):
            raise CorrDPError(
                f"a process has no rows: their numbers are {counts.tolist()}. Start as "
                "many processes as there is work for."
            )
        return cls(rank, bounds), features, labels

    def together(self) -> AbstractContextManager[None]:
        """Raise on every rank if what stands inside raises on one.

        Guarantee
        ---------
        No rank goes on without the others (`docs/theory/networks.md`, section 8).
        """
        return _ALONE if self.is_alone else self._failing_together()

    @contextmanager
    def _failing_together(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(CorrDPError):  # others may be gone already
                self._n_failed(1)
            self._has_ended = True
            raise
        if self._n_failed(0):
            self._has_ended = True
            raise GuaranteeVoidError(
                "another process of this training was refused; its own error says why. "
                "Nothing was released."
            )

    def start_alike(self, module: nn.Module, public: str) -> None:
        """Give all ranks the parameters and buffers of rank 0.

        Raises unless public text, such as the plan, is the same on every rank.
        """
        if self.is_alone:
            return
        digests = _gathered(public.encode())
        if len(set(digests)) > 1:
            raise CorrDPError(
                "processes of the training were given different arguments: plans "
                "differ. Run the same script with the same settings on every one."
            )
        with torch.no_grad():
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor.data, 0)

    def total(self, own: Tensor) -> Tensor:
        """Return the sum over ranks on rank 0; what others get means nothing.

        Guarantee
        ---------
        The sum of all ranks, or an error on every one of them that is alive
        (`docs/theory/networks.md`, section 8).
        """
        if self.is_alone:
            return own
        self._refuse_ended()
        message = torch.cat((own.flatten(), own.new_ones(1)))
        with self._ending():
            dist.reduce(message, 0)
        if self.is_first and int(message[-1]) != self.size:
            self._has_ended = True
            raise GuaranteeVoidError(
                "a sum over the processes lacks one of them. Nothing was released."
            )
        return message[:-1].view(own.shape)

    def sent(self, released: Tensor) -> Tensor:
        """Return on every rank what rank 0 released."""
        if self.is_alone:
            return released
        self._refuse_ended()
        released = released.contiguous()
        with self._ending():
            dist.broadcast(released, 0)
        return released

    def scattered(self, rows: np.ndarray | None) -> Tensor:
        """Return which of its own rows each rank has in a sample of rank 0.

        There `rows` are numbers among the rows of all ranks; None on other ranks.
        """
        if rows is not None and self.is_alone:
            return torch.from_numpy(rows)
        self._refuse_ended()
        count = torch.zeros(1, dtype=torch.int64)
        parts: list[Tensor] | None = None
        if rows is not None:
            parts = [
                torch.from_numpy(rows[(rows >= start) & (rows < stop)] - start)
                for start, stop in zip(self.bounds, self.bounds[1:], strict=False)
            ]
        with self._ending():
            sizes = [torch.tensor([len(part)]) for part in parts] if parts else None
            dist.scatter(count, sizes, 0)
            if parts is None:
                own = torch.empty(int(count), dtype=torch.int64)
                dist.recv(own, 0)
                return own
            for rank, part in enumerate(parts[1:], start=1):
                dist.send(part.contiguous(), rank)
            return parts[0]

    def _n_failed(self, own: int) -> int:
        self._refuse_ended()
        failed = torch.tensor([own])
        with self._ending():
            dist.all_reduce(failed)
        return int(failed)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Turn what torch says of a lost process into an error that ends training."""
        try:
            yield
        except RuntimeError as error:
            self._has_ended = True
            raise GuaranteeVoidError(
                "a process of this training is gone or does not answer. Training ends "
                "here: the step is charged, and no other release of it is made. "
                "Start all processes again from a checkpoint, in which charged steps "
                "stay charged."
            ) from error

    def _refuse_ended(self) -> None:
        if self._has_ended:
            raise GuaranteeVoidError(
                "this training has ended, because one of its processes is gone: a "
                "second try would release the same step again. Start all processes "
                "again from a checkpoint."
            )


def _refuse_equal_shards(distributed: str, features: Tensor, labels: Tensor) -> None:
    """Raise if rows are those of other processes where they must not be, or not."""
    if len(features) == 0:
        rows = b""
    else:
        parts = (features.contiguous(), labels.contiguous())
        rows = b"".join(part.numpy(force=True).tobytes() for part in parts)
    n_different = len(set(_gathered(rows)))
    if distributed == SHARDS and n_different < dist.get_world_size():
        raise GuaranteeVoidError(
            "two processes were given the same rows, each of which would count twice "
            "for the price of once. Give every process records of its own, or pass "
            "distributed='copies'."
        )
    if distributed == COPIES and n_different > 1:
        raise GuaranteeVoidError(
            "distributed='copies' needs the same rows in the same order in every "
            "process. Pass distributed='shards' if each has records of its own."
        )


def _gathered(content: bytes) -> list[bytes]:
    """Return a hash of what every rank holds; it stays among them."""
    own = torch.frombuffer(
        bytearray(hashlib.sha256(content).digest()), dtype=torch.uint8
    )
    gathered = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, own)
    return [digest.numpy().tobytes() for digest in gathered]
