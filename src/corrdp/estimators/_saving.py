"""Models as three text files that anyone can read, and that refuse to be changed.

``model.json`` holds parameters by column name, ``policy.toml`` the policy and
``certificate.json`` the certificate. Digests tie the three together: they show that a
file was changed or swapped by accident, not who wrote it.
"""

import json
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from corrdp._json import check_shape, decoding, digest, read_json
from corrdp._typing import JSONObject
from corrdp.certificate import Calibration, Certificate
from corrdp.estimators._family import share_of
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import Policy, PolicyEncoder
from corrdp.training import Solver

SCHEMA = "corrdp.model/1"
MODEL_FILE = "model.json"
POLICY_FILE = "policy.toml"
CERTIFICATE_FILE = "certificate.json"

_SHAPE = {
    "private": bool,
    "policy_fingerprint": str,
    "certificate_digest": (str, None),
    "content": {"kind": str},
}


def write_model(
    directory: str | Path,
    content: JSONObject,
    policy: Policy,
    certificate: Certificate | None,
) -> None:
    """Write a model's own content, its policy and its certificate.

    Parameters
    ----------
    directory : path
        Created if it does not exist; a model that is already there is refused.
    content : JSON object
        What the estimator needs besides policy and certificate.
    policy : Policy
        The policy that was kept.
    certificate : Certificate or None
        None for a model that protects nothing, and the file says so.
    """
    place = Path(directory)
    if (place / MODEL_FILE).exists():
        raise CorrDPError(
            f"the directory {str(place)!r} already holds a model. Choose another one."
        )
    if "parameters" in content:
        parameters = {name: _plain(v) for name, v in content["parameters"].items()}
        content = {**content, "parameters": parameters}
    if certificate is not None:
        _check_parameters(content["parameters"], certificate)
    place.mkdir(parents=True, exist_ok=True)
    document: JSONObject = {
        "schema": SCHEMA,
        "private": certificate is not None,
        "policy_fingerprint": policy.fingerprint(),
        "certificate_digest": (
            None if certificate is None else certificate.to_dict()["digest"]
        ),
        "content": content,
    }
    document["digest"] = digest(document)
    policy.to_file(place / POLICY_FILE)
    if certificate is not None:
        text = certificate.to_json()
        (place / CERTIFICATE_FILE).write_text(text, encoding="utf-8")
    text = json.dumps(document, indent=2, allow_nan=False)
    (place / MODEL_FILE).write_text(text, encoding="utf-8")


def read_model(
    directory: str | Path,
) -> tuple[JSONObject, Policy, Certificate | None]:
    """Read what `write_model` wrote; anything changed since is refused.

    Raises
    ------
    GuaranteeVoidError
        Model, policy or certificate is not the one that was written, or the
        certificate's numbers cannot be recomputed.
    """
    place = Path(directory)
    document = read_json(place / MODEL_FILE, "model", "save or corrdp train")
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA:
        raise CorrDPError(
            f"the model schema must be {SCHEMA!r}, got {schema!r}. Read it with the "
            "version of corrdp that wrote it."
        )
    check_shape(document, _SHAPE, "model")
    rest = {key: value for key, value in document.items() if key != "digest"}
    _refuse_unless(document.get("digest") == digest(rest), MODEL_FILE)
    policy = Policy.from_file(place / POLICY_FILE)
    _refuse_unless(policy.fingerprint() == document["policy_fingerprint"], POLICY_FILE)
    certificate = None
    if document["private"]:
        certificate = Certificate.from_file(place / CERTIFICATE_FILE)
        named = document["certificate_digest"]
        _refuse_unless(certificate.to_dict()["digest"] == named, CERTIFICATE_FILE)
        certificate.verify(policy)
        with decoding("model"):
            _check_parameters(document["content"]["parameters"], certificate)
    elif (place / CERTIFICATE_FILE).exists():
        raise GuaranteeVoidError(
            f"the model in {str(place)!r} protects nothing, and {CERTIFICATE_FILE} "
            "beside it is of something else. Remove it."
        )
    return document["content"], policy, certificate


def coefficients_from_names(policy: Policy, by_name: dict[str, Any]) -> Any:
    """Return saved weights in the encoder's order of columns, or raise.

    One weight per column, or a list of one per output.
    """
    names = PolicyEncoder(policy).get_feature_names_out().tolist()
    if list(by_name) != names:
        raise GuaranteeVoidError(
            f"the saved weights name {len(by_name)} columns that are not the policy's "
            f"{len(names)}. Ask for the original model."
        )
    return np.array(list(by_name.values()), dtype=np.float64)


def check_outputs(
    model: Any, weights: tuple[int, ...], constants: tuple[int, ...]
) -> None:
    """Raise unless weights, constants and labels of a saved model belong together.

    Shapes are those of the outputs, by the last weights and by their constants; a
    classifier has ``classes_``.
    """
    n_outputs = constants[0] if constants else 1
    fits = weights == constants
    if hasattr(model, "classes_"):
        fits = fits and np.shape(model.classes_) == (max(2, n_outputs),)
    if not fits:
        raise CorrDPError(
            f"the model is damaged: its weights have outputs {weights}, its constants "
            f"{constants}, or its labels are others. Ask for the original."
        )


def _plain(value: Any) -> Any:
    """Return a parameter as JSON writes it: numbers, also those of numpy, lists."""
    if isinstance(value, Solver):
        return value.to_json()
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(part) for part in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _check_parameters(parameters: JSONObject, certificate: Certificate) -> None:
    """Raise unless a certificate states what the model was fitted with.

    A search, or leakage that was bought, may have drawn from a seed of its own, so that
    noise may be replayed although the model has none.
    """
    fits = parameters.get("fits", 1)
    seeded = parameters.get("random_state") is not None
    stamped = parameters.get("research", False)
    agree = {
        "epsilon": certificate.target_epsilon == share_of(parameters["epsilon"], fits),
        "delta": certificate.delta == share_of(parameters["delta"], fits),
        "calibration": certificate.calibration
        == parameters.get("calibration", Calibration.CERTIFIED),
        "random_state": certificate.replayable_noise or not seeded,
        "research": certificate.research is not False or not stamped,
    }
    others = [name for name, is_so in agree.items() if not is_so]
    if others:
        raise GuaranteeVoidError(
            "the certificate is of a fit with other parameters than the model states: "
            f"{', '.join(others)}. Ask for the original, or fit again."
        )


def _refuse_unless(unchanged: bool, name: str) -> None:
    if not unchanged:
        raise GuaranteeVoidError(
            f"{name} was changed after the model was saved: its digest does not match. "
            "Ask for the original."
        )
