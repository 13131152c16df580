"""An audit in the report: of this certificate, in full, and broken claims shown."""

import json
import re

import pytest

from command_runner import hospital_folder, run
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.report import render_html, render_markdown, with_audit
from report_fixtures import audit_document, full_summary, planned_certificate


def section(page):
    return re.search(r'<section id="audit".*?</section>', page, re.DOTALL).group(0)


def broken_document():
    """Return the audit with the first claim contradicted and the last without one."""
    document = audit_document(cut=("search",))
    document["passed"] = False
    document["results"][0] |= {"verdict": "violated", "audited_epsilon": 7.5}
    document["results"][-1] |= {"verdict": "no claim", "certified_epsilon": "inf"}
    return document


def test_every_class_is_shown_with_both_epsilons_and_the_verdict():
    summary = full_summary()
    names = list(planned_certificate().classes)
    assert [row["class"] for row in summary["audit"]["rows"]] == names
    for text in (section(render_html(summary)), render_markdown(summary)):
        assert "0.99" in text
        for row in summary["audit"]["rows"]:
            assert row["class"] in text
            assert f"{row['certified_epsilon']:.4g}" in text
            assert f"{row['audited_epsilon']:.4g}" in text


def test_the_chart_has_a_text_alternative():
    shown = section(render_html(full_summary()))
    label = re.search(r'aria-label="(Audited[^"]*)"', shown).group(1)
    assert all(name in label for name in planned_certificate().classes)


def test_a_contradicted_claim_cannot_be_overlooked():
    summary = with_audit(full_summary(), broken_document())
    shown = section(render_html(summary))
    assert "A claim is contradicted" in shown
    assert ">violated<" in shown.split("<table")[0]  # in the picture, as text
    assert "A time limit cut the search for neighbors" in shown
    assert "infinite" in shown
    assert "**A claim is contradicted**" in render_markdown(summary)


@pytest.mark.parametrize("digest", [None, "0" * 64])
def test_an_audit_of_another_certificate_is_refused(digest):
    with pytest.raises(GuaranteeVoidError, match="Audit the directory"):
        with_audit(full_summary(), audit_document(certificate_digest=digest))
    unprotected = full_summary() | {"certificate_digest": None}
    with pytest.raises(GuaranteeVoidError, match="certificate none"):
        with_audit(unprotected, audit_document(certificate_digest=digest))


@pytest.mark.parametrize("document", [None, {}, {"schema": "corrdp.sweep/1"}])
def test_what_is_not_an_audit_is_refused(document):
    with pytest.raises(CorrDPError, match="schema"):
        with_audit(full_summary(), document)


def test_the_command_adds_an_audit_of_its_directory_alone(tmp_path, stepping_clock):
    folder = hospital_folder(tmp_path)
    told = run("audit", "model", "--time-limit", 0.2, "--out", "audit.json", cwd=folder)
    assert told.code == 0, told.stderr
    result = run("report", "model", "--audit", "audit.json", cwd=folder)
    assert result.code == 0, result.stderr
    page = (folder / "model" / "report.html").read_text(encoding="utf-8")
    assert "sensitive" in section(page)
    document = json.loads((folder / "audit.json").read_text())
    document["certificate_digest"] = "0" * 64
    (folder / "other.json").write_text(json.dumps(document))
    refused = run("report", "model", "--audit", "other.json", cwd=folder)
    assert refused.code == 4
    assert "Audit the directory" in refused.stderr
    absent = run("report", "model", "--audit", "none.json", cwd=folder)
    assert absent.code == 3
