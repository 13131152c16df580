"""Draw the figures of the benchmarks page from the saved runs.

Run it from a checkout after benchmarks: python docs/tools/write_benchmark_figures.py.
"""

import importlib
import itertools
import json
import runpy
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 480, 240
_EPSILON = {
    "field": "epsilon",
    "type": "quantitative",
    "scale": {"type": "log"},
    "axis": {"values": [0.1, 0.3, 1, 3, 10], "format": "~g"},
}


def loss_ratios() -> list[dict[str, Any]]:
    """Return loss to noise of CorrDP as a share of ordinary DP's, by table."""
    sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks import each other
    render = runpy.run_path(str(ROOT / "benchmarks" / "render_foreign.py"))
    saved = json.loads((RESULTS / "foreign.json").read_text(encoding="utf-8"))
    values = []
    for name in render["BINARY"]:
        cells = render["cells"](saved[name])
        for epsilon in sorted({epsilon for _, epsilon in cells}):
            ratio = cells["corr", epsilon][0] / cells["standard", epsilon][0]
            values.append({"table": name, "epsilon": epsilon, "ratio": ratio})
    return values


def synthesis_errors() -> list[dict[str, Any]]:
    """Return the mean error by table, method and epsilon; ordinary DP at its best."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    bench = importlib.import_module("bench_synthesis")
    saved = json.loads((RESULTS / "synthesis.json").read_text(encoding="utf-8"))
    values = []
    for problem, epsilon in itertools.product(bench.PROBLEMS, bench.EPSILONS):
        if problem.source not in ("adult", "credit") or problem.protected:
            continue
        cell = bench.Cell(saved, problem, epsilon)
        found = {
            "CorrDP": cell.by_default("corr"),
            "ordinary DP": cell.best("standard"),
        }
        values += [
            {
                "table": problem.name,
                "epsilon": epsilon,
                "method": method,
                "error": float(errors.mean()),
            }
            for method, errors in found.items()
            if errors is not None
        ]
    return values


def figures() -> dict[str, dict[str, Any]]:
    """Return a chart by the name of its file."""
    lines = {"type": "line", "point": True}
    models = {
        "data": {"values": loss_ratios()},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": [
            {
                "mark": lines,
                "encoding": {
                    "x": _EPSILON,
                    "y": {
                        "field": "ratio",
                        "type": "quantitative",
                        "title": "loss to noise, as a share of ordinary DP's",
                        "scale": {"domain": [0, 1.2]},
                    },
                    "color": {"field": "table", "title": None},
                },
            },
            {
                "mark": {"type": "rule", "strokeDash": [4, 4], "color": "#4d5966"},
                "encoding": {"y": {"datum": 1}},
            },
        ],
    }
    synthesis = {
        "data": {"values": synthesis_errors()},
        "width": WIDTH // 3,
        "height": HEIGHT,
        "mark": lines,
        "encoding": {
            "column": {"field": "table", "title": None},
            "x": _EPSILON,
            "y": {
                "field": "error",
                "type": "quantitative",
                "title": "mean error of 3-way tables",
            },
            "color": {"field": "method", "title": None},
        },
    }
    return {"bench-models.svg": models, "bench-synthesis.svg": synthesis}


def main() -> None:
    """Write every figure as SVG."""
    import vl_convert

    from corrdp.report._charts import VEGA_LITE

    config = {"legend": {"orient": "bottom", "columns": 5}}
    for name, chart in figures().items():
        document = chart | {"background": "white", "config": config}
        svg = vl_convert.vegalite_to_svg(document, vl_version=VEGA_LITE)
        (IMAGES / name).write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
