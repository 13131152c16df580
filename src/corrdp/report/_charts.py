"""Charts as Vega-Lite specifications, made from a summary alone."""

from typing import Any

from corrdp._typing import JSONObject

VEGA_LITE = "6.4"
WIDTH = 560
BLUE, ORANGE, GREEN = "#2f7fc1", "#c26a0a", "#2b8a5b"
PURPLE, GRAY = "#8a63c2", "#7c8794"
_DATA_TIP = {"tooltip": {"content": "data"}}
_BAR = {"type": "bar", "color": BLUE} | _DATA_TIP
_TICK = {"type": "tick", "color": ORANGE, "thickness": 3, "size": 18, "opacity": 1}
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
# Text and lines take the color of the page, so that one chart serves light and dark.
_PAGE = "currentColor"
_TEXT = {"labelColor": _PAGE, "titleColor": _PAGE, "labelFontSize": 12}
_LINES = {"domainColor": _PAGE, "tickColor": _PAGE, "gridColor": _PAGE}
CONFIG: JSONObject = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": _TEXT
    | _LINES
    | {"gridOpacity": 0.15, "titleFontSize": 12, "labelLimit": 190},
    "legend": _TEXT | {"orient": "top", "symbolOpacity": 1, "title": None},
}
_BAND = 2.0  # standard deviations of the noise


def charts(summary: JSONObject) -> dict[str, JSONObject]:
    """Return a specification for every section that has something to draw."""
    made = {
        "budget": _budget(summary["promise"]),
        "leakage": _leakage(summary["leakage"]["features"]),
        "noise": _noise(summary["noise"]),
        "coefficients": _coefficients(summary["coefficients"]),
        "shapes": shape_chart(summary.get("shapes")),
        "curve": _curve(summary["curve"]),
        "sweep": _sweep(summary["sweep"]),
        "audit": _audit(summary.get("audit")),
        "audit_roc": _audit_roc(summary.get("audit")),
    }
    return {name: spec for name, spec in made.items() if spec is not None}


def _chart(values: list[Any], description: str, **rest: Any) -> JSONObject:
    return {
        "$schema": SCHEMA,
        "description": description,
        "data": {"values": values},
        "width": WIDTH,
        "config": CONFIG,
        **rest,
    }


def _number(field: str, title: str, **rest: Any) -> JSONObject:
    return {"field": field, "type": "quantitative", "title": title, **rest}


def _rows(field: str) -> JSONObject:
    return {"field": field, "type": "nominal", "sort": None, "title": None}


def _layer(mark: Any, data: list[Any] | None = None, **encoding: Any) -> JSONObject:
    own = {} if data is None else {"data": {"values": data}}
    return {**own, "mark": mark, "encoding": encoding}


def _with_band(rows: list[JSONObject], field: str) -> list[JSONObject]:
    """Return rows with the ends of a band around a field, as wide as its noise."""
    return [
        row
        | {
            "low": row[field] - _BAND * (row["deviation"] or 0.0),
            "high": row[field] + _BAND * (row["deviation"] or 0.0),
        }
        for row in rows
    ]


def _colors(field: str, domain: list[str], colors: list[str]) -> JSONObject:
    scale = {"domain": domain, "range": colors}
    return {"field": field, "type": "nominal", "scale": scale}


def _bars(
    values: list[JSONObject], description: str, rows: str, x: JSONObject, **rest: Any
) -> JSONObject:
    return _chart(
        values,
        description,
        mark={"type": "bar", "tooltip": True},
        encoding={"y": _rows(rows), "x": x, **rest},
    )


def _budget(promise: JSONObject | None) -> JSONObject | None:
    values = [
        {
            "class": row["name"],
            "proved": row["proved"],
            "kind": "promised" if row["promised"] else "price only",
        }
        for row in ([] if promise is None else promise["classes"])
        if row["proved"] != "inf"
    ]
    if not values:
        return None
    return _bars(
        values,
        "Proved epsilon of every class of neighbors",
        "class",
        _number("proved", "proved epsilon"),
        color=_colors("kind", ["promised", "price only"], [BLUE, ORANGE]),
    )


def _leakage(features: list[JSONObject]) -> JSONObject | None:
    if not features:
        return None
    y = _rows("feature")
    title = "leakage (bar) and its upper bound (tick)"
    bounded = [row for row in features if row["upper"] is not None]
    return _chart(
        features,
        "Leakage of every insensitive feature: estimate and upper bound",
        layer=[
            _layer(_BAR, y=y, x=_number("estimate", title, scale={"domain": [0, 1]})),
            _layer(_TICK, bounded, y=y, x=_number("upper", title)),
        ],
    )


def _noise(rows: list[JSONObject]) -> JSONObject | None:
    plans = ["this plan", "ordinary DP"]
    values = [
        {"feature": row["feature"], "plan": plan, "noise": row[key]}
        for row in rows
        for key, plan in zip(("noise", "ordinary"), plans, strict=True)
    ]
    if not values:
        return None
    return _bars(
        values,
        "Noise on the gradient by feature, against ordinary differential privacy",
        "feature",
        _number("noise", "noise on the mean gradient (standard deviation)"),
        color=_colors("plan", plans, [BLUE, ORANGE]),
        yOffset={"field": "plan", "type": "nominal", "sort": plans},
    )


