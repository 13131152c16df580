"""Pages hold the summary and nothing else; text cannot become markup."""

import json
import re

import pytest

from corrdp.datasets import hospital_table
from corrdp.report import render_html, render_markdown
from corrdp.report._charts import charts
from corrdp.report.exports import nist_text
from report_fixtures import full_summary, raw_values_in


@pytest.fixture(scope="module")
def page():
    return render_html(full_summary(title="Readmission & <b>costs</b>"))


def without_library(page):
    return re.sub(r'<script type="module">.*?</script>', "", page, flags=re.DOTALL)


def test_page_needs_no_network_and_stays_small(page):
    assert len(page.encode()) < 6_000_000
    body = without_library(page)
    assert "default-src 'none'" in body
    assert not re.search(r'(src|href)="(?!#)', body)
    assert "@import" not in body
    assert "url(" not in body


@pytest.mark.parametrize(
    "name",
    [
        "![x](http://evil.example/x.png)",
        "[a]: http://evil.example",
        "`x`",
        "<img src=x>",
        "http://evil.example/x",
        "www.evil.example",
        "x@evil.example",
        "*x* _x_ ~~x~~",
        "&lt;img src=x&gt;",
        "x\r# evil",
        "x\u2028# evil",
    ],
)
def test_no_name_is_markup_in_markdown(name):
    """A picture would be fetched from elsewhere by whoever reads a wiki."""
    layers = [{"layer": "one", "answer": f"insensitive:{name}: 1"}]
    statement = {"layers": layers, "certificate_digest": "0"}
    told = (render_markdown(full_summary(title=name)), nist_text(statement))
    for page in told:
        assert re.search(r"(?<!\\)\[(x|a)\]|(?<!\\)`x|<img", page) is None
        assert ("&lt;img" in page) == (name == "<img src=x>")
        assert re.search(r"http://evil|www\.evil|x@evil|(?<!\\)[*_~]+x", page) is None
        assert not any(line.startswith("# evil") for line in page.splitlines())


@pytest.mark.parametrize(
    "place", [("software", "numpy"), ("leakage", "source"), ("audit", "confidence")]
)
def test_no_field_of_a_saved_summary_is_markup_in_markdown(place):
    """Summaries and audits come from files, which others may have written."""
    summary = full_summary()
    part, field = place
    planted = summary[part] | {field: "![x](http://evil.example/x.png)<img src=x>"}
    page = render_markdown(summary | {part: planted})
    assert re.search(r"(?<!\\)\[x\]|http://evil|<img", page) is None
    assert "evil.example" in page


def test_a_name_does_not_turn_the_sentence_around_it():
    """Read from the right, an epsilon of 1.5 would be one of 5.1."""
    summary = full_summary(title="of \u202e5.1\u2069")
    for page in (render_html(summary), render_markdown(summary)):
        assert re.search("[\u202a-\u202e\u2066-\u2069]", without_library(page)) is None
        assert "u202e5.1" in page


def test_text_is_escaped_everywhere(page):
    body = without_library(page)
    assert "<b>costs</b>" not in body
    assert "Readmission &amp; &lt;b&gt;costs" in body
    specs = re.search(r'id="specs">(.*?)</script>', page, re.DOTALL).group(1)
    assert "<" not in specs
    assert set(json.loads(specs)) == set(charts(full_summary()))


def test_a_hostile_column_name_stays_text():
    summary = full_summary()
    hostile = "</script><script>alert(1)</script>|"
    summary["roles"][0]["feature"] = hostile
    summary["leakage"]["features"][0]["feature"] = hostile
    body = without_library(render_html(summary))
    assert "<script>alert" not in body
    assert "\\|" in render_markdown(summary)
    assert "<script>" not in render_markdown(summary)


def test_every_chart_has_a_static_picture(page):
    for name in charts(full_summary()):
        figure = re.search(rf'id="chart-{name}".*?</figure>', page, re.DOTALL).group(0)
        assert "<svg" in figure
        assert "<figcaption>" in figure


def test_sections_without_content_are_left_out():
    summary = full_summary() | {
        "noise": [],
        "sweep": None,
        "coefficients": [],
        "audit": None,
    }
    body = without_library(render_html(summary))
    assert 'id="sweep"' not in body
    assert 'id="coefficients"' not in body
    assert 'id="audit"' not in body
    assert set(charts(summary)) == {"budget", "leakage", "curve"}


def test_infinite_epsilon_is_written_in_words():
    summary = full_summary()
    summary["promise"]["classes"][0]["proved"] = "inf"
    assert "infinite" in without_library(render_html(summary))
    assert "| infinite |" in render_markdown(summary)


def test_the_search_for_raw_values_finds_a_planted_one():
    table = hospital_table(300).assign(name=lambda t: [f"Quux {i}" for i in t.index])
    summary = full_summary()
    clean = without_library(render_html(summary)) + render_markdown(summary)
    assert raw_values_in(clean, table) == set()
    income = int(table["income"].max())
    summary["quality"][0]["words"] = f"largest income {income}"
    assert raw_values_in(without_library(render_html(summary)), table) == {str(income)}
    summary["quality"][0]["words"] = "patient Quux 17"
    assert "Quux 17" in raw_values_in(render_markdown(summary), table)


@pytest.mark.parametrize(
    "written", ["{}", "[1,{},2]", '"{}"', "{}.0", "{}.", "income={}", "-{}", "{}e0"]
)
def test_the_search_finds_a_number_however_it_is_written(written):
    table = hospital_table(300).assign(name="Quux")
    income = str(table["income"].max())
    assert raw_values_in(written.format(income), table) == {income}


@pytest.mark.parametrize("written", ["ab{}cd", "{}f", "0.{}", "{}.25", "9{}"])
def test_the_search_leaves_digests_and_other_numbers_alone(written):
    table = hospital_table(300).assign(name="Quux")
    assert raw_values_in(written.format(table["income"].max()), table) == set()
