"""What a page shows of a summary: the verdict first, then tables for the specialist.

Everything is derived from the summary, so that a file of an earlier version has a page
too; what it does not hold is left out.
"""

import math
from typing import Any

from corrdp._typing import JSONObject
from corrdp.certificate import grouped_by, listed, percent, rounded_up

WHOLE_RECORD = "whole record"
MOST_SENTENCES = 8
BINNED = (
    " enters the model binned, or values inside one of its bins tell the same about "
    "the sensitive features"
)


def page_view(summary: JSONObject) -> JSONObject:
    """Return everything that a page says, in the order in which it says it."""
    promise = summary["promise"]
    return {
        "verdict": None if promise is None else _verdict(promise),
        "useful": _usefulness(summary),
        "signature": _signature(summary),
        "features": _features(summary),
        "promises": [] if promise is None else _promises(promise),
        "assumptions": [] if promise is None else assumptions(promise),
        "risks": [] if promise is None else _risks(promise),
    }


def assumptions(promise: JSONObject) -> list[str]:
    """Return what a promise rests on; what holds of many features is said once."""
    stated = promise["assumptions"]
    binned = [text.removesuffix(BINNED) for text in stated if text.endswith(BINNED)]
    if len(binned) < 2:
        return list(stated)
    joined = (
        f"{', '.join(binned)} enter the model binned, or values inside one of their "
        "bins tell the same about the sensitive features"
    )
    return [text for text in stated if not text.endswith(BINNED)] + [joined]


def _verdict(promise: JSONObject) -> JSONObject:
    classes = {row["name"]: row for row in promise["classes"]}
    first = promise["classes"][0]
    whole = classes.get(WHOLE_RECORD)
    even = first.get("risk", {}).get("even_odds")
    return {
        "headline": promise["headline"],
        "sensitive": first["proved"],
        "whole": None if whole is None else whole["proved"],
        "delta": promise["delta"],
        "attack": None if even is None else percent(even),
        "not_covered": promise.get("not_covered_short", []),
    }


def _usefulness(summary: JSONObject) -> str:
    """Return one sentence on quality: measured if that may be shown, else expected."""
    if summary["quality"]:
        entry = summary["quality"][0]
        return f"{entry['name']} {entry['value']:.3g}, {entry['words']}."
    expected = summary.get("expected")
    if expected is None:
        return "Not measured: a score of private rows would have to be paid for."
    if expected["noise"] == "constant":
        return (
            "Too few rows for this budget: the model is a constant. It takes about "
            f"{_count(expected['rows_needed'])} rows."
        )
    low, high = (f"{100 * min(share, 1):.2g}" for share in expected["lost_band"])
    sentence = (
        f"Expected: noise costs {100 * expected['lost']:.2g} % ({low} to {high} %) of "
        "what a model can gain over a constant."
    )
    if expected["noise"] == "standard":
        return f"{sentence} Ordinary noise was the better choice here."
    return sentence


def _signature(summary: JSONObject) -> list[JSONObject]:
    digest = summary.get("certificate_digest")
    return [
        {"what": "Policy", "value": summary["policy_fingerprint"][:16]},
        {"what": "Certificate", "value": "none" if digest is None else digest[:16]},
        {"what": "Software", "value": f"corrdp {summary['software']['corrdp']}"},
        {"what": "Made", "value": summary["created"]},
    ]


def _features(summary: JSONObject) -> list[JSONObject]:
    """Return one row per feature: role, domain, leakage, epsilon and noise."""
    promise = summary["promise"]
    proved = {} if promise is None else _epsilon_by_feature(promise)
    leakage = {row["feature"]: row["upper"] for row in summary["leakage"]["features"]}
    noise = {row["feature"]: row["ratio"] for row in summary["noise"]}
    return [
        {
            "feature": row["feature"],
            "role": row["role"],
            "domain": row["domain"].removeprefix("number from "),
            "leakage": leakage.get(row["feature"]),
            "epsilon": proved.get(row["feature"]),
            "noise": noise.get(row["feature"]),
        }
        for row in summary["roles"]
    ]


def _epsilon_by_feature(promise: JSONObject) -> dict[str, Any]:
    """Return the epsilon that a change of each feature alone is proved to have."""
    found: dict[str, Any] = {}
    for row in promise["classes"]:
        if row["promised"]:
            for feature in row.get("features", ()):
                found.setdefault(feature, row["proved"])
    return found


def _promises(promise: JSONObject) -> list[str]:
    """Return one sentence per factor; features with an equal one share it."""
    rows = [row for row in promise["classes"] if row["promised"]]
    if not all("times" in row for row in rows):
        return [row["sentence"] for row in rows]
    alone = [row for row in rows if row["name"].startswith("insensitive:")]
    sentences = [row["sentence"] for row in rows if row not in alone]
    groups = grouped_by({row["features"][0]: row["times"] for row in alone})
    if len(groups) > MOST_SENTENCES:
        least, most = (
            end(alone, key=lambda row: _size(row["proved"]))["times"]
            for end in (min, max)
        )
        return [
            *sentences,
            f"If one of {len(alone)} other features were different, by its leakage: "
            f"{least} for the best protected, {most} for the least; each is below.",
        ]
    for times, features in groups.items():
        subject = listed(features, limit=3)
        if len(features) > 3:
            subject = f"one of {len(features)} features ({subject})"
        sentences.append(f"If {subject} were different: {times}.")
    return sentences


def _size(epsilon: Any) -> float:
    return math.inf if epsilon == "inf" else float(epsilon)


def _risks(promise: JSONObject) -> list[JSONObject]:
    """Return the risk of every class, equal ones in one row."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for row in promise["classes"]:
        risk = row.get("risk")
        if risk is not None:
            alone = row["name"].startswith("insensitive:")
            name = row["features"][0] if alone else row["name"]
            rows.setdefault(_cells(risk), []).append(name)
    keys = ("mu", "advantage", "at_one", "at_tenth", "guess", "even_odds")
    return [
        {"what": listed(names, limit=3), **dict(zip(keys, cells, strict=True))}
        for cells, names in rows.items()
    ]


def _cells(risk: JSONObject) -> tuple[str, ...]:
    shares = (
        risk["advantage"],
        risk["true_positive_rate"]["0.01"],
        risk["true_positive_rate"]["0.001"],
        risk["guess"]["0.1"],
        risk["even_odds"],
    )
    mu = math.inf if risk["mu"] == "inf" else risk["mu"]
    shown = "infinite" if math.isinf(mu) else rounded_up(mu)
    return (shown, *(percent(share).removesuffix(" %") for share in shares))


def _count(number: float) -> str:
    return f"{number:,.0f}"
