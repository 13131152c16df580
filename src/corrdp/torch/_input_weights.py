"""The clipped sum of input weights, whose columns belong to several groups."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from corrdp.torch._layout import NetworkLayout
from corrdp.torch._passes import column_runs, one_pass_codes
from corrdp.torch._rows import Room, least_norm, outer_sum, row_norms, shrinking_factors


class _Signals(NamedTuple):
    """What determines one example's gradient of the input weights."""

    codes: Tensor
    backprop: Tensor
    reference: Tensor | None


class _Sizes(NamedTuple):
    code_squares: Tensor  # (groups, n)
    backprop: Tensor
    reference: Tensor | None


class InputWeightClipper:
    """Sum gradients of input weights, clipped by groups of columns.

    Types and devices are those of the parameter `like`.

    Guarantee
    ---------
    First influence around an anchor is bounded, then the norm: Proposition 2 of
    `docs/theory/networks.md`. Signals that are not finite are replaced as its section 3
    says.
    """

    def __init__(self, layout: NetworkLayout, like: Tensor) -> None:
        columns = torch.as_tensor(layout.column_groups)
        n_groups = int(columns.max()) + 1
        groups = layout.groups[:n_groups]
        members = torch.nn.functional.one_hot(columns, n_groups)
        self._members = members.T.to(like).contiguous()  # (groups, columns)
        self._clip_norms = like.new_tensor([[g.clip_norm] for g in groups])
        self._influence = like.new_tensor([[g.influence_bound] for g in groups])
        self._is_influence_bounded = self._influence.isfinite()
        self._smallest = torch.finfo(like.dtype).tiny
        self._least_square = least_norm(like.dtype, len(columns)) ** 2
        self._limit = math.sqrt(torch.finfo(like.dtype).max) / 8  # of squared norms
        self._runs = column_runs(layout.column_groups)
        self._bounds = self._influence.double().cpu().numpy().ravel()

    def write_sum(
        self,
        codes: Tensor,
        backprop: Tensor,
        reference: Tensor | None,
        out: Tensor,
        *,
        room: Room | None = None,
    ) -> None:
        """Write the clipped sum into `out`, shape (n_units, n_columns).

        `codes`, shape (n, n_columns), are what the input layer was given, `backprop`,
        shape (n, n_units), is the gradient of the loss at its output, and `reference`
        the same with sensitive codes at their reference: needed if influence is
        clipped. `room` is that of `GroupClipper.add_sum`.
        """
        clip_norms = self._norms_of(room)
        if reference is not None:
            scaled = one_pass_codes(
                codes,
                backprop,
                reference,
                runs=self._runs,
                clip_norms=clip_norms,
                influence=self._bounds,
                limits=(self._limit / codes.shape[1], self._limit),
            )
            if scaled is not None:
                outer_sum(backprop, scaled[0], out)
                outer_sum(reference, scaled[1], out, adds=True)
                return
        signals = _Signals(codes, backprop, reference)
        sizes = self._sizes(signals)
        if not self._are_moderate(sizes):
            signals = self._moderated(signals)
            sizes = self._sizes(signals)
        if signals.reference is None:
            norms = sizes.code_squares.sqrt() * sizes.backprop
            factor = shrinking_factors(norms, clip_norms)
            outer_sum(signals.backprop, self._scaled(signals.codes, factor), out)
        else:
            share, rest, norms = self._factors(signals, sizes)
            factor = shrinking_factors(norms, clip_norms)
            moved = self._scaled(signals.codes, factor * share)
            kept = self._scaled(signals.codes, factor * rest)
            outer_sum(signals.backprop, moved, out)
            outer_sum(signals.reference, kept, out, adds=True)

    def _factors(
        self, signals: _Signals, sizes: _Sizes
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the shares of signal and reference, and the norm of what they give.

        The anchor, influence, then the norm: `docs/theory/networks.md`, section 3.
        """
        assert signals.reference is not None
        assert sizes.reference is not None
        lengths = sizes.code_squares.sqrt()
        cut = self._within_influence(lengths * sizes.reference)
        difference = signals.backprop - signals.reference
        # Cut parts are no longer than the bound: no small term is lost to a large one.
        square = (cut * sizes.reference).square_().add_(row_norms(difference).square_())
        square += cut.mul((difference * signals.reference).sum(1)).mul_(2.0)
        share = self._within_influence(square.clamp_min_(0.0).sqrt_().mul_(lengths))
        rest = (1.0 - share).mul_(1.0 - cut)
        # Not from the difference alone: that would lose a small signal to a large one.
        product = (signals.backprop * signals.reference).sum(1)
        square = (rest * share).mul_(product).mul_(2.0)
        square += (rest * sizes.reference).square_()
        square += (share * sizes.backprop).square_()
        return share, rest, square.clamp_min_(0.0).sqrt_().mul_(lengths)

    def _norms_of(self, room: Room | None) -> Tensor:
        """Return the clipping norm of every group, or of every group and example.

        Where influence is bounded it must not depend on sensitive codes.
        """
        if room is None:
            return self._clip_norms
        if room.reference is None:
            return self._clip_norms * room.own
        own = torch.where(self._is_influence_bounded, room.reference, room.own)
        return self._clip_norms * own

    def _within_influence(self, norms: Tensor) -> Tensor:
        # Not 0 / 0, which is NaN.
        return shrinking_factors(norms.clamp_min_(self._smallest), self._influence)

    def _scaled(self, codes: Tensor, factor: Tensor) -> Tensor:
        """Return the codes times the factor of their example and group."""
        return (factor.T @ self._members).mul_(codes)

    def _sizes(self, signals: _Signals) -> _Sizes:
        return _Sizes(
            (self._members @ signals.codes.square().T).clamp_min_(self._least_square),
            row_norms(signals.backprop),
            None if signals.reference is None else row_norms(signals.reference),
        )

    def _are_moderate(self, sizes: _Sizes) -> bool:
        """Whether `_moderated` would change nothing.

        No term of a sum of squares or norms exceeds the sum, and NaN is below nothing.
        """
        n_columns = self._members.shape[1]
        longest = math.sqrt(self._limit)
        return (
            float(sizes.code_squares.sum()) <= self._limit / n_columns
            and float(sizes.backprop.sum()) <= longest
            and (sizes.reference is None or float(sizes.reference.sum()) <= longest)
        )

    def _moderated(self, signals: _Signals) -> _Signals:
        """Return signals that are finite, and whose products are."""
        codes, backprop, reference = signals
        small = codes.square() <= self._limit / codes.shape[1]
        codes = torch.where(small, codes, 0)
        usable = self._is_usable(backprop)
        if reference is None:
            return _Signals(codes, torch.where(usable, backprop, 0), None)
        # A signal that sensitive features break falls back to the reference: at zero
        # it would leave their influence (docs/theory/networks.md, section 3).
        known = self._is_usable(reference)
        reference = torch.where(known, reference, 0)
        backprop = torch.where(known & usable, backprop, reference)
        return _Signals(codes, backprop, reference)

    def _is_usable(self, signal: Tensor) -> Tensor:
        norms = row_norms(signal).unsqueeze(1)
        return norms <= math.sqrt(self._limit)  # False for NaN
