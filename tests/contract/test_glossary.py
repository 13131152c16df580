"""Terms of the glossary are found, and linked once on every page."""

import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "tools"))

from glossary_links import glossary_terms, linked, pattern_of  # noqa: E402

TERMS = glossary_terms((DOCS / "glossary.md").read_text("utf-8"))


def test_every_entry_has_a_term_and_an_anchor():
    entries = (DOCS / "glossary.md").read_text("utf-8").count(")=\n**")
    assert len(set(TERMS.values())) == entries > 20
    assert TERMS["neighbor class"] == "class"


def test_the_first_use_is_linked_and_no_other():
    seen = set()
    text = "An epsilon, another epsilon, and epsilon-like things."
    parts = linked(text, pattern_of(TERMS), TERMS, seen, "glossary.html")
    links = [part for part in parts if part.tagname == "reference"]
    assert [link["refuri"] for link in links] == ["glossary.html#epsilon"]
    assert "".join(part.astext() for part in parts) == text
    assert linked(text, pattern_of(TERMS), TERMS, seen, "glossary.html") == []
