"""Take the pictures of first screens for the docs: report and studio, in a browser.

Run it from a checkout with the test dependencies: python docs/tools/write_pictures.py.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
TESTS = (
    "tests/end_to_end/test_report_reading.py::"
    "test_the_first_screen_is_the_verdict_in_few_words",
    "tests/end_to_end/test_studio_browser.py::"
    "test_by_mouse_a_double_click_a_reload_and_a_second_tab_pay_once",
)
PICTURES = {
    "report-wide-1280.png": "report-verdict.png",
    "studio-columns-1280.png": "studio-columns.png",
    "studio-plan-1280.png": "studio-plan.png",
}


def main() -> None:
    """Run the tests that look at the pages, and keep the pictures they take."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"CORRDP_SCREENSHOT_DIR": folder}
        command = [sys.executable, "-m", "pytest", "-q", "-n0", *TESTS]
        subprocess.run(command, cwd=ROOT, env=environment, check=True)
        for taken, name in PICTURES.items():
            (IMAGES / name).write_bytes((Path(folder) / taken).read_bytes())


if __name__ == "__main__":
    main()
