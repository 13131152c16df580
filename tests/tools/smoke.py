"""Try an installed corrdp that has nothing but what it depends on.

``make wheel`` runs this in an empty environment, outside the source tree; the tests run
it with every other package hidden. Prints nothing unless something is wrong.
"""

import contextlib
import io
import json
import sys
from importlib.machinery import PathFinder

EXTRAS = (
    *("duckdb", "hypothesis", "imblearn", "jinja2", "matplotlib", "numba", "pandas"),
    *("polars", "pyarrow", "pytest", "sqlglot", "starlette", "torch", "uvicorn"),
    *("vl_convert", "mypy", "importlinter"),
)
POLICY = """
target = "y"
[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]
[features.sex]
role = "insensitive"
type = "number"
bounds = [0, 1]
leakage = 0.2
[label]
type = "number"
bounds = [0, 1]
score = 0.0
"""


class Hidden(PathFinder):
    """Finds what lies on the path, except what is not a dependency."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """Return nothing for extras."""
        hidden = fullname.split(".")[0] in EXTRAS
        return None if hidden else super().find_spec(fullname, path, target)


def command(*words):
    """Return what a command prints."""
    from corrdp.cli import main

    printed = io.StringIO()
    sys.argv = ["corrdp", *words]
    code = None
    with contextlib.redirect_stdout(printed):
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    assert not code, f"corrdp {' '.join(words)} ended with {code}"
    return printed.getvalue()


def smoke():
    """Run what an installation without extras promises."""
    import numpy as np

    import corrdp
    from corrdp.queries import answer_queries

    assert "Usage" in command("--help")
    answer = command("account", "gaussian", "--mu", "1", "--delta", "1e-5", "--json")
    assert 4 < json.loads(answer)["epsilon"] < 5
    policy = corrdp.Policy.from_toml(POLICY)
    random = np.random.default_rng(0)
    rows = np.column_stack([random.uniform(0, 100, 500), random.integers(0, 2, 500)])
    model = corrdp.LinearRegression(policy, epsilon=2.0, delta=1e-6)
    model.fit(rows, rows[:, 0] / 100)
    assert model.certificate_.verify()
    assert model.predict(rows[:3]).shape == (3,)
    result = answer_queries(rows, policy, ["mean(age)"], epsilon=1.0, delta=1e-6)
    assert result.certificate.verify(policy)
    loaded = sorted(name for name in EXTRAS if name in sys.modules)
    assert loaded == [], f"imported without need: {loaded}"


if __name__ == "__main__":
    if "--hide-extras" in sys.argv:
        place = sys.meta_path.index(PathFinder)
        sys.meta_path[place] = Hidden
    smoke()
