"""The report of 25 features as people read it: one screen, few words, two pages."""

import base64
import re

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from browser import (
    CONTRAST,
    SMALLEST_CONTRAST,
    axe_findings,
    keep_screenshot,
    overflow,
    problems,
    set_page,
)
from corrdp.report import render_html
from report_fixtures import full_summary, wide_summary

FIRST_SCREEN_WORDS = 150
PRINTED_WORDS = 900


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("wide") / "report.html"
    path.write_text(render_html(wide_summary()), encoding="utf-8")
    return path.as_uri()


def words(driver, selector="body"):
    text = driver.find_element(By.CSS_SELECTOR, selector).text
    return text.split()


@pytest.mark.parametrize("width", [1280, 400])
def test_the_first_screen_is_the_verdict_in_few_words(driver, page, width):
    set_page(driver, width=width)
    driver.get(page)
    shown = " ".join(words(driver, "#verdict"))
    assert len(shown.split()) < FIRST_SCREEN_WORDS
    for what in ("Sensitive features ε 0.5", "Whole record ε", "Not covered:"):
        assert what in shown
    for what in ("Usefulness:", "Policy", "Certificate", "corrdp 0.", "Signed by"):
        assert what in shown
    assert overflow(driver) <= 0
    if width > 1000:
        bottom = driver.execute_script(
            "return document.getElementById('verdict').getBoundingClientRect().bottom"
        )
        assert bottom <= 900  # one screen
    assert problems(driver) == []
    keep_screenshot(driver, f"report-wide-{width}")


def test_all_of_it_is_printed_in_few_words_on_two_pages(driver, page):
    set_page(driver)
    driver.get(page)
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    set_page(driver, media="print")
    printed = words(driver)
    assert len(printed) < PRINTED_WORDS
    # Every feature, every risk, the assumptions and the limits are on paper.
    text = " ".join(printed)
    for row in wide_summary()["roles"]:
        assert row["feature"] in text
    assert "found at 1" in text
    assert "It does not cover" in text
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    keep_screenshot(driver, "report-wide-print")
    set_page(driver)
    driver.get(page)
    paper = driver.execute_cdp_cmd(
        "Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69}
    )
    document = base64.b64decode(paper["data"])
    assert len(re.findall(rb"/Type\s*/Page\b", document)) <= 2


def test_sections_fold_and_open_by_keyboard_and_by_link(driver, page):
    set_page(driver)
    driver.get(page)
    section = driver.find_element(By.CSS_SELECTOR, "#risk > details")
    assert not section.get_attribute("open")
    section.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert section.get_attribute("open")
    driver.get(page + "#noise")
    noise = driver.find_element(By.CSS_SELECTOR, "#noise > details")
    assert noise.get_attribute("open")
    assert "not quality" in driver.find_element(By.ID, "noise").text


@pytest.mark.parametrize("summary", [wide_summary, full_summary])
def test_accessibility_has_no_serious_finding(driver, summary, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(render_html(summary()), encoding="utf-8")
    set_page(driver)
    driver.get(path.as_uri())
    driver.execute_script(
        "for (const d of document.querySelectorAll('details')) d.open = true"
    )
    assert axe_findings(driver) == []


def test_the_accessibility_check_finds_a_planted_defect(driver, page):
    set_page(driver)
    driver.get(page)
    driver.execute_script(
        "const image = document.createElement('img');"
        "image.src = 'data:,'; document.querySelector('main').append(image)"
    )
    assert any(line.startswith("image-alt") for line in axe_findings(driver))