def _coefficients(rows: list[JSONObject]) -> JSONObject | None:
    if not rows:
        return None
    y = _rows("column")
    title = "weight, with two standard deviations of the noise"
    point = {"type": "point", "filled": True, "size": 60, "color": BLUE, "opacity": 1}
    return _chart(
        _with_band(rows, "weight"),
        "Released coefficients with error bars for the noise",
        layer=[
            _layer(
                {"type": "rule", "color": GRAY, "strokeWidth": 2},
                y=y,
                x=_number("low", title),
                x2={"field": "high"},
            ),
            _layer(point | _DATA_TIP, y=y, x=_number("weight", title)),
        ],
    )


def _curve(rows: list[JSONObject]) -> JSONObject | None:
    if not rows:
        return None
    values = [{"step": int(row["name"]), "value": row["value"]} for row in rows]
    return _chart(
        values,
        "Quality during training",
        height=220,
        mark={"type": "line", "point": True, "color": BLUE, "tooltip": True},
        encoding={
            "x": _number("step", "steps of training"),
            "y": _number("value", "score", scale={"zero": False}),
        },
    )


def _sweep(sweep: JSONObject | None) -> JSONObject | None:
    if sweep is None:
        return None
    x = _number("epsilon", "epsilon", scale={"type": "log", "nice": False})
    methods = list(dict.fromkeys(point["method"] for point in sweep["points"]))
    colors = [BLUE, ORANGE, GREEN, PURPLE, GRAY][: len(methods)]
    color = _colors("method", methods, colors)
    y = {"scale": {"zero": False}}
    return _chart(
        sweep["points"],
        "Privacy against utility for every method",
        height=260,
        layer=[
            _layer(
                {"type": "errorband", "opacity": 0.18},
                x=x,
                y=_number("low", sweep["metric"], **y),
                y2={"field": "high"},
                color=color,
            ),
            _layer(
                {"type": "line", "point": True} | _DATA_TIP,
                x=x,
                y=_number("mean", sweep["metric"], **y),
                color=color,
            ),
        ],
    )


def _audit(audit: JSONObject | None) -> JSONObject | None:
    if audit is None:
        return None
    drawn = ("audited", "certified")  # an infinite epsilon has no bar
    values = [
        {"what": f"{row['class']}, {row['target'].replace(', white box', '')}"}
        | {n: None if (e := row[f"{n}_epsilon"]) == "inf" else e for n in drawn}
        | {"verdict": row["verdict"]}
        for row in audit["rows"]
    ]
    certified = [value for value in values if value["certified"] is not None]
    violated = [value for value in values if value["verdict"] == "violated"]
    text = {"type": "text", "align": "left", "dx": 6}
    text |= {"color": "currentColor", "fontWeight": "bold"}
    y = _rows("what") | {"axis": {"labelLimit": 260}}
    title = "epsilon: audited lower bound (bar) and certified (tick)"
    audited = _number("audited", title)
    layers = [
        _layer(_BAR, y=y, x=audited),
        _layer(_TICK, certified, y=y, x=_number("certified", title)),
        _layer(text, violated, y=y, x=audited, text={"field": "verdict"}),
    ]
    return _chart(
        values,
        "Audited lower bound against certified epsilon of every class",
        # A layer without rows has no extent, which browsers complain about.
        layer=[one for one in layers if one.get("data", {}).get("values", values)],
    )


def _audit_roc(audit: JSONObject | None) -> JSONObject | None:
    values = (audit or {}).get("roc")
    if not values:
        return None
    chance = [{"false_alarms": end, "true_alarms": end} for end in (0.0, 1.0)]
    x = _number("false_alarms", "false alarms")
    y = _number("true_alarms", "true alarms")
    return _chart(
        values,
        "True against false alarms of every attack",
        layer=[
            _layer(
                {"type": "line", "color": GRAY, "strokeDash": [4, 4]}, chance, x=x, y=y
            ),
            _layer(
                {"type": "line"} | _DATA_TIP,
                x=x,
                y=y,
                order={"field": "true_alarms"},
                color=_rows("what") | {"legend": {"labelLimit": 260}},
            ),
        ],
    )


def shape_chart(rows: list[JSONObject] | None) -> JSONObject | None:
    """Return curves with bands for the noise, or None if there are none."""
    if not rows:
        return None
    labels = list(dict.fromkeys(row["label"] for row in rows))
    color: JSONObject = {"value": BLUE}
    if len(labels) > 1:
        color = _colors("label", labels, [BLUE, ORANGE, GREEN, PURPLE])
    x = {"field": "value", "type": "quantitative", "title": None}
    effect = {"type": "quantitative", "title": "effect"}
    return {
        "$schema": SCHEMA,
        "description": "What every number adds to the score, with bands for the noise",
        "config": CONFIG | {"header": {"labelColor": "currentColor", "title": None}},
        "data": {"values": _with_band(rows, "effect")},
        "facet": {"field": "feature", "type": "nominal", "sort": None, "title": None},
        "columns": 2,
        "spec": {
            "width": 230,
            "height": 130,
            "layer": [
                _layer(
                    {"type": "area", "opacity": 0.2},
                    x=x,
                    y=effect | {"field": "low"},
                    y2={"field": "high"},
                    color=color,
                ),
                _layer(
                    {"type": "line", "point": True, "tooltip": True},
                    x=x,
                    y=effect | {"field": "effect"},
                    color=color,
                ),
            ],
        },
        "resolve": {"scale": {"x": "independent"}},
    }
