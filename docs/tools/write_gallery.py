"""Write docs/gallery.md: every script of examples/, what it prints, and its picture."""

import contextlib
import io
import runpy
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "gallery.md"
IMAGES = ROOT / "docs" / "images"
ORDER = (
    "compare_with_ordinary_dp",
    "train_a_classifier",
    "two_towers",
    "ask_questions",
    "what_an_epsilon_means",
)
_BARS = {
    "mark": "bar",
    "encoding": {
        "y": {"field": "column", "type": "nominal", "sort": None, "title": None},
        "yOffset": {"field": "plan"},
        "x": {
            "field": "noise",
            "type": "quantitative",
            "title": "noise on the mean gradient (noise, not quality)",
        },
        "color": {"field": "plan", "title": None},
    },
}
_LINES = {
    "mark": {"type": "line", "point": True},
    "encoding": {
        "x": {"field": "epsilon", "type": "quantitative", "scale": {"type": "log"}},
        "y": {
            "field": "share",
            "type": "quantitative",
            "axis": {"format": "%"},
            "title": "at most",
        },
        "color": {"field": "what", "title": None},
    },
}
PICTURES = {
    "compare_with_ordinary_dp": (_BARS, "Noise by column, CorrDP and ordinary DP"),
    "what_an_epsilon_means": (_LINES, "Success of a guess, by epsilon"),
}


def executed(name: str) -> tuple[str, str, dict[str, Any]]:
    """Return the source of an example, what it prints, and its variables."""
    path = ROOT / "examples" / f"{name}.py"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        variables = runpy.run_path(str(path))
    return path.read_text(encoding="utf-8"), printed.getvalue(), variables


def section(name: str) -> str:
    """Return an example as Markdown; its picture is written beside the others."""
    source, printed, variables = executed(name)
    words = variables["__doc__"].strip().split("\n", 1)
    code = source.split('"""\n\n', 1)[1].rstrip()
    parts = [f"## {words[0].rstrip('.')}", words[1].strip() if len(words) > 1 else ""]
    if name in PICTURES:
        spec, caption = PICTURES[name]
        write_picture(IMAGES / f"gallery-{name}.svg", spec, variables["picture"])
        parts.append(f"![{caption}](images/gallery-{name}.svg)")
    parts += [f"```python\n{code}\n```", f"```text\n{printed.rstrip()}\n```"]
    return "\n\n".join(part for part in parts if part)


def write_picture(path: Path, spec: dict[str, Any], values: list[Any]) -> None:
    """Draw a chart as SVG."""
    import vl_convert

    from corrdp.report._charts import VEGA_LITE

    document = {"data": {"values": values}, "width": 420, "background": "white"}
    svg = vl_convert.vegalite_to_svg(document | spec, vl_version=VEGA_LITE)
    path.write_text(svg, encoding="utf-8")


def gallery() -> str:
    """Return the page."""
    head = (
        "# Gallery\n\nScripts of `examples/`, executed when this page was written by "
        "`python docs/tools/write_gallery.py`; tests execute them again."
    )
    return "\n\n".join([head, *map(section, ORDER)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(gallery(), encoding="utf-8")
