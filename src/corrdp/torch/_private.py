"""A module whose gradients are clipped, noised and charged before anyone sees them."""

import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corrdp.certificate import Certificate
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.torch._batch_sum import BatchSum
from corrdp.torch._layers import Layer, LossFunction, refuse_contexts
from corrdp.torch._loader import PoissonLoader
from corrdp.torch._plan_inputs import NetworkPlan, ReleaseTerms
from corrdp.torch._randomness import LayerRandomness
from corrdp.torch._ranks import Ranks
from corrdp.torch._released import ReleasedGradients


@dataclass(slots=True)
class Progress:
    """How far a training got. By itself: attributes of a module are slow to set."""

    steps_charged: int = 0
    gradient_is_fresh: bool = False  # one that no step has used
    steps_used: int = 0  # charged until the optimizer stepped, or dropped the gradient
    reference_is_known: bool = False  # released, or public
    is_stepping: bool = False  # the private optimizer
    checkpoint: str = ""  # the last one that was written or loaded


class PrivateModule(nn.Module):
    r"""A module with a private backward pass.

    `make_private` builds it. Calling it calls the module; `backward` stands for
    ``loss.backward()``.

    The loss maps outputs and labels to one loss per example, shape (n,); the loader is
    the only source of batches; the generator that of noise, and of the masks of random
    layers. Larger batches than `max_rows` are taken in parts; `ranks` are the processes
    that hold the rows, this one alone by default.

    Guarantee
    ---------
    Every step releases one noisy sum per group within the plan, whatever the optimizer
    does with it; no step beyond the planned ones is taken. Proof:
    `docs/theory/networks.md`.
    """

    def __init__(
        self,
        module: nn.Module,
        layers: tuple[Layer, ...],
        *,
        loss: LossFunction,
        plan: NetworkPlan,
        terms: ReleaseTerms,
        loader: PoissonLoader,
        generator: np.random.Generator,
        has_random_layers: bool = True,
        max_rows: int | None = None,
        ranks: Ranks | None = None,
    ) -> None:
        super().__init__()
        self._ranks = ranks or Ranks(0, (0, loader.n_rows))
        self.module = module
        self.plan = plan
        self.terms = terms
        self.progress = Progress(reference_is_known=plan.reference is None)
        self._loss = loss
        self._loader = loader
        self._generator = generator
        example = next(iter(layers[0].parameters.values()))
        # One noise for all columns may fall on any of them.
        by_column = plan.method != "standard"
        self._sum = BatchSum(
            module,
            layers,
            loss,
            plan.layout,
            entry=plan.noise_layout.input_layer if by_column else "",
            randomness=LayerRandomness(
                generator,
                example.device,
                is_drawn_from=has_random_layers,
                is_watched=loader.rate is not None,
            ),
            max_rows=loader.n_rows if max_rows is None else max_rows,
        )
        parts = list(self._sum.parts(self._sum.total))
        self._trained = [part.parameter for part in parts]
        self._released = ReleasedGradients((p.parameter, p.view) for p in parts)
        self._scale = torch.empty_like(self._sum.total)
        self._write_scale()
        self._check_range()
        self._noise_type: Any = (
            np.float64 if example.dtype == torch.float64 else np.float32
        )
        # A tensor: a number would be made one, and cast, in every step.
        self._expected_batch = example.new_tensor(loader.expected_batch)

    @property
    def steps_charged(self) -> int:
        """Number of steps that were paid for."""
        return self.progress.steps_charged

    @property
    def gradient_is_fresh(self) -> bool:
        """Whether there is a private gradient that no step has used."""
        return self.progress.gradient_is_fresh

    def forward(self, *inputs: Any) -> Any:
        """Return the output of the module."""
        return self.module(*inputs)

    def backward(self, features: Tensor, labels: Tensor) -> None:
        """Put the noisy mean gradient of a batch into the parameters' ``grad``.

        The loss is not returned: it was computed from private rows and is not paid
        for. A gradient that is there already is replaced and stays paid for: gradients
        are not added up over calls, batches are (``max_physical_batch_size``).

        Parameters
        ----------
        features, labels : Tensor
            A batch of this training's loader, once and as it is; it may be empty.

        Guarantee
        ---------
        One step of the plan, charged before the batch is read. Proof:
        `docs/theory/networks.md`.

        Raises
        ------
        BudgetError
            If all planned steps were taken.
        GuaranteeVoidError
            If the batch is not a fresh one of the loader, the loss is not one number
            per example, or a layer was called in a way that its gradient per example
            is not known. Values of rows raise nothing: what is not finite
            contributes nothing.
        CorrDPError
            If the module or the loss raises, as for a label out of range; their own
            words, which may quote a row, are dropped.
        """
        progress = self.progress
        refuse_contexts()
        if not all(parameter.requires_grad for parameter in self._trained):
            raise CorrDPError(
                "a parameter was frozen after make_private, and no gradient of it can "
                "be released. Set requires_grad=True again; to leave it as it is, "
                "build the optimizer without it."
            )
        if progress.steps_charged >= self.plan.noise.n_steps:
            raise BudgetError(
                f"all n_steps={self.plan.noise.n_steps} planned steps are spent. Plan "
                "a longer training from the start; its budget is split among all steps."
            )
        ranks = self._ranks
        with ranks.together():
            self._loader.take_back(features, labels)
        progress.steps_charged += 1
        if not progress.reference_is_known:
            self._release_reference()
        with ranks.together():
            self._sum.write(features, labels)
        total = ranks.total(self._sum.total)
        if ranks.is_first:
            total = self.noisy_sum(total).div_(self._expected_batch)
        self._released.place(ranks.sent(total))
        progress.gradient_is_fresh = True

    def noisy_sum(self, total: Tensor) -> Tensor:
        """Return flat sums over a batch with the noise of a step, shape (..., n).

        All that a step releases. Audits call it, too: with one row per run, so that
        what they attack is what trains.

        Guarantee
        ---------
        One step of the plan per row (`docs/theory/networks.md`, section 4).
        """
        drawn = self._generator.standard_normal(total.shape, dtype=self._noise_type)
        noise = torch.from_numpy(drawn)
        if not total.is_cpu:
            noise = noise.to(total.device)
        return torch.addcmul(total, noise, self._scale)

    def check_gradients(self) -> None:
        """Raise unless gradients are those that the last step released."""
        self._released.check()

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies: they would repeat the noise, and every step of the budget."""
        raise GuaranteeVoidError(
            "a private module is not copied or pickled: the copy would draw the same "
            "noise and take the same steps once more. Copy module.module, or use "
            "save_checkpoint and load_checkpoint."
        )

    def certificate(self) -> Certificate:
        """Return what is proved for all planned steps, known before the first one.

        Guarantee
        ---------
        Holds however many steps are taken (`docs/theory/networks.md`, section 4).
        """
        if not self._ranks.is_first:
            raise CorrDPError(
                f"rank {self._ranks.rank} of the training draws no noise and certifies "
                "nothing. Ask rank 0."
            )
        return self.terms.certify(self.plan)

    def epsilon_so_far(self, class_name: str | None = None) -> float:
        """Return what the steps charged so far cost, if no more had been planned.

        Parameters
        ----------
        class_name : str, optional
            A class of the certificate; the worst promised one by default, of all that
            are priced if the plan promises none.

        Guarantee
        ---------
        Proved if the number of steps does not depend on what was released; the
        certificate holds in any case (`docs/theory/networks.md`, section 4).
        """
        steps = self.steps_charged
        if steps == 0:
            return 0.0
        plan = replace(self.plan, noise=replace(self.plan.noise, n_steps=steps))
        allowed = self.plan.noise.allowed_epsilon
        promised = [name for name, value in allowed.items() if math.isfinite(value)]
        names = [class_name] if class_name else promised or list(allowed)
        return max(plan.epsilon(name) for name in names)

    def generator_state(self) -> str | None:
        """Return the state of replayable noise as JSON text; None for secret noise."""
        if not self.terms.replayable_noise:
            return None
        return json.dumps(self._generator.bit_generator.state)

    @property
    def reference(self) -> Tensor | None:
        """What stands for sensitive codes; None if it is not released yet."""
        return self._sum.reference if self.progress.reference_is_known else None

    def use_reference(self, reference: Tensor) -> None:
        """Let values stand for sensitive codes; that they may is the caller's word.

        They were released, or are public (`docs/theory/networks.md`, section 3).
        """
        self._sum.reference = reference.to(self._sum.reference)
        self.progress.reference_is_known = True

    def restore(
        self,
        steps_charged: int,
        generator_state: str | None,
        reference: Tensor | None,
    ) -> None:
        """Continue after `steps_charged` steps with noise that was not used yet."""
        if self.terms.replayable_noise:
            if generator_state is None:
                raise GuaranteeVoidError(
                    "the checkpoint has no generator state, so random_state would "
                    "repeat noise that was used before. Resume with random_state=None."
                )
            self._generator.bit_generator.state = json.loads(generator_state)
        self.progress.steps_charged = self.progress.steps_used = steps_charged
        self.progress.gradient_is_fresh = False
        if reference is not None:
            self.use_reference(reference)

    def clipped_sum(self, features: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the clipped sum without noise: for tests and research only.

        Guarantee
        ---------
        None: what is returned is not private. See `docs/theory/networks.md`.
        """
        self._sum.write(features, labels)
        return {
            ".".join(filter(None, part.name)): part.view.clone()
            for part in self._sum.parts(self._sum.total)
        }

    def example_losses(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of every example, not private: for audits and research."""
        return self._loss(self.module(features), labels)

    def trained_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that steps release gradients of, in their order."""
        return list(self._trained)

    @property
    def step_noise(self) -> Tensor:
        """Standard deviation of the noise on every coordinate of a sum, as planned."""
        return self._scale

    def _release_reference(self) -> None:
        assert self.plan.reference is not None
        plan, ranks, rows = self.plan.reference, self._ranks, self._loader.features
        total = ranks.total(torch.as_tensor(plan.total(rows))).numpy()
        released = np.zeros_like(plan.center)
        if ranks.is_first:
            released = plan.release_total(total, self._loader.n_rows, self._generator)
        self.use_reference(ranks.sent(torch.as_tensor(released)))

    def _check_range(self) -> None:
        """Raise if sums or noise could overflow, or noise be lost: public numbers."""
        clip_norm = self.plan.layout.clip_norm
        largest = self._loader.n_rows * clip_norm
        noise, limits = self.plan.noise.noise_scale, torch.finfo(self._scale.dtype)
        if not 4.0 * largest + 64.0 * noise.max() <= limits.max:
            raise CorrDPError(
                f"clip_norm={clip_norm:g} over {self._loader.n_rows} rows "
                f"does not fit into {self._scale.dtype}. Choose a smaller clip_norm."
            )
        if noise[noise > 0.0].min(initial=math.inf) < limits.tiny / limits.eps:
            raise CorrDPError(
                f"clip_norm={clip_norm:g} is so small that digits of the "
                f"noise are lost in {self._scale.dtype}. Choose a larger clip_norm."
            )

    def _write_scale(self) -> None:
        scale = torch.tensor(self.plan.noise.noise_scale).to(self._scale)
        for part in self._sum.parts(self._scale):
            group = self.plan.noise_layout.parameter_groups.get(part.name)
            if group is None:
                columns = torch.as_tensor(self.plan.noise_layout.column_groups)
                part.view[:] = scale[columns]
            else:
                part.view.fill_(scale[group])
