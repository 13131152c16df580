"""Train DP-EBM on a table; run by a Python that has ``interpret`` and nothing of ours.

``python benchmarks/dp_ebm.py FOLDER`` reads ``train.csv``, ``test.csv`` and
``task.json`` there (columns, types, bounds, epsilon, delta, seed, label) and writes
``scores.json``: the scores of both tables, as logits or numbers.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from interpret.privacy import (
    DPExplainableBoostingClassifier,
    DPExplainableBoostingRegressor,
)


def main(folder: Path) -> None:
    """Train as `task.json` says and write scores."""
    warnings.simplefilter("ignore")
    task = json.loads((folder / "task.json").read_text())
    text = {name: str for name in task["columns"] if name not in task["bounds"]}
    tables = [
        pd.read_csv(folder / f"{part}.csv", dtype=text, keep_default_na=False)
        for part in ("train", "test")
    ]
    options = {
        "feature_types": [
            "continuous" if name in task["bounds"] else "nominal"
            for name in task["columns"]
        ],
        "privacy_bounds": {name: tuple(b) for name, b in task["bounds"].items()},
        "epsilon": task["epsilon"],
        "delta": task["delta"],
        "random_state": task["seed"],
        "n_jobs": 1,
    }
    if task["number"]:
        low, high = task["number"]
        model = DPExplainableBoostingRegressor(
            privacy_target_min=low, privacy_target_max=high, **options
        )
    else:
        model = DPExplainableBoostingClassifier(**options)
    model.fit(tables[0][task["columns"]], tables[0][task["label"]])
    scores = []
    for table in tables:
        columns = table[task["columns"]]
        if task["number"]:
            score = np.asarray(model.predict(columns))
        else:
            chance = np.clip(model.predict_proba(columns)[:, 1], 1e-12, 1 - 1e-12)
            score = np.log(chance / (1 - chance))
        scores.append(score.tolist())
    (folder / "scores.json").write_text(json.dumps(scores))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
