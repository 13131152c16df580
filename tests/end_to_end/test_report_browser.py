"""The report in a real browser: no errors, charts, keyboard, contrast, phone width.

Needs Debian's chromium and chromium-driver. Where they are absent, a machine that lets
us install packages gets them; elsewhere the tests are skipped, except in CI.
Screenshots go to CORRDP_SCREENSHOT_DIR if that is set, and nowhere else.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from corrdp.report import render_html
from corrdp.report._charts import charts
from report_fixtures import full_summary

FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking", "--disable-sync"),
    *("--disable-component-update", "--hide-scrollbars"),
]
# Seconds without an answer that only a broken page takes, however busy the machine.
PATIENCE = 900
SMALLEST_CONTRAST = 4.5  # WCAG 2.2, level AA, normal text

# Contrast of every element that has text of its own, against what is painted behind it.
CONTRAST = """
const channel = v => {
  v /= 255;
  return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
};
const parse = c => { const p = c.match(/[\\d.]+/g); return p ? p.map(Number) : null; };
const light = c =>
  .2126 * channel(c[0]) + .7152 * channel(c[1]) + .0722 * channel(c[2]);
const behind = e => {
  for (; e; e = e.parentElement) {
    const c = parse(getComputedStyle(e).backgroundColor);
    if (c && (c.length === 3 || c[3] > .99)) return c;
  }
  return [255, 255, 255];
};
const low = [];
for (const e of document.querySelectorAll("body *")) {
  const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  if (!own || ["SCRIPT", "STYLE"].includes(e.tagName)) continue;
  const style = getComputedStyle(e);
  const front = parse(e instanceof SVGElement ? style.fill : style.color);
  if (!front || style.visibility === "hidden") continue;
  const [a, b] = [light(front), light(behind(e))].sort((x, y) => y - x);
  const ratio = (a + .05) / (b + .05);
  const text = e.textContent.trim().slice(0, 30);
  if (ratio < arguments[0]) low.push(`${e.tagName} ${ratio.toFixed(2)} ${text}`);
}
return low;
"""


def browser_paths():
    names = ("chromium", "chromedriver")
    if not all(map(shutil.which, names)) and hasattr(os, "geteuid"):
        installer = shutil.which("apt-get")
        if installer and os.geteuid() == 0:
            for words in (["update"], ["install", "-y", "chromium", "chromium-driver"]):
                subprocess.run([installer, *words], capture_output=True)
    return [shutil.which(name) for name in names]


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    chromium, chromedriver = browser_paths()
    if not chromium or not chromedriver:
        reason = "chromium and chromium-driver are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    driver.command_executor.client_config.timeout = PATIENCE
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(render_html(full_summary()), encoding="utf-8")
    return path.as_uri()


def opened(driver, address, *, width=1280, scheme="light"):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    driver.get(address)
    wanted = len(charts(full_summary()))
    WebDriverWait(driver, PATIENCE).until(
        lambda d: (
            len(d.find_elements(By.CSS_SELECTOR, '[data-interactive="true"]')) == wanted
        )
    )
    return driver


def problems(driver):
    return [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"]


def keep_screenshot(driver, name):
    folder = os.environ.get("CORRDP_SCREENSHOT_DIR")
    if folder:
        height = driver.execute_script("return document.body.scrollHeight")
        width = driver.execute_script("return window.innerWidth")
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False},
        )
        driver.save_screenshot(str(Path(folder) / f"{name}.png"))


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_appear_without_errors_and_can_be_read(driver, page, width, scheme):
    opened(driver, page, width=width, scheme=scheme)
    assert problems(driver) == []
    for name in charts(full_summary()):
        chart = driver.find_element(By.ID, f"chart-{name}")
        assert chart.find_elements(By.CSS_SELECTOR, "svg .mark-group")
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    overflow = driver.execute_script(
        "return document.documentElement.scrollWidth - window.innerWidth"
    )
    assert overflow <= 0
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
    assert details.get_attribute("open")


def test_without_javascript_the_static_charts_are_there(driver, page):
    driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        driver.get(page)
        for name in charts(full_summary()):
            picture = driver.find_element(By.CSS_SELECTOR, f"#chart-{name} > svg")
            assert picture.size["height"] > 30
    finally:
        driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_print_is_black_on_white_even_in_dark_mode(driver, page):
    opened(driver, page, scheme="dark")
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {
            "media": "print",
            "features": [{"name": "prefers-color-scheme", "value": "dark"}],
        },
    )
    color = "return getComputedStyle(document.body).backgroundColor"
    assert driver.execute_script(color) == "rgb(255, 255, 255)"
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
