"""One HTML file that needs nothing else: styles, charts and data are inside."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from corrdp._json import decoding
from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.report._chart_style import VEGA_LITE
from corrdp.report._charts import charts
from corrdp.report._page import page_view


@decoding("summary")
def render_html(summary: JSONObject) -> str:
    """Return a page that opens from disk without a network.

    Parameters
    ----------
    summary : JSON object
        From `summarize`. Charts are drawn twice: as static pictures that need no
        JavaScript, and as interactive ones that take their place.
    """
    specs = charts(summary)
    environment = _environment()
    template = environment.get_template("report.html.j2")
    values = {
        "summary": summary,
        "view": page_view(summary),
        "pictures": {name: _picture(spec) for name, spec in specs.items()},
        "specs": _script_json(specs),
        "style": _text("report.css"),
        "script": _text("report.js"),
        "library": _library(),
    }
    return _rendered(template, values)


def _rendered(template: Any, values: JSONObject) -> str:
    from jinja2 import UndefinedError

    try:
        return str(template.render(values))
    except UndefinedError as error:
        raise LookupError(str(error)) from None


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


def _picture(spec: JSONObject) -> Any:
    """Return a chart as SVG; it is made from a specification, never from text."""
    from markupsafe import Markup

    svg = _converter().vegalite_to_svg(spec, vl_version=VEGA_LITE)
    return Markup(svg)  # escaped by the renderer of the charts


@cache
def _library() -> Any:
    """Return Vega-Embed with all it needs, as one script."""
    from markupsafe import Markup

    bundle = _converter().javascript_bundle(vl_version=VEGA_LITE)
    return Markup(bundle.replace("</script", "<\\/script"))


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
    from markupsafe import Markup

    text = json.dumps(document, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e"))


def _text(name: str) -> Any:
    from markupsafe import Markup

    path = files("corrdp.report") / "templates" / name
    return Markup(path.read_text(encoding="utf-8"))
