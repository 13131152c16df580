"""Random layers draw from the secret generator, whatever torch was seeded with."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corrdp.exceptions import GuaranteeVoidError

_N_WORDS = 624  # of the state of a Mersenne twister
_FIRST_WORD = 3  # after the seed, the counters and the position
_TRIED = 4
_AS_IT_IS = nullcontext()


class LayerRandomness:
    """The randomness of dropout and other random layers, anew in every step.

    `generator` is the secret one of the training, `is_drawn_from` whether the module
    draws at all, as a trial before training has shown. If it does not, `is_watched`
    says whether to look that it does not in a step either: needless for full batches,
    in which no record shifts the numbers of others.

    Guarantee
    ---------
    Masks are independent of the data, of the batch and of everything that is public:
    `docs/theory/networks.md`, section 4. The Mersenne twister of torch gets a whole
    state from the secret generator in every step.
    """

    def __init__(
        self,
        generator: np.random.Generator,
        device: torch.device,
        *,
        is_drawn_from: bool,
        is_watched: bool = True,
    ) -> None:
        self._generator = generator
        self._is_drawn_from = is_drawn_from
        self._is_watched = is_watched
        self._cuda = [device] if device.type == "cuda" else []
        if is_drawn_from:
            if device.type not in ("cpu", "cuda"):
                raise GuaranteeVoidError(
                    f"the module draws random numbers on a device of type "
                    f"{device.type!r}, whose generator cannot be made secret. Train on "
                    "'cpu' or 'cuda', or remove dropout and other random layers."
                )
            _check_state_is_known()

    def secret(self) -> AbstractContextManager[None]:
        """Let torch draw secret numbers inside, and be left as it was."""
        if not self._is_drawn_from and not self._is_watched:
            return _AS_IT_IS
        return self._guarded()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        if not self._is_drawn_from:
            before = generator_states(self._cuda)
            yield
            if not all(map(np.array_equal, before, generator_states(self._cuda))):
                raise GuaranteeVoidError(
                    "the module drew from torch's generator, which it did not when "
                    "make_private tried it. Put random layers to work before "
                    "make_private, or leave them off."
                )
            return
        with torch.random.fork_rng(devices=self._cuda):
            words = self._generator.integers(2**32, size=_N_WORDS, dtype=np.uint32)
            torch.default_generator.set_state(_state_of(words))
            for device in self._cuda:
                seed = int(self._generator.integers(2**63))
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
            yield


def generator_states(cuda: list[torch.device]) -> list[NDArray[np.uint8]]:
    """Return the states of the generators that layers may draw from."""
    states = [torch.default_generator.get_state().numpy()]
    return [*states, *(torch.cuda.get_rng_state(device).numpy() for device in cuda)]


def _state_of(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> Tensor:
    """Return a state of torch's generator on the CPU that is made of these words."""
    template = torch.Generator().manual_seed(0).get_state()
    state = template.numpy().copy()
    numbers = state[: 8 * (_FIRST_WORD + _N_WORDS)].view(np.uint64)
    numbers[_FIRST_WORD:] = words
    return torch.from_numpy(state)


def _check_state_is_known() -> None:
    """Raise unless the state means what it means to numpy's Mersenne twister."""
    words = np.arange(1, _N_WORDS + 1, dtype=np.uint32) * np.uint32(2654435761)
    twister = np.random.MT19937()
    twister.state = {
        "bit_generator": "MT19937",
        "state": {"key": words, "pos": _N_WORDS},
    }
    torchs = torch.Generator()
    torchs.set_state(_state_of(words))
    drawn = torch.empty(_TRIED, dtype=torch.int32).random_(generator=torchs).tolist()
    if drawn != [int(raw) % 2**31 for raw in twister.random_raw(_TRIED)]:
        raise GuaranteeVoidError(
            f"torch {torch.__version__} keeps the state of its generator in a way that "
            "is not known here, so dropout cannot be made secret. Remove random "
            "layers, or take the version of torch that corrdp is tested with."
        )
