"""One command's worth of work: run, save, draw, and say what was found."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from corrdp._validate import check_count
from corrdp.reproduction._experiments import N_SEEDS, experiments
from corrdp.reproduction._figures import draw_figure, pyplot
from corrdp.reproduction._page import findings_page
from corrdp.reproduction._results import Results
from corrdp.reproduction._runner import CellCache, run_cells
from corrdp.reproduction._tables import leakage_document, leakage_page, leakage_rows

QUICK_SEEDS = 2


@dataclass(frozen=True, eq=False)
class Reproduction:
    """What a run left behind."""

    results: Results
    files: tuple[Path, ...]


def reproduce(
    name: str,
    *,
    out: Path,
    cache: Path,
    quick: bool = False,
    seeds: int | None = None,
    jobs: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Reproduction:
    """Run the paper's experiments of a name and write results and figures.

    Parameters
    ----------
    name : str
        An experiment, ``synthetic-ms``, ``tables`` or ``all``.
    out, cache : path
        Existing directory for the results, and one of finished cells, which a later
        run takes from there.
    quick : bool
        Small tables, few steps, few budgets: shows that everything runs.
    seeds, jobs : int, optional
        Models per point, 20, or 2 if quick; processes, one per core.
    progress : callable, optional
        Called with the work done and the work in all.

    Guarantee
    ---------
    None: scores on public tables, without noise. What each curve proves is among the
    results (`docs/theory/paper_noise.md`).
    """
    n_seeds = check_count("seeds", seeds or (QUICK_SEEDS if quick else N_SEEDS))
    n_jobs = check_count("jobs", jobs or len(os.sched_getaffinity(0)))
    chosen = experiments(name, quick=quick)
    pyplot()  # raises now, not after hours of training, if figures cannot be drawn
    cells = [cell for one in chosen for cell in one.cells(n_seeds)]
    trained = run_cells(cells, CellCache(cache), jobs=n_jobs, progress=progress)
    results = Results(trained)
    files = []
    if chosen:
        compact = json.dumps(results.to_json(), allow_nan=False)
        files += [
            _written(out / "results.csv", results.to_csv()),
            _written(out / "results.json", compact + "\n"),
        ]
        for one in chosen:
            files += draw_figure(results, one.name, out)
        page = findings_page(results, quick=quick)
        files.append(_written(out / "findings.md", page))
    if name in ("tables", "all"):
        saved = leakage_document(leakage_rows(quick=quick))
        files.append(_written(out / "tables.md", leakage_page(saved)))
    return Reproduction(results, tuple(files))


def _written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
