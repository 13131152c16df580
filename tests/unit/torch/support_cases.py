"""What modules may hold: supported, with a bound by brute force, or refused.

``python tests/unit/torch/support_cases.py`` (with ``PYTHONPATH=src:tests``) writes the
table of the docs; a test holds the two equal.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from corrdp.exceptions import CorrDPError
from corrdp.torch import GRU, LSTM, MultiheadAttention, fix_module
from unit.torch.networks import small_policy, squared, train

PAGE = Path(__file__).parents[3] / "docs" / "results" / "networks_support.inc"
SEQUENCE, PICTURE, WORDS = (4, 6), (2, 5, 5), (4,)


class Piped(nn.Module):
    """A body on sequences, pictures or words, and a linear head."""

    def __init__(self, body, width):
        super().__init__()
        self.body, self.head = body, nn.Linear(width, 1)

    def forward(self, features):
        said = self.body(features)
        said = said[0] if isinstance(said, tuple) else said
        return self.head(said.flatten(1))


class Attending(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, features):
        return self.attention(features, features, features)[0]


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, features):
        return features + self.second(torch.tanh(self.first(features)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, features):
        return nn.functional.linear(self.layer(features), self.layer.weight.T)


class Wasteful(nn.Module):
    """Computes its layer once more in the backward pass, the old way."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, features):
        return checkpoint(self.layer, features.requires_grad_(), use_reentrant=True)


class Dropping(nn.Linear):
    """Drops weights inside the layer that holds them."""

    def forward(self, features):
        return nn.functional.linear(features, nn.functional.dropout(self.weight))


def encoder_layer():
    return nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)


# Name: the body, the shape of an example, the width that the head reads.
SUPPORTED = {
    "`Linear`": (lambda: nn.Linear(6, 3), (6,), 3),
    "`Linear` on sequences": (lambda: nn.Linear(6, 3), SEQUENCE, 12),
    "`Conv1d`": (lambda: nn.Conv1d(4, 3, 2), SEQUENCE, 15),
    "`Conv2d`": (lambda: nn.Conv2d(2, 3, 3), PICTURE, 27),
    "`GroupNorm`": (lambda: nn.GroupNorm(2, 4), SEQUENCE, 24),
    "`LayerNorm`": (lambda: nn.LayerNorm(6), SEQUENCE, 24),
    "`PReLU`": (nn.PReLU, (6,), 6),
    "`Embedding`": (lambda: nn.Embedding(5, 3), WORDS, 12),
    "residual blocks": (Residual, (6,), 6),
    "`corrdp.torch.LSTM`": (lambda: LSTM(6, 3), SEQUENCE, 12),
    "`corrdp.torch.GRU`": (lambda: GRU(6, 3), SEQUENCE, 12),
    "`corrdp.torch.MultiheadAttention`": (
        lambda: Attending(MultiheadAttention(6, 2)),
        SEQUENCE,
        24,
    ),
    "`TransformerEncoderLayer` after `fix_module`": (
        lambda: fix_module(encoder_layer()).module,
        SEQUENCE,
        24,
    ),
    "convolution with batch normalization after `fix_module`": (
        lambda: (
            fix_module(
                nn.Sequential(
                    nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True)
                )
            ).module
        ),
        PICTURE,
        36,
    ),
}

# Name: the body, the shape of an example, the width, arguments, part of the message.
REFUSED = {
    "batch normalization": (
        lambda: nn.BatchNorm1d(6),
        (6,),
        6,
        {},
        "mixes the examples of a batch",
    ),
    "`torch.nn.LSTM`, `GRU`": (
        lambda: nn.LSTM(6, 3, batch_first=True),
        SEQUENCE,
        12,
        {},
        "Use corrdp.torch.LSTM",
    ),
    "`torch.nn.MultiheadAttention`": (
        lambda: Attending(nn.MultiheadAttention(6, 2, batch_first=True)),
        SEQUENCE,
        24,
        {},
        "Use corrdp.torch.MultiheadAttention",
    ),
    "`Embedding(max_norm=...)`": (
        lambda: nn.Embedding(5, 3, max_norm=1.0),
        WORDS,
        12,
        {},
        "has max_norm=1",
    ),
    "half precision": (
        lambda: nn.Linear(6, 3).half(),
        (6,),
        3,
        {},
        "in which norms of gradients overflow",
    ),
    "tied weights": (Tied, (6,), 6, {}, "used elsewhere as well"),
    "activations in place": (
        lambda: nn.Sequential(nn.Linear(6, 3), nn.ReLU(inplace=True)),
        (6,),
        3,
        {},
        "changed in place",
    ),
    "dropout inside a layer with parameters": (
        lambda: Dropping(6, 3, bias=False),
        (6,),
        3,
        {},
        "modules of their own",
    ),
    "reentrant checkpointing": (
        Wasteful,
        (6,),
        6,
        {},
        "use_reentrant=False",
    ),
    "sequences or pictures under `corr`": (
        lambda: nn.Linear(6, 3),
        SEQUENCE,
        12,
        {"method": "corr"},
        "needs encoded columns",
    ),
    "a missing policy": (
        lambda: nn.Linear(6, 3),
        (6,),
        3,
        {"policy": "nobody"},
        "policy must be a Policy",
    ),
}


def example(shape, n_rows=5):
    generator = torch.Generator().manual_seed(2)
    if shape is WORDS:
        features = torch.randint(0, 2, (n_rows, *shape), generator=generator)
    else:
        features = torch.rand(n_rows, *shape, generator=generator).double() - 0.5
    return features, torch.randn(n_rows, generator=generator).double()


def training_of(body, shape, width, **changes):
    torch.manual_seed(0)
    network = Piped(body(), width)
    if next(network.body.parameters()).dtype != torch.float16:
        network = network.double()
    policy = small_policy(n_insensitive=shape[0] - 2)  # of rows that are no sequences
    arguments = {
        "policy": policy,
        "method": "standard",
        "loss": squared,
        "clip_norm": 0.3,
    }
    return train(network, example(shape), **(arguments | changes))


def message_of(name):
    """The first sentence with which something is refused."""
    body, shape, width, changes, _ = REFUSED[name]
    try:
        training = training_of(body, shape, width, **changes)
        training.module.backward(*training.loader.draw())
    except CorrDPError as error:
        return str(error)
    return ""


def render():
    lines = ["| what | |", "|---|---|"]
    lines += [
        f"| {name} | supported: gradients are those of single examples |"
        for name in SUPPORTED
    ]
    for name in REFUSED:
        first = message_of(name).split(". ")[0].replace("|", "/")
        lines.append(f"| {name} | refused: {first} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(render())
    sys.stdout.write(render())
