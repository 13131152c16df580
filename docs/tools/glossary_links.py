"""Sphinx extension: on every page, the first use of a glossary term links to it.

Terms are read from docs/glossary.md, so that a new entry is linked everywhere at the
next build. Headings, code, links and formulas stay as they are.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes

PAGE = "glossary"
AMBIGUOUS = frozenset({"class", "release"})  # of Python; of a version
_ENTRY = re.compile(r"^\(([\w-]+)\)=\n\*\*([^*]+)\*\*", re.MULTILINE)
_LEFT_ALONE = (
    nodes.reference,
    nodes.literal,
    nodes.title,
    nodes.math,
    nodes.FixedTextElement,
)


def glossary_terms(text: str) -> dict[str, str]:
    """Return the anchor of every term in the text of the glossary."""
    return {
        name.strip(): anchor
        for anchor, names in _ENTRY.findall(text)
        for name in names.split(",")
        if name.strip() not in AMBIGUOUS
    }


def pattern_of(terms: dict[str, str]) -> re.Pattern[str]:
    """Return a pattern that finds a term as a whole word, the longest first."""
    longest = sorted(terms, key=len, reverse=True)
    words = "|".join(re.escape(term) for term in longest)
    return re.compile(rf"(?<![\w-])({words})(?![\w-])")


def linked(
    text: str,
    pattern: re.Pattern[str],
    terms: dict[str, str],
    seen: set[str],
    page: str,
) -> list[nodes.Node]:
    """Return a text in parts: as it was, and links for terms that are not `seen`."""
    parts: list[nodes.Node] = []
    end = 0
    for match in pattern.finditer(text):
        anchor = terms[match.group(1)]
        if anchor in seen:
            continue
        seen.add(anchor)
        parts.append(nodes.Text(text[end : match.start()]))
        parts.append(
            nodes.reference(
                "",
                match.group(1),
                internal=True,
                refuri=f"{page}#{anchor}",
                classes=["glossary-term"],
            )
        )
        end = match.end()
    return [*parts, nodes.Text(text[end:])] if parts else []


def _link_terms(app: Any, doctree: nodes.document, docname: str) -> None:
    if docname == PAGE or docname.startswith("api"):
        return
    terms = glossary_terms((Path(app.srcdir) / f"{PAGE}.md").read_text("utf-8"))
    pattern, seen = pattern_of(terms), set[str]()
    page = app.builder.get_relative_uri(docname, PAGE)
    for paragraph in list(doctree.findall(nodes.paragraph)):
        for node in list(paragraph.findall(nodes.Text)):
            if _stands_in_code_or_link(node, paragraph):
                continue
            parts = linked(node.astext(), pattern, terms, seen, page)
            if parts:
                node.parent.replace(node, parts)


def _stands_in_code_or_link(node: nodes.Node, paragraph: nodes.Node) -> bool:
    while node is not paragraph:
        if isinstance(node, _LEFT_ALONE):
            return True
        node = node.parent
    return False


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("doctree-resolved", _link_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
