"""A real browser for tests: Debian's chromium and chromium-driver.

Where they are absent, a machine that lets us install packages gets them; elsewhere the
tests are skipped, except in CI. Screenshots go to CORRDP_SCREENSHOT_DIR if that is set,
and nowhere else.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from selenium import webdriver

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


def started_driver(profile):
    """Start a browser, or say why there is none."""
    chromium, chromedriver = browser_paths()
    if not chromium or not chromedriver:
        reason = "chromium and chromium-driver are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS, f"--user-data-dir={profile}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    driver.set_page_load_timeout(PATIENCE)
    driver.set_script_timeout(PATIENCE)
    driver.command_executor.client_config.timeout = PATIENCE
    return driver


def set_page(driver, *, width=1280, scheme="light", media=""):
    """Choose the width, the color scheme, and screen or paper."""
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {
            "media": media,
            "features": [{"name": "prefers-color-scheme", "value": scheme}],
        },
    )
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )


def overflow(driver):
    """Return by how many pixels the page is wider than the window."""
    return driver.execute_script(
        "return document.documentElement.scrollWidth - window.innerWidth"
    )


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


def axe_findings(driver):
    """Return serious and critical findings of axe-core, or fail if it is not there."""
    from selenium_axe_python import Axe

    axe = Axe(driver)
    axe.inject()
    found = axe.run()["violations"]
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:80]}"
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
