"""The policy guide: every file in it loads, every example prints what it shows."""

import dataclasses
import doctest
import re
from pathlib import Path

from corrdp.policy import Policy
from corrdp.policy import _document as document

GUIDE = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
FILES = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)


def test_every_file_in_the_guide_is_a_policy():
    assert len(FILES) == 2
    for text in FILES:
        policy = Policy.from_toml(text)
        assert Policy.from_toml(policy.to_toml()) == policy


def test_examples_print_what_the_guide_shows():
    runner = doctest.DocTestRunner()
    examples = doctest.DocTestParser().get_doctest(
        GUIDE, {"example": FILES[0]}, "docs/policy.md", None, None
    )
    assert len(examples.examples) >= 10
    assert runner.run(examples).failed == 0


def test_every_field_is_in_the_guide():
    documented = set(re.findall(r"^\| `(\w+)` \|", GUIDE, re.MULTILINE))
    settings = {"target", *document._SETTINGS}
    columns = {"role", "type", "leakage", "score", *document._MISSING_KEYS}
    columns |= set().union(*document._DOMAIN_KEYS.values())
    assert settings | columns <= documented
    attributes = {field.name for field in dataclasses.fields(Policy)}
    assert attributes - {"features", "label"} <= documented
