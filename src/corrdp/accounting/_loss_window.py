r"""The composed privacy loss on a window of the grid, by FFT of tilted factors.

Round-off is relative to the answer instead of to 1. What the window leaves out above is
bounded by Chernoff's inequality and added, as is a bound on the round-off of the
transforms. Theory: ``docs/theory/composition.md``, section "Tilting".
"""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from corrdp._typing import FloatArray
from corrdp.accounting._loss_factor import (
    Factors,
    NoGridError,
    composed_cumulants,
    tilt_for_delta,
)

_UNIT = 2.0**-52
_LOG_NEGLIGIBLE = 60.0
_LOG_WRAPPED = 30.0  # wrapped mass may take this share of delta, in logarithms
_LARGER_TILTS = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
_NEAR_CELLS = 4
_SMALLEST_WINDOW = 64
_WIDE_WINDOW = 2**22
_LARGEST_WINDOW = 2**25
_LARGEST_PLACE = 2**62  # of a cell, on the grid of all losses


@dataclass(frozen=True, eq=False)
class LossWindow:
    """The composed masses on part of the grid, and bounds on what they leave out.

    Round-off can lower delta at a loss by at most
    ``exp(log_round_off - tilt * loss)``.

    Guarantee
    ---------
    With both bounds added, delta is bounded from above, whatever the tilt and the width
    (`docs/theory/composition.md`).
    """

    losses: FloatArray  # ascending grid
    weights: FloatArray  # mass at each loss, up to round-off
    mass_above: float  # bound on the mass above the last loss
    tilt: float
    log_round_off: float

    def round_off(self, losses: FloatArray) -> FloatArray:
        """Return what round-off can have taken from delta at some losses, at most 1."""
        bound = np.exp(np.minimum(self.log_round_off - self.tilt * losses, 0.0))
        return np.where(losses < self.losses[-1], bound, 0.0)

    @classmethod
    def around(
        cls,
        factors: Factors,
        tilt: float,
        log_delta: float,
        *,
        lowest: float,
        whole: bool = False,
    ) -> Self:
        """Convolve the factors at a positive tilt, on a window that suits an answer.

        `log_delta` is the logarithm of the delta that is looked for or expected. Losses
        from `lowest` on are to hold a negligible share of wrapped mass; the window must
        reach down to it if `whole`.
        """
        spacing = factors[0][0].spacing
        support = sum(factor.n_cells * count for factor, count in factors)
        log_mass_above = log_delta - _LOG_NEGLIGIBLE
        far_tilt = tilt_for_delta(factors, log_mass_above)
        far_log_moment, _, _ = composed_cumulants(factors, far_tilt)
        far_cells = (far_log_moment - log_mass_above) / far_tilt / spacing
        top = math.ceil(min(far_cells, support))
        width = clean_width(factors, tilt, log_delta, lowest) / spacing
        if whole:
            width = max(width, top - math.floor(lowest / spacing))
        if width > _WIDE_WINDOW and 2.0 * tilt * top * spacing <= _LOG_WRAPPED:
            # There is no more mass below -top than above top, and no tilt to raise it.
            width = min(width, 2 * top)
        if width > _LARGEST_WINDOW or abs(top) > _LARGEST_PLACE:
            raise NoGridError(
                f"grid must be coarser here, got spacing={spacing!r}, which needs "
                f"{width:g} cells. Pass a larger grid, for example ten times this one."
            )
        size = next_fast_len(max(math.ceil(width), _SMALLEST_WINDOW) + 1, real=True)
        masses, round_off, log_moment = _circular_convolution(factors, tilt, size)
        indices = np.arange(top - size + 1, top + 1)
        losses = spacing * indices
        exponents = log_moment - tilt * losses
        largest = tilt * float(np.abs(losses).max())
        n_releases = sum(count for _, count in factors)
        exponent_error = _UNIT * (n_releases * 64.0 + 4.0 * (abs(log_moment) + largest))
        # No mass exceeds 1, whatever round-off says far below the answer.
        with np.errstate(divide="ignore"):
            log_masses = np.log(np.maximum(masses[indices % size], 0.0))
        weights = np.exp(np.minimum(exponents + exponent_error + log_masses, 0.0))
        # Cauchy-Schwarz: the error of delta is that of the masses, a 2-norm, times the
        # 2-norm of what they are multiplied by.
        above = spacing * np.arange(size)
        multiplier = np.exp(-tilt * above) * -np.expm1(-above)
        error = round_off * float(np.linalg.norm(multiplier))
        if error == 0.0:
            raise NoGridError(
                f"losses of spacing={spacing!r} have squares that are no numbers. Pass "
                "a larger grid, or events of larger losses."
            )
        return cls(
            losses=losses,
            weights=weights,
            mass_above=math.exp(log_mass_above) if top < support else 0.0,
            tilt=tilt,
            log_round_off=log_moment + exponent_error + math.log(error),
        )


