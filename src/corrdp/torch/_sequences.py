"""Recurrent and attention layers whose gradient per example is known.

Drop-in replacements of torch's layers for examples on the first axis. Parameters lie in
parts that map one tensor to one tensor, each called once in a pass; what is clipped is
theirs, as that of any layer (`docs/theory/networks.md`, section 5).
"""

import math

import torch
from torch import Tensor, nn

from corrdp.exceptions import CorrDPError


class RecurrentCells(nn.Module):
    """All steps of a recurrent layer: one tensor in, states of every step out."""

    n_gates: int
    n_states: int

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        rows = self.n_gates * hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size))
        self.weight_hh = nn.Parameter(torch.empty(rows, hidden_size))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the states of all steps, shape (n, length, n_states * hidden)."""
        return self._run(inputs, None)

    def example_gradients(self, inputs: Tensor, backprop: Tensor) -> dict[str, Tensor]:
        """Return the gradient of every parameter for every example.

        All steps share the parameters: gradients are outer products with what enters
        every step's two linear maps, added up over steps.

        Guarantee
        ---------
        A row of the result is a function of the same row of what is given
        (`docs/theory/networks.md`, section 5).
        """
        shape = (*inputs.shape[:2], self.bias_ih.numel())
        shifts = inputs.new_zeros(2, *shape).requires_grad_()
        # Anomaly detection would stop at values that are not finite.
        with torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
            states = self._run(inputs, shifts)
            (signals,) = torch.autograd.grad(states, shifts, backprop)
        given, before = signals
        hidden = states.detach()[:, :-1, : self.hidden_size]
        first = hidden.new_zeros(len(inputs), 1, self.hidden_size)
        earlier = torch.cat([first, hidden], 1)
        return {
            "weight_ih": torch.bmm(given.transpose(1, 2), inputs),
            "weight_hh": torch.bmm(before.transpose(1, 2), earlier),
            "bias_ih": given.sum(1),
            "bias_hh": before.sum(1),
        }

    def _run(self, inputs: Tensor, shifts: Tensor | None) -> Tensor:
        """Return the states, with something added to both linear maps of each step."""
        given = inputs @ self.weight_ih.T + self.bias_ih
        if shifts is not None:
            given = given + shifts[0]
        size = (inputs.shape[0], self.hidden_size)
        states = [given.new_zeros(size) for _ in range(self.n_states)]
        seen = []
        for step in range(inputs.shape[1]):
            before = states[0] @ self.weight_hh.T + self.bias_hh
            if shifts is not None:
                before = before + shifts[1][:, step]
            states = self.advance(given[:, step], before, states)
            seen.append(torch.cat(states, 1))
        return torch.stack(seen, 1)

    def advance(
        self, given: Tensor, before: Tensor, states: list[Tensor]
    ) -> list[Tensor]:
        """Return the states after one step."""
        raise NotImplementedError


class LSTMCells(RecurrentCells):
    """Cells of long short-term memory."""

    n_gates = 4
    n_states = 2

    def advance(
        self, given: Tensor, before: Tensor, states: list[Tensor]
    ) -> list[Tensor]:
        kept_in, kept, new, out = (given + before).chunk(4, 1)
        cell = kept.sigmoid() * states[1] + kept_in.sigmoid() * new.tanh()
        return [out.sigmoid() * cell.tanh(), cell]


class GRUCells(RecurrentCells):
    """Gated recurrent units."""

    n_gates = 3
    n_states = 1

    def advance(
        self, given: Tensor, before: Tensor, states: list[Tensor]
    ) -> list[Tensor]:
        reset, update, new = given.chunk(3, 1)
        reset_before, update_before, new_before = before.chunk(3, 1)
        update = (update + update_before).sigmoid()
        new = (new + (reset + reset_before).sigmoid() * new_before).tanh()
        return [new + update * (states[0] - new)]


class _Recurrent(nn.Module):
    cells_type: type[RecurrentCells]

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.cells = self.cells_type(input_size, hidden_size)


class LSTM(_Recurrent):
    """Long short-term memory of one layer, forwards, examples on the first axis."""

    cells_type = LSTMCells

    def forward(self, inputs: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return outputs of all steps, and the last hidden and cell state."""
        hidden, cell = self.cells(inputs).chunk(2, 2)
        return hidden, (hidden[:, -1].unsqueeze(0), cell[:, -1].unsqueeze(0))


class GRU(_Recurrent):
    """Gated recurrent unit of one layer, forwards, examples on the first axis."""

    cells_type = GRUCells

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs of all steps, and the last state."""
        hidden = self.cells(inputs)
        return hidden, hidden[:, -1].unsqueeze(0)


class MultiheadAttention(nn.Module):
    """Attention of several heads, examples on the first axis.

    Parameters
    ----------
    embed_dim, num_heads : int
        Width, and number of heads that share it.
    dropout : float
        Of the weights of attention.
    """

    # torch.nn.TransformerEncoderLayer asks before it takes a shortcut of its own.
    batch_first = True
    in_proj_bias = None
    _qkv_same_embed_dim = False

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.query, self.key, self.value, self.out_proj = (
            nn.Linear(embed_dim, embed_dim) for _ in range(4)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Return what is attended to, and the weights if they are wanted."""
        if is_causal and attn_mask is None:  # a hint that attn_mask says it
            raise CorrDPError(
                "is_causal=True is a hint about attn_mask, and there is none. Pass the "
                "mask, as for torch.nn.MultiheadAttention."
            )
        queries, keys, values = (
            given.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
            for given in (self.query(query), self.key(key), self.value(value))
        )
        scores = queries @ keys.transpose(2, 3) / math.sqrt(queries.shape[-1])
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask[:, None, None]
        for mask in (attn_mask, key_padding_mask):
            scores = _masked(scores, mask)
        weights = scores.softmax(-1)
        heads = self.dropout(weights) @ values
        said: Tensor = self.out_proj(heads.transpose(1, 2).flatten(2))
        if not need_weights:
            return said, None
        return said, weights.mean(1) if average_attn_weights else weights


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(mask, -math.inf)
    return scores + mask
