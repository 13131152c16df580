"""The table of epsilons is what the accountant says."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_of_epsilons_is_computed():
    tools = runpy.run_path(str(ROOT / "docs" / "tools" / "write_choosing_table.py"))
    saved = (ROOT / "docs" / "results" / "choosing.inc").read_text(encoding="utf-8")
    assert saved == tools["choosing_table"](), "run docs/tools/write_choosing_table.py"
