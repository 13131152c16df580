"""What all charts have in common: version, colors, text that follows the page."""

from corrdp._typing import JSONObject

VEGA_LITE = "6.4"
WIDTH = 560
BLUE, ORANGE, GREEN, PURPLE, GRAY = (
    "#2f7fc1",
    "#c26a0a",
    "#2b8a5b",
    "#8a63c2",
    "#7c8794",
)
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
# Text and lines take the color of the page, so that one chart serves light and dark.
CONFIG: JSONObject = {
    "background": None,
    "font": "system-ui, sans-serif",
    "view": {"stroke": None},
    "axis": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "domainColor": "currentColor",
        "tickColor": "currentColor",
        "gridColor": "currentColor",
        "gridOpacity": 0.15,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 190,
    },
    "legend": {
        "labelColor": "currentColor",
        "titleColor": "currentColor",
        "labelFontSize": 12,
        "orient": "top",
        "symbolOpacity": 1,
        "title": None,
    },
}
