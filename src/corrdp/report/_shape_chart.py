"""Curves of an additive model, one small chart per number."""

from corrdp._typing import JSONObject
from corrdp.report._chart_style import BLUE, CONFIG, GREEN, ORANGE, PURPLE, SCHEMA

_BAND = 2.0  # standard deviations of the noise


def shape_chart(rows: list[JSONObject] | None) -> JSONObject | None:
    """Return curves with bands for the noise, or None if there are none."""
    if not rows:
        return None
    values = [
        row
        | {
            "low": row["effect"] - _BAND * (row["deviation"] or 0.0),
            "high": row["effect"] + _BAND * (row["deviation"] or 0.0),
        }
        for row in rows
    ]
    labels = list(dict.fromkeys(row["label"] for row in rows))
    color: JSONObject = {"value": BLUE}
    if len(labels) > 1:
        color = {
            "field": "label",
            "type": "nominal",
            "scale": {"domain": labels, "range": [BLUE, ORANGE, GREEN, PURPLE]},
        }
    x = {"field": "value", "type": "quantitative", "title": None}
    effect = {"type": "quantitative", "title": "effect"}
    return {
        "$schema": SCHEMA,
        "description": "What every number adds to the score, with bands for the noise",
        "config": CONFIG | {"header": {"labelColor": "currentColor", "title": None}},
        "data": {"values": values},
        "facet": {"field": "feature", "type": "nominal", "sort": None, "title": None},
        "columns": 2,
        "spec": {
            "width": 230,
            "height": 130,
            "layer": [
                {
                    "mark": {"type": "area", "opacity": 0.2},
                    "encoding": {
                        "x": x,
                        "y": effect | {"field": "low"},
                        "y2": {"field": "high"},
                        "color": color,
                    },
                },
                {
                    "mark": {"type": "line", "point": True, "tooltip": True},
                    "encoding": {
                        "x": x,
                        "y": effect | {"field": "effect"},
                        "color": color,
                    },
                },
            ],
        },
        "resolve": {"scale": {"x": "independent"}},
    }
