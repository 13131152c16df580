"""Train a PyTorch module under a policy."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_count, check_real
from corrdp.certificate import Calibration, Component, LeakageClaim
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.policy import BlockKind, Budget, Policy, neighbor_classes, policy_blocks
from corrdp.torch._domain import check_codes
from corrdp.torch._layers import LossFunction, refuse_unsupported, trained_layers
from corrdp.torch._loader import PoissonLoader, Rows, rows_of
from corrdp.torch._optimizer import PrivateOptimizer
from corrdp.torch._plan_inputs import NetworkPlanInputs, ReleaseTerms
from corrdp.torch._planning import epsilon_of_noise, plan_given_noise, plan_network
from corrdp.torch._private import PrivateModule
from corrdp.torch._probe import probe_independence
from corrdp.torch._ranks import Ranks
from corrdp.torch._towers import check_towers
from corrdp.training import central_reference


class PrivateTraining(NamedTuple):
    """What `make_private` returns; unpacks like a tuple.

    Parameters
    ----------
    module : PrivateModule
        The module with a private backward pass.
    optimizer : PrivateOptimizer
        The optimizer, which steps on private gradients only.
    loader : PoissonLoader
        One batch per planned step.
    """

    module: PrivateModule
    optimizer: PrivateOptimizer
    loader: PoissonLoader


def make_private(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Rows,
    *,
    loss: LossFunction,
    policy: Policy,
    epsilon: float | None = None,
    delta: float,
    epochs: float,
    batch_size: int | None = None,
    max_physical_batch_size: int | None = None,
    noise_multiplier: float | None = None,
    clip_norm: float = 1.0,
    leakage: Mapping[str, float] | float | None = None,
    leakage_claim: LeakageClaim | None = None,
    leakage_assumptions: Sequence[str] = (),
    replayable_leakage: bool = False,
    spent: Sequence[Component] = (),
    method: str = "corr",
    calibration: str = "certified",
    fall_back: bool = True,
    input_layer: str | None = None,
    group_by: str = "role",
    towers: Sequence[str] = (),
    reference: FloatArray | None = None,
    code_scale: FloatArray | None = None,
    residual_bound: float | None = None,
    distributed: str | None = None,
    random_state: int | None = None,
) -> PrivateTraining:
    """Return a module, an optimizer and a loader that train under a policy.

    Parameters
    ----------
    module : torch.nn.Module
        Treats every example by itself; trained in place.
    optimizer : torch.optim.Optimizer
        Over the module's parameters; any, since it is post-processing.
    data : tuple of Tensor, Dataset or DataLoader
        Encoded features, shape (n, n_columns), and labels, shape (n, ...). Values that
        are no codes of the policy are refused; features of another number of axes, and
        whole numbers, are taken as they are. Items of a data set are read once; the
        batch size of a loader is taken, its sampler is replaced by Poisson sampling.
    loss : callable
        Maps outputs and labels to one loss per example, shape (n,).
    policy : Policy
        Who is protected from what.
    epsilon, delta : float
        The budget; `epsilon` follows from `noise_multiplier` if that is given.
    epochs : float
        Expected passes over the data; fixes the number of steps.
    batch_size : int, optional
        Expected size of a Poisson batch; None for all rows in every step.
    max_physical_batch_size : int, optional
        Most rows of one pass through the module. Larger batches are taken in parts,
        for one charge and one draw of noise.
    noise_multiplier : float, optional
        Noise in units of `clip_norm`, instead of `epsilon`; for ``standard`` alone.
        The certificate says which epsilon it gives.
    clip_norm : float
        Norm to which the gradient of an example is clipped; groups share it.
    leakage : mapping of str to float, or float, optional
        Leakage per insensitive feature or of the block; the declared ones.
    leakage_claim : LeakageClaim, optional
        Where `leakage` came from; declared by default.
    leakage_assumptions : sequence of str
        What an estimated leakage rests on, for the certificate.
    replayable_leakage : bool
        Whether it was released with a fixed seed; the certificate says so.
    spent : sequence of Component
        Earlier releases on the same rows that the certificate must include.
    method : {"corr", "layered", "standard"}
        Noise by groups, by layer, or flat clipping with one noise scale.
    calibration : {"certified", "theorem"}
        Proved constants, or Eq. (5) of the paper.
    fall_back : bool
        Let ``corr`` take noise by layer where it predicts less error.
    input_layer : str, optional
        Name of the linear layer that reads the encoded columns.
    group_by : {"role", "feature"}
        How the input columns are grouped.
    towers : sequence of str
        Names of linear layers, or of modules that hold them, that sensitive columns
        join only after. Their influence on all of these layers is bounded, instead of
        on the input columns of one layer.
    reference : array of float, shape (n_columns,), optional
        Public values that stand for sensitive columns in the second pass; the center
        of their codes.
    code_scale : array of float, shape (n_columns,), optional
        Says that features are codes of `PolicyEncoder`, moved so that their center is
        `reference` and multiplied by this. The mean of sensitive codes is then
        released before the first step, if influence is bounded and batches are full,
        and is the reference.
    residual_bound : float, optional
        Clip in units of the residual: the gradient of one example's loss at the
        module's output is cut to this norm, and an example whose gradient there is
        shorter has proportionally shorter clipping norms. Clipping then weighs examples
        by their features and not by how wrong the module is about them, which bends
        what is learned. ``2 ** 0.5`` for cross-entropy, whose gradients are never
        longer. By default gradients are clipped as in ordinary DP-SGD.
    distributed : {"shards", "copies"}, optional
        Under an initialized group of several processes: whether each was given records
        of its own, or all the same table, of which each takes a part.
    random_state : int, optional
        Replayable noise, for research; the certificate says so.

    Returns
    -------
    training : PrivateTraining
        Unpacks into module, optimizer and loader.

    Guarantee
    ---------
    (epsilon, delta)-CorrDP for the policy: per class what ``module.certificate()``
    states, whatever is done with the gradients. Proof: `docs/theory/networks.md`. Noise
    and batches come from a cryptographic generator unless `random_state` is given.

    Examples
    --------
    >>> import torch
    >>> from corrdp.policy import Feature, NumberDomain, Policy
    >>> from corrdp.torch import make_private
    >>> policy = Policy((Feature("age", "sensitive", NumberDomain(0, 100)),))
    >>> network = torch.nn.Linear(1, 1)
    >>> def squared_error(outputs, labels):
    ...     return (outputs.squeeze(1) - labels) ** 2
    >>> module, optimizer, loader = make_private(
    ...     network,
    ...     torch.optim.Adam(network.parameters()),
    ...     (torch.rand(100, 1) - 0.5, torch.rand(100)),
    ...     loss=squared_error, policy=policy, epsilon=1.0, delta=1e-6, epochs=3,
    ... )
    >>> for features, labels in loader:
    ...     module.backward(features, labels)
    ...     optimizer.step()
    >>> module.certificate().epsilon <= 1.0
    True
    """
    features, labels, loader_batch = rows_of(data)
    refuse_unsupported(module, optimizer, features, policy, method)
    ranks, features, labels = Ranks.joined(distributed, features, labels)
    n_rows = ranks.n_rows
    expected = loader_batch if batch_size is None else batch_size
    rate, n_steps = _schedule(n_rows, expected, epochs)
    if noise_multiplier is not None:
        epsilon = epsilon_of_noise(
            noise_multiplier,
            epsilon=epsilon,
            delta=delta,
            n_steps=n_steps,
            rate=rate,
            method=method if calibration == "certified" else calibration,
            spent=spent,
        )
    elif epsilon is None:
        raise BudgetError(
            "epsilon is None, and no noise_multiplier is given instead. Choose one: a "
            "budget is never inherited."
        )
    budget = Budget(epsilon=epsilon, delta=delta)
    policy.require_confirmed()
    policy.require_single_rows("training")
    blocks = policy_blocks(policy)
    if any(block.kind is BlockKind.HATS for block in blocks):
        raise PolicyError(
            "the policy declares knots, which are for additive models: a network bends "
            "numbers by itself. Leave knots out."
        )
    layers = trained_layers(module)
    is_encoded = features.ndim == 2 and features.is_floating_point()
    if is_encoded and features.shape[1] != blocks[-1].stop:
        raise PolicyError(
            f"features have {features.shape[1]} columns, the policy encodes "
            f"{blocks[-1].stop}. Encode the table with PolicyEncoder(policy)."
        )
    center = central_reference(blocks) if reference is None else reference
    _check_public_row("reference", center, blocks[-1].stop)
    if code_scale is not None:
        _check_public_row("code_scale", code_scale, blocks[-1].stop, positive=True)
    check_choice("group_by", group_by, ("role", "feature"))
    check_choice("calibration", calibration, tuple(map(str, Calibration)))
    facts = NetworkPlanInputs(
        layers=layers,
        blocks=blocks,
        reference=center,
        policy=policy,
        classes=neighbor_classes(policy, leakage),
        budget=budget,
        n_rows=n_rows,
        n_steps=n_steps,
        rate=rate,
        clip_norm=check_real("clip_norm", clip_norm, lower=0.0, open_lower=True),
        input_layer=input_layer,
        by_feature=group_by == "feature",
        towers=tuple(towers),
        code_scale=code_scale,
        spent=tuple(spent),
        residual_bound=(
            math.inf
            if residual_bound is None
            else check_real("residual_bound", residual_bound, lower=0, open_lower=True)
        ),
    )
    plan = (
        plan_network(
            facts,
            method=method,
            calibration=Calibration(calibration),
            fall_back=fall_back,
        )
        if noise_multiplier is None
        else plan_given_noise(facts, noise_multiplier)
    )
    with ranks.together():
        randomness = probe_independence(
            module,
            layers,
            loss,
            features,
            labels,
            residual_bound=plan.layout.residual_bound,
        )
        max_rows = n_rows
        if max_physical_batch_size is not None:
            max_rows = check_count("max_physical_batch_size", max_physical_batch_size)
        if randomness.is_shared and rate is not None and max_rows < n_rows:
            raise GuaranteeVoidError(
                "the rows of a pass share random numbers, which are others in every "
                f"part of a sampled batch (max_physical_batch_size={max_rows}): one "
                "record then moves others to another part. Draw numbers for every "
                "row, or leave max_physical_batch_size=None."
            )
        if is_encoded:
            moved = (center, code_scale) if code_scale is not None else ()
            check_codes(features, blocks, *moved)
        if plan.layout.towers:
            check_towers(module, layers, plan.layout, features)
    ranks.start_alike(module, json.dumps(plan.to_json(), sort_keys=True))
    generator = noise_generator(random_state)
    if not ranks.is_first:  # draws masks of random layers, and nothing else
        generator = noise_generator(random_state, purpose=f"masks of rank {ranks.rank}")
    loader = PoissonLoader(
        features,
        labels,
        rate=rate,
        n_steps=n_steps,
        generator=generator,
        ranks=ranks,
    )
    terms = ReleaseTerms(
        policy=policy,
        budget=budget,
        leakage=leakage_claim or LeakageClaim.declared(policy, leakage),
        spent=tuple(spent),
        replayable_noise=random_state is not None,
        leakage_assumptions=tuple(leakage_assumptions),
        replayable_leakage=replayable_leakage,
    )
    private = PrivateModule(
        module,
        layers,
        loss=loss,
        plan=plan,
        terms=terms,
        loader=loader,
        generator=generator,
        has_random_layers=randomness.is_drawn,
        max_rows=max_rows,
        ranks=ranks,
    )
    return PrivateTraining(private, PrivateOptimizer(optimizer, private), loader)


def make_private_with_epsilon(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data_loader: Rows,
    *,
    criterion: LossFunction,
    policy: Policy,
    target_epsilon: float,
    target_delta: float,
    epochs: float,
    max_grad_norm: float = 1.0,
    **arguments: Any,
) -> PrivateTraining:
    """Return what `make_private` does, by the names that users of Opacus know.

    Parameters
    ----------
    module, optimizer, policy, epochs, **arguments
        As `make_private`.
    data_loader, criterion, target_epsilon, target_delta, max_grad_norm
        Its ``data``, ``loss`` (one per example, as with ``reduction="none"``),
        ``epsilon``, ``delta`` and ``clip_norm``.

    Guarantee
    ---------
    That of `make_private` (`docs/theory/networks.md`).
    """
    return make_private(
        module,
        optimizer,
        data_loader,
        loss=criterion,
        policy=policy,
        epsilon=target_epsilon,
        delta=target_delta,
        epochs=epochs,
        clip_norm=max_grad_norm,
        **arguments,
    )


def _check_public_row(
    name: str, row: FloatArray, n_columns: int, *, positive: bool = False
) -> None:
    values = np.asarray(row)
    if values.shape != (n_columns,) or not np.isfinite(values).all():
        raise CorrDPError(
            f"{name} must hold {n_columns} finite numbers, one per encoded column, got "
            f"shape {values.shape}. Pass public numbers."
        )
    if positive and not (values > 0.0).all():
        raise CorrDPError(
            f"{name} must be positive, got {values.min():g}. Pass what codes were "
            "multiplied by."
        )


def _schedule(
    n_rows: int, batch_size: int | None, epochs: float
) -> tuple[float | None, int]:
    """Return sampling rate, None for full batches, and number of steps."""
    epochs = check_real("epochs", epochs, lower=0.0, open_lower=True)
    check_count("number of rows", n_rows)
    if batch_size is None or check_count("batch_size", batch_size) >= n_rows:
        return None, math.ceil(epochs)
    return batch_size / n_rows, math.ceil(epochs * n_rows / batch_size)
