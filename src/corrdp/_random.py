"""Random streams: operating-system entropy by default, a seed only for research."""

import numpy as np


def noise_generator(random_state: int | None = None) -> np.random.Generator:
    """Return the generator that draws privacy noise.

    Without a seed the generator is a ChaCha stream cipher keyed by the operating
    system where the ``secure`` extra is installed, else PCG64 keyed the same way. A
    seed makes the noise replayable: whoever knows it can subtract the noise.
    """
    if random_state is not None:
        return np.random.Generator(np.random.PCG64(random_state))
    try:
        from randomgen import ChaCha
    except ImportError:
        return np.random.Generator(np.random.PCG64())
    return np.random.Generator(ChaCha())
