"""A module whose gradients are clipped, noised and charged before anyone sees them."""

import json
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from corrdp.certificate import Certificate
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.torch._capture import INPUT_CHANGED, Capture
from corrdp.torch._clipping import GroupClipper
from corrdp.torch._layers import Layer, LossFunction, check_losses, refuse_contexts
from corrdp.torch._loader import PoissonLoader
from corrdp.torch._plan_inputs import NetworkPlan, ReleaseTerms
from corrdp.torch._randomness import LayerRandomness
from corrdp.torch._ranks import Ranks
from corrdp.torch._released import ReleasedGradients
from corrdp.torch._rows import Room, all_finite, bounded_residuals, same_values
from corrdp.torch._towers import SecondPass

_ALONE = nullcontext()  # where no other process waits


def _differentiating() -> AbstractContextManager[Any]:
    """Return where graphs are recorded whatever the caller chose, and not watched.

    Anomaly detection would stop at values that are not finite. Nothing to enter, as
    a rule: every context costs a step some microseconds.
    """
    if torch.is_grad_enabled() and not torch.is_anomaly_enabled():
        return _ALONE
    contexts = ExitStack()
    contexts.enter_context(torch.enable_grad())
    contexts.enter_context(torch.autograd.set_detect_anomaly(False))
    return contexts


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

    Parameters
    ----------
    module : torch.nn.Module
        The network.
    layers : tuple of Layer
        Its layers with trained parameters.
    loss : callable
        Maps outputs and labels to one loss per example, shape (n,).
    plan : NetworkPlan
        Groups, clipping norms, influence bounds, noise, number of steps.
    terms : ReleaseTerms
        Policy, budget and leakage, for the certificate.
    loader : PoissonLoader
        The only source of batches; sums are divided by its expected batch.
    generator : numpy.random.Generator
        Source of noise, and of the masks of random layers.
    has_random_layers : bool
        Whether the module draws random numbers.
    max_rows : int, optional
        Most rows of one pass; larger batches are taken in parts.
    ranks : Ranks, optional
        The processes that hold the rows, if they are several.

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
        self._ranks = ranks
        self.module = module
        self.plan = plan
        self.terms = terms
        self.progress = Progress(reference_is_known=plan.reference is None)
        self._layers = layers
        self._loss = loss
        self._loader = loader
        self._generator = generator
        self._layout = layout = plan.layout
        self._max_rows = loader.n_rows if max_rows is None else max_rows
        self._clips_influence = layout.clips_influence
        # One noise for all columns may fall on any of them.
        by_column = plan.method != "standard"
        self._entry = plan.noise_layout.input_layer if by_column else ""
        self._clipper = GroupClipper(layers, layout)
        example = next(iter(layers[0].parameters.values()))
        self._sum = example.new_zeros(sum(layer.size for layer in layers))
        self._views = dict(self._split(self._sum))
        self._released = ReleasedGradients(
            zip(
                (parameter for parameter, _ in self._parameters_in_order()),
                self._views.values(),
                strict=True,
            )
        )
        self._randomness = LayerRandomness(
            generator,
            example.device,
            is_drawn_from=has_random_layers,
            is_watched=loader.rate is not None,
        )
        self._scale = torch.empty_like(self._sum)
        self._write_scale()
        self._check_range()
        self._noise_type: Any = (
            np.float64 if example.dtype == torch.float64 else np.float32
        )
        # A tensor: a number would be made one, and cast, in every step.
        self._expected_batch = example.new_tensor(loader.expected_batch)
        self._reference = torch.as_tensor(layout.reference).to(example)
        self._sensitive = torch.as_tensor(layout.sensitive, device=example.device)

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
        if not all(p.requires_grad for p, _ in self._parameters_in_order()):
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
        with _ALONE if ranks is None else ranks.together():
            self._loader.take_back(features, labels)
        progress.steps_charged += 1
        if not progress.reference_is_known:
            self._release_reference()
        with _ALONE if ranks is None else ranks.together():
            self._add_batch(features, labels)
        if ranks is not None:
            self._sum.copy_(ranks.total(self._sum))
        gradient = self._sum
        if ranks is None or ranks.is_first:
            gradient = self.noisy_sum(self._sum).div_(self._expected_batch)
        self._released.place(gradient if ranks is None else ranks.sent(gradient))
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
        if self._ranks is not None and not self._ranks.is_first:
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
        return self._reference if self.progress.reference_is_known else None

    def use_reference(self, reference: Tensor) -> None:
        """Let values stand for sensitive codes; that they may is the caller's word.

        They were released, or are public (`docs/theory/networks.md`, section 3).
        """
        self._reference = reference.to(self._reference)
        self.progress.reference_is_known = True

    def restore(
        self,
        steps_charged: int,
        generator_state: str | None,
        reference: Tensor | None,
    ) -> None:
        """Continue after `steps_charged` steps with noise that was not used yet."""
        self.progress.steps_charged = self.progress.steps_used = steps_charged
        self.progress.gradient_is_fresh = False
        if reference is not None:
            self.use_reference(reference)
        if self.terms.replayable_noise:
            if generator_state is None:
                raise GuaranteeVoidError(
                    "the checkpoint has no generator state, so random_state would "
                    "repeat noise that was used before. Resume with random_state=None."
                )
            self._generator.bit_generator.state = json.loads(generator_state)

    def clipped_sum(self, features: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the clipped sum without noise: for tests and research only.

        Guarantee
        ---------
        None: what is returned is not private. See `docs/theory/networks.md`.
        """
        self._add_parts(features, labels)
        return {
            ".".join(part for part in name if part): view.clone()
            for name, view in self._views.items()
        }

    def example_losses(self, features: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of every example, not private: for audits and research."""
        return self._loss(self.module(features), labels)

    def trained_parameters(self) -> list[nn.Parameter]:
        """Return the parameters that steps release gradients of, in their order."""
        return [parameter for parameter, _ in self._parameters_in_order()]

    @property
    def step_noise(self) -> Tensor:
        """Standard deviation of the noise on every coordinate of a sum, as planned."""
        return self._scale

    def _release_reference(self) -> None:
        assert self.plan.reference is not None
        plan, ranks, rows = self.plan.reference, self._ranks, self._loader.features
        if ranks is None:
            self.use_reference(torch.as_tensor(plan.release(rows, self._generator)))
            return
        total = ranks.total(torch.as_tensor(plan.total(rows))).numpy()
        released = np.zeros_like(plan.center)
        if ranks.is_first:
            released = plan.release_total(total, ranks.n_rows, self._generator)
        self.use_reference(ranks.sent(torch.as_tensor(released)))

    def _add_batch(self, features: Tensor, labels: Tensor) -> None:
        """Sum up a batch, which may be empty."""
        if features.shape[0] == 0:
            self._sum.zero_()
        else:
            self._add_parts(features, labels)

    def _add_parts(self, features: Tensor, labels: Tensor) -> None:
        """Sum up a batch, in parts if it has more rows than one pass may have."""
        with _differentiating():
            if len(features) <= self._max_rows:
                self._add_clipped(features, labels)
                return
            total = torch.zeros_like(self._sum)
            for start in range(0, len(features), self._max_rows):
                own = slice(start, start + self._max_rows)
                self._add_clipped(features[own], labels[own])
                total += self._sum
            self._sum.copy_(total)

    def _add_clipped(self, features: Tensor, labels: Tensor) -> None:
        n_rows = n_losses = features.shape[0]
        pristine: tuple[Tensor, ...] = (features,)
        if self._clips_influence:
            masked = torch.where(self._sensitive, self._reference, features)
            pristine = (features, masked)
            features = torch.cat(pristine)
            labels = torch.cat([labels, labels])
            n_losses = 2 * n_rows
        version = features._version  # noqa: SLF001
        problem = ""
        with self._randomness.secret(), Capture(self._layers) as capture:
            try:
                outputs = self.module(features)
                losses = self._loss(outputs, labels)
            except CorrDPError:
                raise
            except Exception as error:
                problem = type(error).__name__
        if problem:  # what torch says quotes labels and indices
            raise CorrDPError(
                f"the module or the loss stopped at a batch ({problem}). The step "
                "is charged and nothing is released. A label or an index out of "
                "range? Call both on public rows to see where."
            )
        check_losses(losses, n_losses)
        capture.check(n_losses)
        if features._version != version:  # noqa: SLF001
            raise GuaranteeVoidError(INPUT_CHANGED)
        # No value is looked at: a loss that is not finite is its own row's alone.
        room = None
        if self._layout.bounds_residuals:
            bound = self._layout.residual_bound
            signal, parts = bounded_residuals(losses, outputs, bound)
            room = Room.of(parts, n_rows)
            backprops = capture.backprops(outputs, signal)
        else:
            backprops = capture.backprops(losses, torch.ones_like(losses))
        activations = capture.activations()
        self._check_entry(capture, features, pristine)
        reference, second_passes = None, None
        if self._clips_influence:
            entry = self._layout.input_layer
            reference = backprops[entry][n_rows:] if entry else None
            second_passes = {
                name: SecondPass(activations[name][n_rows:], backprops[name][n_rows:])
                for name in self._layout.towers
            }
            activations = {name: rows[:n_rows] for name, rows in activations.items()}
            backprops = {name: rows[:n_rows] for name, rows in backprops.items()}
        # A look at every norm takes time, and a finite sum shows that none was needed.
        for check_finite in (False, True):
            self._clipper.add_sum(
                activations,
                backprops,
                reference,
                self._views,
                check_finite=check_finite,
                room=room,
                second_passes=second_passes,
            )
            if all_finite(self._sum):
                return
        raise GuaranteeVoidError(
            f"the clipped sum of step {self.steps_charged} is not finite, although "
            "every contribution was bounded: a defect of corrdp. The step is charged "
            "and nothing is released. Report it with the module, without the data."
        )

    def _check_entry(
        self, capture: Capture, features: Tensor, pristine: tuple[Tensor, ...]
    ) -> None:
        """Raise unless the input layer was given the codes, with their values."""
        entry = self._entry
        if not entry:
            return
        seen = capture.activation(entry)
        if seen.data_ptr() != features.data_ptr() or seen.shape != features.shape:
            raise GuaranteeVoidError(
                f"input layer {entry!r} does not read the encoded columns as they are. "
                "Give it the module's input, or choose method='standard'."
            )
        if len(pristine) > 1:  # not all changes raise the version counter
            n_rows = len(pristine[0])
            if not all(map(same_values, (seen[:n_rows], seen[n_rows:]), pristine)):
                raise GuaranteeVoidError(INPUT_CHANGED)

    def _check_range(self) -> None:
        """Raise if sums or noise could overflow, or noise be lost: public numbers."""
        largest = self._loader.n_rows * self._layout.clip_norm
        noise, limits = self.plan.noise.noise_scale, torch.finfo(self._sum.dtype)
        if not 4.0 * largest + 64.0 * noise.max() <= limits.max:
            raise CorrDPError(
                f"clip_norm={self._layout.clip_norm:g} over {self._loader.n_rows} rows "
                f"does not fit into {self._sum.dtype}. Choose a smaller clip_norm."
            )
        if noise[noise > 0.0].min(initial=math.inf) < limits.tiny / limits.eps:
            raise CorrDPError(
                f"clip_norm={self._layout.clip_norm:g} is so small that digits of the "
                f"noise are lost in {self._sum.dtype}. Choose a larger clip_norm."
            )

    def _parameters_in_order(self) -> Iterator[tuple[nn.Parameter, tuple[str, str]]]:
        for layer in self._layers:
            for key, parameter in layer.parameters.items():
                yield parameter, (layer.name, key)

    def _split(self, flat: Tensor) -> Iterator[tuple[tuple[str, str], Tensor]]:
        start = 0
        for parameter, name in self._parameters_in_order():
            stop = start + parameter.numel()
            yield name, flat[start:stop].view(parameter.shape)
            start = stop

    def _write_scale(self) -> None:
        scale = torch.tensor(self.plan.noise.noise_scale).to(self._scale)
        for name, view in self._split(self._scale):
            group = self.plan.noise_layout.parameter_groups.get(name)
            if group is None:
                view[:] = scale[torch.as_tensor(self.plan.noise_layout.column_groups)]
            else:
                view.fill_(scale[group])
