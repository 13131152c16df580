"""Embeddings beside sensitive columns: two towers.

Forty numbers that a public model made of a text say little of age and income, which are
sensitive. The network reads the text in layers of its own before they join, so that
bounds on their influence, and less noise, hold for these layers, too. Data are made up;
step sizes are the best of 0.1, 0.2 and 0.3 for each method on other seeds.
"""

import torch

from corrdp.policy import Feature, NumberDomain, Policy
from corrdp.torch import make_private

N_TEXT = 40
text = [
    Feature(f"text{i}", "insensitive", NumberDomain(0, 1), leakage=0.05)
    for i in range(N_TEXT)
]
sensitive = [Feature(n, "sensitive", NumberDomain(0, 1)) for n in ("age", "income")]
policy = Policy((*sensitive, *text))


def table(n_rows, seed):
    """Return encoded rows, sensitive columns first, and what they decide."""
    generator = torch.Generator().manual_seed(seed)
    features = torch.rand(n_rows, 2 + N_TEXT, generator=generator) - 0.5
    meaning = torch.randn(N_TEXT, 3, generator=torch.Generator().manual_seed(99))
    topics = torch.tanh(1.2 * features[:, 2:] @ meaning)
    weight = torch.tensor([2.0, 1.5, 1.0])
    score = topics @ weight + features[:, :2] @ torch.tensor([2.0, -1.5])
    chance = torch.sigmoid(1.5 * score)
    return features, (torch.rand(n_rows, generator=generator) < chance).long()


def loss(outputs, labels):
    """Return one loss per row."""
    return torch.nn.functional.cross_entropy(outputs, labels, reduction="none")


class TwoTowers(torch.nn.Module):
    """Layers of the text alone, then a layer that sees all."""

    def __init__(self):
        super().__init__()
        self.tower = torch.nn.Sequential(
            torch.nn.Linear(N_TEXT, 24),
            torch.nn.Tanh(),
            torch.nn.Linear(24, 8),
            torch.nn.Tanh(),
        )
        self.head = torch.nn.Linear(8 + 2, 2)

    def forward(self, features):
        """Return scores of the two labels."""
        read = self.tower(features[:, 2:])
        return self.head(torch.cat([read, features[:, :2]], dim=1))


fresh, truth = table(8_000, seed=1)
for name, size, options in (
    ("ordinary DP", 0.1, {"method": "layered"}),
    ("two towers", 0.2, {"towers": ["tower"], "fall_back": False}),
):
    torch.manual_seed(0)
    network = TwoTowers()
    optimizer = torch.optim.SGD(network.parameters(), lr=size, momentum=0.9)
    budget = {"epsilon": 0.5, "delta": 1e-6, "epochs": 60, "random_state": 0}
    clipping = {"clip_norm": 2.0, "residual_bound": 2**0.5}
    module, optimizer, loader = make_private(
        network,
        optimizer,
        table(6_000, seed=0),
        loss=loss,
        policy=policy,
        **budget,
        **clipping,
        **options,
    )
    for batch in loader:
        module.backward(*batch)
        optimizer.step()
    with torch.no_grad():
        outputs = network(fresh)
    right = (outputs.argmax(1) == truth).float().mean()
    print(f"{name:<12} loss {loss(outputs, truth).mean():.2f}, right {right:.0%}")
