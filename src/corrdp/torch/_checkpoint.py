"""Checkpoints that carry the privacy spent so far."""

import secrets
from pathlib import Path

import torch

from corrdp._json import digest
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.torch._make_private import PrivateTraining

SCHEMA = "corrdp.checkpoint/2"
_HELD = {"token", "module", "optimizer", "generator", "reference"}


def save_checkpoint(training: PrivateTraining, path: str | Path) -> None:
    """Write parameters, optimizer state, reference and the steps that were charged.

    Parameters
    ----------
    training : PrivateTraining
        What `make_private` returned.
    path : path
        The file; replaced in one move, so that a crash leaves the old one.

    Guarantee
    ---------
    Everything written is post-processing of what was released. With replayable noise
    the state of the generator is written too, so that no noise is ever used twice
    (`docs/theory/networks.md`, section 4).
    """
    module, optimizer, loader = training
    token = secrets.token_hex(16)
    document = {
        "schema": SCHEMA,
        "token": token,
        "plan": digest(module.plan.to_json()),
        "steps_charged": module.steps_charged,
        "steps_drawn": loader.steps_taken,
        "module": module.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "generator": module.generator_state(),
        "reference": module.reference,
    }
    place = Path(path)
    draft = place.with_name(place.name + ".draft")
    torch.save(document, draft)
    draft.replace(place)
    module.progress.checkpoint = token


def load_checkpoint(training: PrivateTraining, path: str | Path) -> None:
    """Continue a training where `save_checkpoint` left it.

    Parameters
    ----------
    training : PrivateTraining
        Made with the same arguments as the one that was saved.
    path : path
        The file. It is read without executing anything from it.

    Guarantee
    ---------
    Steps charged before count against the same plan; a plan that differs is refused. A
    training that has taken steps loads only what it wrote or loaded itself, with
    nothing released since: others do not know its steps (`docs/theory/networks.md`,
    section 4). Whatever is loaded, steps count first: a checkpoint that fails halfway
    leaves no parameters whose steps are forgotten.
    """
    try:
        document = torch.load(path, weights_only=True)
    except Exception as error:
        raise CorrDPError(
            f"cannot read the checkpoint {str(path)!r} ({type(error).__name__}). Pass "
            "a file that save_checkpoint wrote."
        ) from None
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise CorrDPError(
            f"the checkpoint schema must be {SCHEMA!r}, got {schema!r}. Pass a file "
            "that save_checkpoint wrote."
        )
    module, optimizer, loader = training
    if document.get("plan") != digest(module.plan.to_json()):
        raise GuaranteeVoidError(
            "the checkpoint was written under another plan: its steps had other noise. "
            "Pass make_private the arguments of the training that was saved."
        )
    steps, drawn = document.get("steps_charged"), document.get("steps_drawn")
    whole = all(type(n) is int and 0 <= n <= loader.n_steps for n in (steps, drawn))
    if not (whole and document.keys() >= _HELD):
        raise CorrDPError(
            f"the checkpoint {str(path)!r} is damaged: it does not hold all of a "
            f"training, or not how many of {loader.n_steps} steps were taken. Ask for "
            "the original."
        )
    if steps < module.steps_charged:
        raise GuaranteeVoidError(
            f"this training was charged for {module.steps_charged} steps, the "
            f"checkpoint for {steps}: steps in between were released and would be "
            "taken again for nothing. To go back to earlier parameters and pay for "
            "further steps, load them into module.module."
        )
    if module.steps_charged and document["token"] != module.progress.checkpoint:
        raise GuaranteeVoidError(
            f"this training was charged for {module.steps_charged} steps, of which the "
            "checkpoint of another one knows nothing: they would be taken again for "
            "nothing. Load it into a training that has taken no step."
        )
    module.restore(steps, document["generator"], document["reference"])
    loader.steps_taken = drawn
    try:
        module.module.load_state_dict(document["module"])
        optimizer.load_state_dict(document["optimizer"])
    except Exception as error:
        raise CorrDPError(
            f"the checkpoint does not fit the module or the optimizer ({error}). Its "
            f"{steps} steps count all the same: pass a new training of the module and "
            "the optimizer that were saved."
        ) from None
    module.progress.checkpoint = document["token"]
