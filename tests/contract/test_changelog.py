"""Changelog fragments are named and written so that they can be joined."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = runpy.run_path(str(ROOT / "docs" / "tools" / "assemble_changelog.py"))
BEFORE = """# Changelog

## [Unreleased]

### Added

- Old.

## [0.1.0]

- First.
"""
AFTER = """# Changelog

## [Unreleased]

### Privacy

- A break,
  in two lines.

### Added

- Old.
- New.

## [0.1.0]

- First.
"""


def test_every_fragment_can_be_joined():
    fragments = TOOLS["read_fragments"](ROOT / "changelog.d")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    joined = TOOLS["assemble"](changelog, fragments)
    for text in [text for texts in fragments.values() for text in texts]:
        assert text in joined
    nothing = {kind: [] for kind in TOOLS["KINDS"]}
    assert TOOLS["assemble"](changelog, nothing) == changelog


def test_fragments_stand_under_their_headings(tmp_path):
    (tmp_path / "README.md").write_text("how")
    (tmp_path / "a-break.privacy.md").write_text("- A break,\n  in two lines.\n")
    (tmp_path / "new.added.md").write_text("- New.\n")
    assert TOOLS["assemble"](BEFORE, TOOLS["read_fragments"](tmp_path)) == AFTER


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("new.feature.md", "- New.\n"),
        ("new.md", "- New.\n"),
        ("new.added.txt", "- New.\n"),
        ("new.added.md", "New.\n"),
        ("new.added.md", "  - New.\n"),
        ("new.added.md", ""),
    ],
)
def test_odd_fragments_are_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match="new"):
        TOOLS["read_fragments"](tmp_path)
