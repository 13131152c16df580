"""The training on the page for users of Opacus runs as it stands there."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "opacus.md"


def test_the_page_trains_and_prints_its_certificate():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert "epsilon 2" in printed.getvalue()
