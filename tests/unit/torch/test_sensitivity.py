"""Search for the worst neighbors: no group may move beyond its bound."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from corrdp.accounting import WHOLE_RECORD
from corrdp.torch._planning import grouped
from unit.torch.networks import (
    facts_of,
    group_parts,
    released_sum,
    shrink,
    small_network,
    small_policy,
    squared,
)

pytestmark = pytest.mark.torch

N_COLUMNS = 5
CLIP_NORM = 1.0


def backprops(network, rows, labels):
    """Gradient of every loss at the output of the input layer."""
    hidden = network[0](rows).detach().requires_grad_(True)
    losses = squared(network[2](network[1](hidden)), labels)
    return torch.autograd.grad(losses.sum(), hidden)[0]


def wrong_parts(network, layout, row, label, order):
    """Contribution of one record under an order of operations that is wrong."""
    masked = torch.where(torch.as_tensor(layout.sensitive), 0.0, row)
    true = backprops(network, row[None], label)[0]
    reference = backprops(network, masked[None], label)[0]
    parts = []
    for index, group in enumerate(layout.groups):
        if not np.isfinite(group.influence_bound):
            continue
        codes = row[torch.as_tensor(layout.column_groups == index)]
        a, b = torch.outer(reference, codes), torch.outer(true, codes)
        bound, norm = group.influence_bound, group.clip_norm
        if order == "clip the true one, then influence":
            part = a + shrink(shrink(b, norm) - a, bound)
        elif order == "anchor by the true one":
            a = a * (1.0 - min(1.0, bound / float(b.norm())))
            part = shrink(a + shrink(b - a, bound), norm)
        else:  # the norm first, the influence not at all
            part = shrink(b, norm)
        parts.append((index, part))
    return parts


def worst_movement(layout, features, contribution, *, seed, n_trials=60, n_climbs=25):
    """Largest movement found per group when `features` of a record change."""
    rng = np.random.default_rng(seed)
    changing = torch.zeros(N_COLUMNS, dtype=torch.bool)
    changing[[int(name[1:]) for name in features]] = True
    worst = {}

    def draw(scale):
        return torch.as_tensor(rng.normal(size=N_COLUMNS) * scale)

    for trial in range(n_trials):
        scale = 10.0 ** rng.uniform(-1, 2)
        row = draw(scale)
        other = torch.where(changing, draw(scale), row)
        label = torch.as_tensor(rng.normal(size=1) * scale)
        best = -1.0
        target = None
        for _ in range(n_climbs if trial < 6 else 1):
            step = draw(0.3 * scale)
            shift = torch.where(changing, draw(0.3 * scale), step)
            first = row + (step if best >= 0 else 0)
            second = other + (shift if best >= 0 else 0)
            before, after = contribution(first, label), contribution(second, label)
            moved = {
                index: float((after[index] - before[index]).norm()) for index in before
            }
            for index, value in moved.items():
                worst[index] = max(worst.get(index, 0.0), value)
            if target is None:
                target = max(moved, key=moved.get)
            if moved[target] > best:
                best, row, other = moved[target], first, second
    return worst


def setting(score=0.0, influence=0.2):
    policy = small_policy(score=score)
    network = small_network()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(2.0)
    facts = facts_of(network, policy, clip_norm=CLIP_NORM)
    return network, facts, grouped(facts, influence)


@pytest.mark.parametrize("influence", [0.02, 0.2, 1.0])
def test_no_group_moves_beyond_its_bound(influence):
    network, facts, layout = setting(influence=influence)
    table = layout.sensitivity_table(facts.classes)

    def contribution(row, label):
        parts = group_parts(layout, released_sum(network, layout, row[None], label))
        return dict(enumerate(parts))

    for neighbor in facts.classes:
        worst = worst_movement(layout, neighbor.features, contribution, seed=3)
        bounds = table.rows_of(neighbor.name)[0]
        for index, value in worst.items():
            assert value <= bounds[index] * (1 + 1e-9), (neighbor.name, index)
        if neighbor.name == WHOLE_RECORD:  # the search comes close to the bound
            assert max(worst[i] / bounds[i] for i in worst) > 0.8


@pytest.mark.parametrize(
    ("order", "class_name"),
    [
        ("clip the true one, then influence", "insensitive:x2"),
        ("anchor by the true one", "sensitive"),
        ("clip alone", "sensitive"),
    ],
)
def test_the_search_catches_the_wrong_order(order, class_name):
    network, facts, layout = setting()
    bounds = layout.sensitivity_table(facts.classes).rows_of(class_name)[0]
    neighbor = next(c for c in facts.classes if c.name == class_name)

    def contribution(row, label):
        return dict(wrong_parts(network, layout, row, label, order))

    worst = worst_movement(layout, neighbor.features, contribution, seed=3)
    assert any(value > 1.5 * bounds[index] for index, value in worst.items())


def test_a_protected_label_leaves_no_room_for_influence_bounds():
    _, facts, layout = setting(score=0.5)
    table = layout.sensitivity_table(facts.classes)
    norms = [2 * group.clip_norm for group in layout.groups]
    for name in table.class_names:
        assert table.rows_of(name)[0] == pytest.approx(norms)


def test_only_sensitive_changes_profit_from_influence_bounds():
    _, facts, layout = setting(influence=0.25)
    table = layout.sensitivity_table(facts.classes)
    index = [group.name for group in layout.groups].index("input:insensitive")
    norm = layout.groups[index].clip_norm
    assert table.rows_of("sensitive")[0][index] == pytest.approx(0.5 * norm)
    assert table.rows_of("insensitive:x3")[0][index] == pytest.approx(2 * norm)
    assert table.rows_of(WHOLE_RECORD)[0][index] == pytest.approx(2 * norm)


def test_an_unbounded_insensitive_feature_voids_the_bound_of_others():
    # x2 changes the reference pass although its own group has no influence bound.
    network = small_network()
    facts = facts_of(network, small_policy(), by_feature=True)
    layout = grouped(facts, 0.1)
    groups = tuple(
        replace(g, influence_bound=np.inf) if g.name == "input:x2" else g
        for g in layout.groups
    )
    table = replace(layout, groups=groups).sensitivity_table(facts.classes)
    index = [group.name for group in groups].index("input:x3")
    assert table.rows_of("insensitive:x2")[0][index] == 2 * groups[index].clip_norm
