"""An entry for the public registry of differential privacy deployments, as YAML."""

import json
import math
import re
from datetime import date
from typing import Any

from corrdp._typing import JSONObject
from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Certificate, risk_words, rounded_up
from corrdp.report.exports._nist import finds_bounds

OPEN = "(to be filled in by the curator)"


def registry_entry(
    certificate: Certificate, *, title: str, created: date
) -> JSONObject:
    """Return a draft entry for a product in the shape of the deployments registry.

    Entries of the registry are compared with each other, so ``epsilon`` is that of
    ordinary differential privacy, a change of the whole record; what is promised by
    class stands beside it in words. What only the curator knows is left open. The
    registry: registry.opendp.org, tiers of transparency.
    """
    whole = certificate.classes[WHOLE_RECORD].epsilon
    bounded = math.isfinite(whole)
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "release"
    parameters = {"epsilon": whole, "delta": certificate.delta} if bounded else {}
    return {
        "url_slug": f"{slug}-{created.year}",
        "status": "Draft",
        "tier": 3 if bounded else 1,
        "deployment": {
            "product": {
                "name": title,
                "data_curators": [OPEN],
                "intended_use": OPEN,
                "data_product_type": "Machine learning model",
                "data_product_region": OPEN,
                "description": OPEN,
                "publication_date": created.isoformat(),
                "data_product_sector": OPEN,
            },
            "dp_flavor": {
                "name": "Approximate DP" if certificate.delta > 0 else "Pure DP",
                "data_domain": "; ".join(certificate.assumptions),
                "unprotected_quantities": _unprotected(certificate),
            },
            "privacy_loss": {
                "privacy_unit": "Record-level",
                "privacy_unit_description": (
                    "Two tables of the same size that differ in one record "
                    "(replace-one). The promise is finer: it is stated by which "
                    "columns of the record change."
                ),
                "privacy_parameters": parameters,
                "privacy_parameters_description": _by_class(certificate),
            },
            "model": {
                "model_name": "Central",
                "actors": OPEN,
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": "Everything after the noise of the listed parts.",
                "composition": (
                    "Trade-off curves of the parts "
                    f"{', '.join(part.name for part in certificate.components)}, all "
                    "fixed in advance."
                ),
            },
            "implementation": {
                "pre_processing_eda_hyperparameter_tuning": (
                    "Domains, clipping and steps are functions of the policy and the "
                    "number of rows"
                    + finds_bounds(certificate)
                    * ", and of counts with noise that are a part of the release"
                    + "."
                ),
                "mechanisms": (
                    "corrdp "
                    f"{certificate.software.get('corrdp', '')}; noise: "
                    f"{certificate.noise_source or 'not recorded'}."
                ),
                "justification": OPEN,
            },
            "resources": {
                "sources": f"Certificate {certificate.to_dict()['digest']}",
                "registry_authors": [OPEN],
            },
        },
    }


def yaml_text(document: JSONObject) -> str:
    """Return a document of objects, lists, texts and numbers as YAML."""
    return "\n".join(_lines(document, 0)) + "\n"


def _lines(value: Any, depth: int) -> list[str]:
    indent = "  " * depth
    lines = []
    for key, entry in value.items():
        if isinstance(entry, dict) and entry:
            lines += [f"{indent}{key}:", *_lines(entry, depth + 1)]
        elif isinstance(entry, list):
            lines.append(f"{indent}{key}:")
            lines += [f"{indent}  - {_scalar(item)}" for item in entry]
        else:
            lines.append(f"{indent}{key}: {_scalar(entry)}")
    return lines


def _scalar(value: Any) -> str:
    """Return a scalar as JSON, which YAML reads alike; exponents get their dot."""
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e", 1)
    return json.dumps(value, ensure_ascii=False)


def _unprotected(certificate: Certificate) -> str:
    label = "" if certificate.label_protected else "; the label"
    return f"The number of rows{label}; what insensitive columns reveal by correlation."


def _by_class(certificate: Certificate) -> str:
    lines = [
        f"{name}: epsilon {rounded_up(claim.epsilon)}, "
        f"{'promised' if claim.promised else 'priced only'}"
        for name, claim in certificate.classes.items()
    ]
    risk = risk_words(certificate.risk(next(iter(certificate.classes))))
    return f"{'; '.join(lines)}. For sensitive features: {risk}."
