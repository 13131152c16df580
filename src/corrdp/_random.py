"""Random streams: operating-system entropy by default, a seed only for research."""

import os
from functools import cache
from numbers import Integral
from typing import Any

import numpy as np

from corrdp.exceptions import CorrDPError

_SECURE = "ChaCha20 under a 256-bit key from the operating system"
_REPLAYABLE = "PCG64 under a fixed seed, in whole or in part"


def noise_source(*, replayable: bool) -> str:
    """Return the name of what draws noise, for certificates.

    It is replayable if a seed was given for any of the noise.

    Guarantee
    ---------
    The generators of `noise_generator` and no others
    (`docs/theory/discrete_noise.md`).
    """
    return _REPLAYABLE if replayable else _SECURE


def noise_generator(
    random_state: int | None = None, *, purpose: str = ""
) -> np.random.Generator:
    """Return the generator that draws privacy noise.

    Parameters
    ----------
    random_state : int, optional
        A seed makes the noise replayable: whoever knows it can subtract the noise.
        Without one, all callers in a process share one ChaCha20 stream under a
        256-bit key from the operating system.
    purpose : str
        Releases with different purposes draw different noise from the same seed.

    Guarantee
    ---------
    Without a seed no two processes share a stream: a forked child takes a new key
    before its first draw, also in generators that were handed out before the fork
    (`docs/theory/discrete_noise.md`). Without randomgen, which corrdp depends on,
    there is no noise and nothing is released.
    """
    check_seed(random_state)
    if random_state is not None:
        key = tuple(purpose.encode())
        seed = np.random.SeedSequence(int(random_state), spawn_key=key)
        return np.random.Generator(np.random.PCG64(seed))
    return _process_generator()


def check_seed(random_state: Any) -> None:
    """Raise unless it is a seed, or None; whoever pays asks before."""
    is_whole = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    if random_state is not None and not (is_whole and random_state >= 0):
        raise CorrDPError(
            "random_state must be a whole number of at least 0, got "
            f"random_state={random_state!r}. Choose another seed, or none."
        )


@cache
def _process_generator() -> np.random.Generator:
    generator = np.random.Generator(_fresh_bits())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=lambda: _take_new_key(generator))
    return generator


def _take_new_key(generator: np.random.Generator) -> None:
    generator.bit_generator.state = _fresh_bits().state


def _fresh_bits() -> np.random.BitGenerator:
    try:
        from randomgen import ChaCha
    except ImportError:
        raise CorrDPError(
            "randomgen is not installed, and numpy has no cryptographic generator: "
            "long outputs could let an attacker predict the noise. Install corrdp "
            "again with its dependencies, or pass random_state for research."
        ) from None
    bits: np.random.BitGenerator = ChaCha(key=int.from_bytes(os.urandom(32), "little"))
    return bits
