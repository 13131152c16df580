"""The report in a real browser: no errors, charts, keyboard, contrast, phone width."""

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from browser import (
    CONTRAST,
    PATIENCE,
    SMALLEST_CONTRAST,
    keep_screenshot,
    overflow,
    problems,
    set_page,
)
from corrdp.report import render_html
from corrdp.report._charts import charts
from report_fixtures import full_summary


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(full_summary()), encoding="utf-8")
    return path.as_uri()


def opened(driver, address, *, width=1280, scheme="light"):
    set_page(driver, width=width, scheme=scheme)
    driver.get(address)
    unfold(driver)
    wanted = len(charts(full_summary()))
    WebDriverWait(driver, PATIENCE).until(
        lambda d: (
            len(d.find_elements(By.CSS_SELECTOR, '[data-interactive="true"]')) == wanted
        )
    )
    return driver


def unfold(driver):
    driver.execute_script(
        "for (const d of document.querySelectorAll('details')) d.open = true"
    )


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_appear_without_errors_and_can_be_read(driver, page, width, scheme):
    opened(driver, page, width=width, scheme=scheme)
    assert problems(driver) == []
    for name in charts(full_summary()):
        chart = driver.find_element(By.ID, f"chart-{name}")
        assert chart.find_elements(By.CSS_SELECTOR, "svg .mark-group")
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    assert overflow(driver) <= 0
    keep_screenshot(driver, f"report-{width}-{scheme}")


def test_the_checks_catch_an_error_and_pale_text(driver, page):
    opened(driver, page)
    driver.execute_script(
        "document.querySelector('h1').style.color = '#dddddd';"
        "setTimeout(() => { throw new Error('planted'); }, 0)"
    )
    low = driver.execute_script(CONTRAST, SMALLEST_CONTRAST)
    assert [line.split()[0] for line in low] == ["H1"]
    WebDriverWait(driver, PATIENCE).until(problems)


def test_everything_is_reached_by_keyboard(driver, page):
    opened(driver, page)
    focusable = driver.execute_script(
        "return document.querySelectorAll('a[href], summary, [tabindex=\"0\"]').length"
    )
    body = driver.find_element(By.TAG_NAME, "body")
    reached = set()
    for _ in range(3 * focusable):
        webdriver.ActionChains(driver).send_keys(Keys.TAB).perform()
        active = driver.switch_to.active_element
        if active == body:
            break
        reached.add(active.id)
    visible = driver.execute_script(
        "return [...document.querySelectorAll('a[href], summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility()).length"
    )
    assert len(reached) >= visible > 10
    details = driver.find_element(By.CSS_SELECTOR, "details")
    details.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert not details.get_attribute("open")


def test_without_javascript_the_static_charts_are_there(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page)
        for summary in driver.find_elements(
            By.CSS_SELECTOR, "#details > section > details > summary"
        ):
            summary.click()
        for name in charts(full_summary()):
            picture = driver.find_element(By.CSS_SELECTOR, f"#chart-{name} > svg")
            assert picture.size["height"] > 30
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_print_is_black_on_white_even_in_dark_mode(driver, page):
    opened(driver, page, scheme="dark")
    set_page(driver, scheme="dark", media="print")
    color = "return getComputedStyle(document.body).backgroundColor"
    assert driver.execute_script(color) == "rgb(255, 255, 255)"
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    set_page(driver)
