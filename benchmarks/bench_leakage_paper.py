"""Leakage of the paper's four data sets: printed, by its recipe, and counted jointly.

Writes docs/results/leakage_paper.json and the page made from it.
Run ``python benchmarks/bench_leakage_paper.py``; ``--render`` only makes the page.
"""

import json
import os
import sys
from pathlib import Path

from corrdp.reproduction._tables import (
    PRINTED,
    leakage_document,
    leakage_rows,
    medical_rows,
    sepsis_rows,
)
from corrdp.reproduction._tables import leakage_page as page

__all__ = ["PRINTED", "medical_rows", "page", "run", "sepsis_rows"]

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
os.environ.setdefault("CORRDP_DATA_DIR", str(ROOT.parent / "shared" / "data"))


def run():
    rows = leakage_rows()
    RESULTS.mkdir(parents=True, exist_ok=True)
    saved = leakage_document(rows)
    (RESULTS / "leakage_paper.json").write_text(json.dumps(saved, indent=1) + "\n")
    (RESULTS / "leakage_paper.md").write_text(page(saved))
    return [
        {
            "name": f"{r['data']} {r['feature']}, {r['method']}",
            "value": "refused" if r["estimate"] is None else round(r["estimate"], 4),
            "unit": "total variation",
            "target": r["printed"],
            "note": "printed by the paper; not a target",
        }
        for r in rows
    ]


if __name__ == "__main__":
    if "--render" in sys.argv:
        text = page(json.loads((RESULTS / "leakage_paper.json").read_text()))
        (RESULTS / "leakage_paper.md").write_text(text)
    else:
        for entry in run():
            print(f"{entry['name']:<60} {entry['value']:>8} printed {entry['target']}")
