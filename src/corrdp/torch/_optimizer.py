"""An optimizer that steps on private gradients, each of them once."""

import warnings
from typing import Any

import torch

from corrdp.exceptions import CorrDPError, GuaranteeVoidError, UtilityWarning
from corrdp.torch._private import PrivateModule


class PrivateOptimizer(torch.optim.Optimizer):
    """An optimizer that steps on fresh private gradients only.

    Schedulers of torch take it as they take any optimizer, over parameters of the
    module that gradients come from.

    Guarantee
    ---------
    Post-processing: it reads released gradients and its own state
    (`docs/theory/networks.md`, section 4).
    """

    def __init__(self, optimizer: torch.optim.Optimizer, module: PrivateModule) -> None:
        known = {id(parameter) for parameter in module.parameters()}
        held = [p for group in optimizer.param_groups for p in group["params"]]
        if any(id(parameter) not in known for parameter in held):
            raise CorrDPError(
                "optimizer holds parameters that are not the module's, whose gradients "
                "would not be private. Build it from module.parameters()."
            )
        hooks = optimizer._optimizer_step_pre_hooks.values()  # noqa: SLF001
        if any(
            isinstance(getattr(h, "__self__", None), PrivateOptimizer) for h in hooks
        ):
            raise CorrDPError(
                "optimizer belongs to another private training, which alone may step "
                "it. Build a new one for this training."
            )
        self.optimizer = optimizer
        self._module = module
        self._trained = {id(parameter) for parameter in module.trained_parameters()}
        optimizer.register_step_pre_hook(self._check_caller)

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Step on the gradient of the last `PrivateModule.backward`, once."""
        if closure is not None:
            raise CorrDPError(
                "a closure would evaluate the loss within the step, without noise. "
                "Call module.backward(features, labels) and then step()."
            )
        if not self._module.gradient_is_fresh:
            raise GuaranteeVoidError(
                "there is no private gradient to step on: module.backward(features, "
                "labels) was not called since the last step, or zero_grad dropped what "
                "it released. Call zero_grad before backward or not at all; a gradient "
                "made by loss.backward() has no noise."
            )
        progress = self._module.progress
        self._warn_of_lost_gradients()
        progress.gradient_is_fresh = False
        self._module.check_gradients()
        if any(
            parameter.grad is not None and id(parameter) not in self._trained
            for group in self.optimizer.param_groups  # as they are now
            for parameter in group["params"]
        ):
            raise GuaranteeVoidError(
                "a parameter that make_private did not know or found frozen has a "
                "gradient, which has no noise: loss.backward() made it. The step is "
                "spent. Drop it with zero_grad before module.backward; to train the "
                "parameter, set requires_grad=True before make_private."
            )
        progress.is_stepping = True
        try:
            self.optimizer.step()
        finally:
            progress.is_stepping = False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop gradients, or set them to 0; `PrivateModule.backward` does by itself."""
        self.optimizer.zero_grad(set_to_none=set_to_none)
        progress = self._module.progress
        progress.gradient_is_fresh = False
        progress.steps_used = progress.steps_charged

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Parameter groups of the optimizer, for schedulers."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """What the optimizer remembers of released gradients."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """Settings of parameter groups that have none of their own."""
        return self.optimizer.defaults

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse parameters that were not planned for."""
        del param_group
        raise CorrDPError(
            "parameters are fixed when training is planned. Build the optimizer from "
            "all of module.parameters() before make_private."
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Refuse copies as the module does, whose noise they would repeat."""
        return self._module.__reduce_ex__(protocol)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the optimizer."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.optimizer.load_state_dict(state)

    def _warn_of_lost_gradients(self) -> None:
        """Warn if gradients were paid for and replaced before a step."""
        progress = self._module.progress
        n_lost = progress.steps_charged - progress.steps_used - 1
        progress.steps_used = progress.steps_charged
        if n_lost > 0:
            warnings.warn(
                f"{n_lost} gradients that were paid for were replaced before a step "
                "used them: they are not added up. Step after every module.backward; "
                "for larger batches raise batch_size, and max_physical_batch_size says "
                "how many rows are taken at once.",
                UtilityWarning,
                stacklevel=3,
            )

    def _check_caller(self, *given: Any) -> None:
        """Refuse steps of the optimizer that do not come from `step`."""
        del given
        if not self._module.progress.is_stepping:
            raise GuaranteeVoidError(
                "the optimizer that make_private was given steps on any gradient, also "
                "on one without noise or one that was used before. Call step of the "
                "optimizer that make_private returned."
            )
