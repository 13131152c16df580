"""The support table of the docs is what tests find."""

import pytest
import torch

from unit.torch.networks import example_gradients, flat_sum
from unit.torch.support_cases import (
    PAGE,
    REFUSED,
    SUPPORTED,
    example,
    message_of,
    render,
    training_of,
)

pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", SUPPORTED)
def test_supported_layers_are_clipped_as_single_examples(name):
    body, shape, width = SUPPORTED[name]
    training = training_of(body, shape, width)
    network = training.module.module
    features, labels = example(shape)
    sums = training.module.clipped_sum(features, labels)
    ours = torch.cat([sums[key].flatten() for key, _ in network.named_parameters()])
    gradients = example_gradients(network, features, labels)
    wanted = flat_sum(gradients, 0.3)
    assert torch.allclose(ours, wanted, rtol=1e-8, atol=1e-10)
    whole = flat_sum(gradients, 1e9)
    assert not torch.allclose(ours, whole, rtol=1e-3)  # something was cut


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_so(name):
    assert REFUSED[name][-1] in message_of(name)


def test_the_page_is_what_was_found():
    assert PAGE.read_text(encoding="utf-8") == render()
