"""One HTML file that needs nothing else: styles, charts and data are inside.

What a page shows is derived from the summary, so that a file of an earlier version has
a page too; what it does not hold is left out. The verdict comes first, then tables for
the specialist.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from corrdp._json import decode_number, decoding
from corrdp._typing import JSONObject
from corrdp.certificate import grouped_by, listed, percent, rounded_up
from corrdp.exceptions import CorrDPError
from corrdp.report._charts import VEGA_LITE, charts

_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SENSITIVE, WHOLE_RECORD = "sensitive", "whole record"
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
    # A policy without sensitive features shows what it promises least of.
    least = max(
        (row for row in promise["classes"] if row["promised"]),
        key=lambda row: decode_number(row["proved"]),
    )
    first = classes.get(SENSITIVE, least)
    is_sensitive = first["name"] == SENSITIVE
    whole = classes.get(WHOLE_RECORD)
    even = first.get("risk", {}).get("even_odds")
    return {
        "headline": promise["headline"],
        "what": "Sensitive features" if is_sensitive else f"Change of {first['name']}",
        "sensitive": first["proved"],
        "whole": None if whole is None else whole["proved"],
        "delta": promise["delta"],
        "attack": None if even is None else percent(even),
        "not_covered": promise.get("not_covered_short", []),
    }


def _usefulness(summary: JSONObject) -> str:
    """Return how good the model is, and what it is if something else was asked for."""
    asked = (summary.get("expected") or {}).get("in_place_of")
    if asked is None:
        return _quality(summary)
    return (
        f"A linear model was trained instead of the {asked}, which would learn less in "
        f"this noise. {_quality(summary)}"
    )


def _quality(summary: JSONObject) -> str:
    """Return one sentence on quality: measured if that may be shown, else expected."""
    if summary["quality"]:
        entry = summary["quality"][0]
        return f"{entry['name']} {entry['value']:.3g}, {entry['words']}."
    expected = summary.get("expected")
    if expected is None:
        return "Not measured: a score of private rows would have to be paid for."
    if expected["noise"] == "constant":
        rows = expected["rows_needed"]
        takes = "No number of rows would do"
        if rows is not None:
            takes = f"It takes about {rows:,} rows"
        return f"Too few rows for this budget: the model is a constant. {takes}."
    hindsight = expected.get("hindsight")
    told = hindsight or expected
    low, high = (f"{100 * min(share, 1):.2g}" for share in told["lost_band"])
    source = "public numbers alone" if hindsight is None else "what training released"
    sentence = (
        f"Expected from {source}: noise costs {100 * told['lost']:.2g} % ({low} to "
        f"{high} %) of what a model can gain over a constant."
    )
    if "kept" in told:
        sentence += (
            f" The model keeps {100 * told['kept']:.0f} % of what training found, "
            "because noise alone would have found much of it."
        )
    if expected["noise"] == "standard":
        return f"{sentence} Ordinary noise was the better choice here."
    return sentence


def _signature(summary: JSONObject) -> list[JSONObject]:
    digest = summary.get("certificate_digest")
    signed = {
        "Policy": summary["policy_fingerprint"][:16],
        "Certificate": "none" if digest is None else digest[:16],
        "Software": f"corrdp {summary['software']['corrdp']}",
        "Made": summary["created"],
    }
    return [{"what": what, "value": value} for what, value in signed.items()]


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
            end(alone, key=lambda row: decode_number(row["proved"]))["times"]
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
    shown = "infinite" if risk["mu"] == "inf" else rounded_up(risk["mu"])
    return (shown, *(percent(share).removesuffix(" %") for share in shares))


@decoding("summary")
def render_html(summary: JSONObject) -> str:
    """Return a page of a summary from `summarize`, which needs no network.

    Charts are drawn twice: as static pictures that need no JavaScript, and as
    interactive ones that take their place.
    """
    summary = visible(summary)
    specs = charts(summary)
    environment = _environment()
    from jinja2 import UndefinedError

    values = {
        "summary": summary,
        "view": page_view(summary),
        "pictures": {name: _picture(spec) for name, spec in specs.items()},
        "specs": _script_json(specs),
        "style": _text("report.css"),
        "script": _text("report.js"),
        "library": _library(),
    }
    try:
        return str(environment.get_template("report.html.j2").render(values))
    except UndefinedError as error:  # the summary is damaged: `decoding` says so
        raise LookupError(str(error)) from None


def visible(part: Any) -> Any:
    """Return a part of a summary in which marks of direction are seen, not obeyed.

    A name that turns the direction of writing would have the numbers of its sentence
    read backwards.
    """
    if isinstance(part, str):
        return _DIRECTIONS.sub(lambda mark: f"\\u{ord(mark[0]):04x}", part)
    if isinstance(part, dict):
        return {visible(name): visible(value) for name, value in part.items()}
    return [visible(value) for value in part] if isinstance(part, list) else part


def shown_number(value: Any) -> str:
    """Return a number as a reader wants it: four digits, infinite in words."""
    if value is None:
        return "–"
    if value == "inf":
        return "infinite"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def brief_number(value: Any) -> str:
    """Return a number for a headline: three digits."""
    return f"{value:.3g}" if isinstance(value, float) else shown_number(value)


@cache
def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError:
        raise CorrDPError(
            "Reports need jinja2 and vl-convert-python, which are not installed. "
            "Install them with pip install 'corrdp[report]'."
        ) from None
    environment = Environment(
        loader=PackageLoader("corrdp.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = shown_number
    environment.filters["brief"] = brief_number
    return environment


def _trusted(markup: str) -> Any:
    """Return markup that the template does not escape: made here, never from a name."""
    from markupsafe import Markup

    return Markup(markup)


def _picture(spec: JSONObject) -> Any:
    """Return a chart as SVG, whose texts the renderer of the charts has escaped."""
    return _trusted(_converter().vegalite_to_svg(spec, vl_version=VEGA_LITE))


@cache
def _library() -> Any:
    """Return Vega-Embed with all it needs, as one script."""
    bundle = _converter().javascript_bundle(vl_version=VEGA_LITE)
    return _trusted(bundle.replace("</script", "<\\/script"))


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise CorrDPError(
            "Charts need vl-convert-python, which is not installed. Install it with "
            "pip install 'corrdp[report]'."
        ) from None
    return vl_convert


def _script_json(document: Any) -> Any:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(document, allow_nan=False)
    return _trusted(text.replace("<", "\\u003c").replace(">", "\\u003e"))


def _text(name: str) -> Any:
    path = files("corrdp.report") / "templates" / name
    return _trusted(path.read_text(encoding="utf-8"))
