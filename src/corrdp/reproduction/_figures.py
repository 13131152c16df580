"""Figures like the paper's: the gap against epsilon, its noise beside the certified."""

from pathlib import Path
from typing import Any

import numpy as np

from corrdp.certificate import Calibration
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._experiments import CALIBRATIONS, Model
from corrdp.reproduction._results import Panel, Results, deviation

# Okabe and Ito's colors; line and marker differ too, for print and for every eye.
# Hollow and larger below, filled and small on top: curves that coincide stay visible.
_HOLLOW = {"markerfacecolor": "none"}
_STYLES: dict[str, dict[str, Any]] = {
    "standard": {"label": "Standard", "color": "#D55E00", "linestyle": "-."}
    | {"marker": "s", "markersize": 7.5}
    | _HOLLOW,
    "semi": {"label": "Semi", "color": "#009E73", "linestyle": "--"}
    | {"marker": "^", "markersize": 6.5}
    | _HOLLOW,
    "corr": {"label": "Corr", "color": "#0072B2", "linestyle": "-"}
    | {"marker": "o", "markersize": 3.5},
}
_FLAT: dict[str, dict[str, Any]] = {
    "partial": {"color": "#CC79A7", "linestyle": (0, (1, 1)), "label": "Partial"},
    "nonprivate": {"color": "#555555", "linestyle": (0, (5, 1, 1, 1, 1, 1))}
    | {"label": "Descent without noise"},
}
_TITLES = {
    Calibration.THEOREM: "theorem: the paper's noise",
    Calibration.CERTIFIED: "certified: proved at every epsilon",
}
_LINEAR_BELOW = 0.01
_SMALLEST = 1e-6  # what a logarithmic axis shows for a gap of 0


def draw_figure(results: Results, experiment: str, directory: Path) -> list[Path]:
    """Draw one experiment as SVG and PNG; return the files."""
    plt = pyplot()
    settings = {"svg.hashsalt": "corrdp", "font.size": 9, "axes.grid": True}
    settings |= {"grid.color": "#DDDDDD", "grid.linewidth": 0.6}
    with plt.rc_context(settings):
        figure, panels = plt.subplots(1, 2, figsize=(8.0, 3.3), sharey=True)
        for axes, calibration in zip(panels, CALIBRATIONS, strict=True):
            _draw_panel(axes, results.panel(experiment, calibration))
        described = results.experiments[experiment]
        panels[0].set_ylabel(
            "accuracy gap (points)" if described.classifies else "gap in R squared"
        )
        figure.suptitle(described.title, fontsize=10)
        handles = {
            label: handle
            for axes in panels
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            handles.values(),
            handles.keys(),
            loc="lower center",
            ncols=len(handles),
            frameon=False,
        )
        figure.tight_layout(rect=(0, 0.07, 1, 1))
        paths = [directory / f"{experiment}.{kind}" for kind in ("svg", "png")]
        figure.savefig(paths[0], metadata={"Date": None})
        figure.savefig(paths[1], dpi=150)
        plt.close(figure)
    return paths


def _draw_panel(axes: Any, panel: Panel) -> None:
    described = panel.experiment
    is_linear, accuracy = described.model is Model.LINEAR, described.classifies
    unit = 100.0 if accuracy else 1.0
    baseline, epsilons = panel.baseline, np.array(panel.epsilons)
    for method, style in _STYLES.items():
        scores = [panel.scores(method, epsilon) for epsilon in panel.epsilons]
        mean = unit * np.array([baseline - score.mean() for score in scores])
        band = unit * np.array([deviation(score) for score in scores])
        low, high = mean - band, mean + band
        if is_linear:
            mean, low, high = (np.maximum(v, _SMALLEST) for v in (mean, low, high))
            low = np.maximum(low, mean / 10)  # a band of a logarithm has no bottom
        axes.plot(epsilons, mean, linewidth=1.4, **style)
        axes.fill_between(epsilons, low, high, color=style["color"], alpha=0.15, lw=0)
    flat = ["partial"] if described.partial else []
    if is_linear and panel.calibration is Calibration.THEOREM:
        flat.append("nonprivate")
    for method in flat:
        gap = unit * (baseline - panel.plain(method))
        axes.axhline(max(gap, _SMALLEST), linewidth=1.2, **_FLAT[method])
    axes.set_xscale("log")
    if is_linear:
        axes.set_yscale("log")
    elif not accuracy:  # networks may beat their baseline
        axes.set_yscale("symlog", linthresh=_LINEAR_BELOW)
    ticks = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlim(0.042, 12)
    axes.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    is_printed = panel.calibration is Calibration.THEOREM
    axes.set_xlabel("nominal epsilon" if is_printed else "epsilon")
    axes.set_title(_TITLES[panel.calibration], fontsize=9)


def pyplot() -> Any:
    """Return matplotlib without a screen, or raise if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        raise CorrDPError(
            "figures need matplotlib, which is not installed. Install "
            "corrdp[reproduce]."
        ) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
