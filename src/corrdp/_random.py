"""Random streams: operating-system entropy by default, a seed only for research."""

import os
import warnings
from functools import cache

import numpy as np

from corrdp.exceptions import CorrDPWarning


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
    (`docs/theory/discrete_noise.md`). Needs the ``secure`` extra; without it noise
    comes from PCG64, which is not cryptographic, and a warning says so.
    """
    if random_state is not None:
        key = tuple(purpose.encode())
        seed = np.random.SeedSequence(random_state, spawn_key=key)
        return np.random.Generator(np.random.PCG64(seed))
    return _process_generator()


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
        warnings.warn(
            "randomgen is not installed, so noise comes from PCG64, which is not "
            "cryptographic: long outputs may let an attacker predict it. Install "
            "corrdp[secure].",
            CorrDPWarning,
            stacklevel=4,
        )
        return np.random.PCG64()
    bits: np.random.BitGenerator = ChaCha(key=int.from_bytes(os.urandom(32), "little"))
    return bits
