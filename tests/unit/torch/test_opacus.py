"""Comparison with Opacus 1.6: same sums, same price, and a trap that it has."""

import warnings

import numpy as np
import pytest
import torch
from scipy.fft import irfft, rfft
from scipy.optimize import brentq
from scipy.stats import norm
from torch import nn

from corrdp.accounting import gaussian_epsilon, sampled_epsilon
from corrdp.torch._layers import trained_layers
from corrdp.torch._layout import flat_layout
from unit.torch.networks import released_sum, rows, small_network, squared

pytestmark = pytest.mark.torch

opacus = pytest.importorskip("opacus", reason="opacus is not installed")


@pytest.fixture(autouse=True)
def _quiet_opacus():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("clip_norm", [0.1, 1.0, 100.0])
def test_standard_has_the_clipped_sums_of_opacus(clip_norm):
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    features, labels = rows(12)
    theirs = GradSampleModule(small_network())
    optimizer = DPOptimizer(
        torch.optim.SGD(theirs.parameters(), lr=0.0),
        noise_multiplier=0.0,
        max_grad_norm=clip_norm,
        expected_batch_size=1,
    )
    squared(theirs(features), labels).mean().backward()
    optimizer.pre_step()
    ours = small_network()
    layout = flat_layout(trained_layers(ours)).with_clip_norm(clip_norm)
    sums = released_sum(ours, layout, features, labels)
    for name, parameter in theirs.named_parameters():
        own = sums[name.removeprefix("_module.")]
        # Opacus divides norms by a constant slightly above their value.
        assert torch.allclose(parameter.grad, own, rtol=1e-4, atol=1e-7)


def add_or_remove_epsilon(noise_multiplier, rate, n_steps, delta):
    """Epsilon under Opacus' relation, by convolving losses rounded to a grid."""
    spacing, n_cells = 1e-4, 2**19
    largest = 1.0 / noise_multiplier
    found = []
    for removed in (True, False):
        edges = np.linspace(-11.0, 11.0 + largest, 400_001)
        present = norm.cdf(edges - largest) * rate + norm.cdf(edges) * (1 - rate)
        mass = np.diff(present if removed else norm.cdf(edges))
        with_record = np.log1p(rate * np.expm1(largest * edges - largest**2 / 2))
        loss = (with_record[1:] + with_record[:-1]) / (2 if removed else -2)
        cells = np.bincount(
            np.rint(loss / spacing).astype(int) % n_cells, mass, minlength=n_cells
        )
        total = irfft(rfft(cells) ** n_steps, n_cells)
        losses = spacing * np.arange(n_cells)
        losses = np.where(losses < spacing * n_cells / 2, losses, losses - losses[-1])
        found.append(
            brentq(
                lambda e, losses=losses, total=total: (
                    total @ np.maximum(-np.expm1(np.minimum(e - losses, 0)), 0) - delta
                ),
                0.0,
                20.0,
            )
        )
    return max(found)


@pytest.mark.parametrize(
    ("noise_multiplier", "rate", "n_steps"), [(1.0, 0.01, 1000), (5.0, 0.1, 1000)]
)
def test_the_noise_of_standard_has_the_price_that_opacus_gives_it(
    noise_multiplier, rate, n_steps
):
    from opacus.accountants import PRVAccountant, RDPAccountant

    theirs = {}
    for kind in (PRVAccountant, RDPAccountant):
        accountant = kind()
        accountant.history = [(noise_multiplier, rate, n_steps)]
        theirs[kind] = accountant.get_epsilon(delta=1e-5)
    compared = add_or_remove_epsilon(noise_multiplier, rate, n_steps, 1e-5)
    assert compared == pytest.approx(theirs[PRVAccountant], abs=0.011)  # its slack
    assert compared <= theirs[RDPAccountant]
    # What is certified here replaces a record, and costs more.
    replaced = sampled_epsilon(
        rate=rate,
        contribution=1.0 / noise_multiplier,
        change=2.0 / noise_multiplier,
        n_steps=n_steps,
        delta=1e-5,
    )
    assert replaced > compared


def test_without_sampling_their_price_is_the_gaussian_one():
    from opacus.accountants import PRVAccountant

    accountant = PRVAccountant()
    accountant.history = [(20.0, 1.0, 100)]
    theirs = accountant.get_epsilon(delta=1e-5)
    ours = gaussian_epsilon(mu=np.sqrt(100) / 20.0, delta=1e-5)
    assert theirs == pytest.approx(ours, rel=0.02)


def test_a_loss_of_two_axes_silently_stops_clipping_in_their_ghost_mode():
    """Documents why losses of shape (n, 1) are refused here."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import (
        DPLossFastGradientClipping,
    )

    def clipped_norm(outputs_to_labels):
        torch.manual_seed(0)
        clip_norm = 0.1
        module = GradSampleModuleFastGradientClipping(
            nn.Linear(5, 1),
            max_grad_norm=clip_norm,
            use_ghost_clipping=True,
            loss_reduction="sum",
        )
        optimizer = DPOptimizerFastGradientClipping(
            torch.optim.SGD(module.parameters(), lr=0.0),
            noise_multiplier=0.0,
            max_grad_norm=clip_norm,
            expected_batch_size=1,
            loss_reduction="sum",
        )
        criterion = DPLossFastGradientClipping(
            module, optimizer, nn.MSELoss(reduction="sum"), loss_reduction="sum"
        )
        features, labels = (t.float() for t in rows(8))
        outputs = module(100 * features)
        criterion(*outputs_to_labels(outputs, labels)).backward()
        optimizer.pre_step()
        return float(torch.cat([p.grad.flatten() for p in module.parameters()]).norm())

    bound = 8 * 0.1  # eight examples, each clipped to 0.1
    one_axis = clipped_norm(lambda o, y: (o.squeeze(1), y))
    two_axes = clipped_norm(lambda o, y: (o, y[:, None]))
    assert one_axis <= bound * 1.001
    assert two_axes > 10 * bound