def clean_width(
    factors: Factors, tilt: float, log_delta: float, lowest: float
) -> float:
    """Return a width at which wrapped mass is negligible from `lowest` on.

    Mass from below arrives damped by exp(-tilt * width), mass from above raised by
    exp(tilt * width); the latter is bounded by Chernoff's inequality at larger tilts.
    """
    below = (_LOG_NEGLIGIBLE - log_delta) / tilt
    support = sum(factor.n_cells * factor.spacing * count for factor, count in factors)
    above = support - lowest
    for ratio in _LARGER_TILTS:
        larger = ratio * tilt
        log_moment, _, _ = composed_cumulants(factors, larger)
        excess = log_moment - larger * lowest - log_delta + _LOG_WRAPPED
        above = min(above, excess / (larger - tilt))
    return max(below, above)


def _circular_convolution(
    factors: Factors, tilt: float, size: int
) -> tuple[FloatArray, float, float]:
    """Return composed tilted masses modulo `size`, an error bound, the log moment.

    A factor's spectrum less 1 is that of its masses off 0, less their sum; masses next
    to 0 enter by formula. So a step that hardly moves the loss is known to the
    precision of what it moves. Powers are exponentials of `count` logarithms. The error
    bound adds, to first order, what each transform (relative error 4 log2(size) units
    in the 2-norm), each formula, logarithm and power and the inverse contribute to the
    2-norm; see "Round-off" in the theory note.
    """
    transform_error = 4.0 * _UNIT * math.log2(size)
    log_product = np.zeros(size // 2 + 1, dtype=np.complex128)
    log_moment, moved = 0.0, np.zeros(size // 2 + 1)
    parts = []
    for factor, count in factors:
        tilted, log_term = factor.tilted(tilt)
        log_moment += count * log_term
        change, sizes = _spectrum_near_zero(tilted, factor.n_cells, size)
        total = float(tilted.sum())
        wrapped = _wrap(tilted, -factor.n_cells, size)
        log_spectrum = _log1p(change + (rfft(wrapped) - total))
        log_product += count * log_spectrum
        moved += count * np.abs(log_spectrum)
        sizes += total
        parts.append((count, log_spectrum, float(np.linalg.norm(wrapped)), sizes))
    product = np.exp(log_product)
    modulus = np.abs(product)
    round_off = transform_error * _norm(modulus, size)
    round_off += 8.0 * _UNIT * _norm(modulus * (1.0 + moved), size)
    for count, log_spectrum, norm, sizes in parts:
        rest = np.exp(log_product.real - log_spectrum.real)
        round_off += transform_error * count * norm * float(rest.max())
        round_off += 4.0 * _UNIT * count * _norm(rest * sizes, size)
    return irfft(product, n=size), round_off, log_moment


def _spectrum_near_zero(
    masses: FloatArray, center: int, size: int
) -> tuple[NDArray[np.complex128], FloatArray]:
    """Take the masses next to the center out; return their sum of x (e^-iwj - 1).

    With it the sum of the moduli, to which its round-off is relative.
    """
    half = np.pi / size * np.arange(size // 2 + 1)
    change = np.zeros(half.size, dtype=np.complex128)
    sizes = np.zeros(half.size)
    masses[center] = 0.0
    for cell in range(1, min(_NEAR_CELLS, center) + 1):
        below, above = float(masses[center - cell]), float(masses[center + cell])
        masses[center - cell] = masses[center + cell] = 0.0
        angle = cell * half
        sine = np.sin(angle)
        turn = np.cos(angle, out=angle)
        turn *= 2.0 * sine  # sin of the whole angle
        turn *= above - below
        change.imag -= turn
        np.square(sine, out=turn)
        turn *= (below + above) * 2.0
        change.real -= turn
        np.abs(sine, out=sine)
        sine *= (below + above) * 2.0
        sizes += sine
    return change, sizes


def _log1p(values: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """Return log(1 + values), to the precision of `values` where these are small.

    numpy's own takes the logarithm of the rounded modulus.
    """
    real, imaginary = values.real, values.imag
    change = 2.0 * real + np.square(real) + np.square(imaginary)
    modulus = np.maximum(np.hypot(1.0 + real, imaginary), np.finfo(np.float64).tiny)
    log_modulus = np.where(
        change > -0.5, 0.5 * np.log1p(np.maximum(change, -0.5)), np.log(modulus)
    )
    return np.asarray(log_modulus + 1j * np.arctan2(imaginary, 1.0 + real))


def _norm(sizes: FloatArray, size: int) -> float:
    """Return at least the 2-norm of the sequence with this half spectrum."""
    return math.sqrt(2.0 / size) * float(np.linalg.norm(sizes))


def _wrap(masses: FloatArray, start: int, size: int) -> FloatArray:
    """Add up masses at start, start + 1, ... modulo `size`."""
    shift = start % size
    padded = np.zeros(-(-(shift + masses.size) // size) * size)
    padded[shift : shift + masses.size] = masses
    return np.asarray(padded.reshape(-1, size).sum(axis=0))
