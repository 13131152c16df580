"""The studio in a real browser: the whole path, by mouse and by keyboard, paid once."""

import contextlib
import subprocess
import sys
import urllib.request
from urllib.error import HTTPError, URLError

import pandas as pd
import pytest
from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

from browser import (
    CONTRAST,
    PATIENCE,
    SMALLEST_CONTRAST,
    axe_findings,
    keep_screenshot,
    overflow,
    problems,
    set_page,
)
from corrdp.certificate import Certificate
from corrdp.datasets import hospital_table
from corrdp.ledger import Ledger

RUN = "from corrdp.cli import main; main()"
STUDIO = ("studio", "data.csv", "--no-browser", "--out", "out")
LEDGER = ("--ledger", "budget.ledger", "--ledger-epsilon", "5")
HOSTILE = "</textarea><img src=x onerror=alert(1)>"


@contextlib.contextmanager
def started(tmp_path, table):
    """Start the studio on a table; yield its address, its folder and its process."""
    table.to_csv(tmp_path / "data.csv", index=False)
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *STUDIO, *LEDGER],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = next(line for line in process.stdout if "http://" in line)
        yield line.strip(), tmp_path, process
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture
def studio(tmp_path):
    n_rows = 1_000
    table = hospital_table(n_rows).assign(patient_id=range(n_rows))
    table[HOSTILE] = ["north", "south"] * (n_rows // 2)
    with started(tmp_path, table) as running:
        yield running


def waiting(driver):
    """Wait for a page that reloads itself: what was just found may be gone again."""
    return WebDriverWait(
        driver,
        PATIENCE,
        ignored_exceptions=[NoSuchElementException, StaleElementReferenceException],
    )


def ended(driver):
    """Wait for a command whose page reloads itself; return what it came to."""
    ask = "return document.querySelector('[role=status]')?.textContent ?? ''"

    def told(driver):
        words = driver.execute_script(ask)
        return words if words and "Running" not in words else None

    # A question that meets a reload fails in one of many ways; the next one succeeds.
    patient = WebDriverWait(driver, PATIENCE, ignored_exceptions=[WebDriverException])
    return patient.until(told)


def find(driver, selector):
    return waiting(driver).until(lambda d: d.find_element(By.CSS_SELECTOR, selector))


def by_mouse(element, key):
    element.click()


def by_keyboard(element, key):
    element.send_keys(key)


def choose(element, act, text):
    """Choose an option by mouse, or by typing it."""
    if act is by_mouse:
        Select(element).select_by_visible_text(text)
    else:
        element.send_keys(text)
    assert Select(element).first_selected_option.text == text


def looked_at(driver, name):
    """Check a page as it stands, and keep its picture where that is asked for."""
    assert overflow(driver) <= 0
    assert driver.execute_script(CONTRAST, SMALLEST_CONTRAST) == []
    keep_screenshot(driver, f"studio-{name}")


def title_is(driver, words):
    waiting(driver).until(lambda d: words in d.title)


def to_training(driver, address, act, width):
    set_page(driver, width=width)
    driver.get(address)
    title_is(driver, "Columns")
    assert "token" not in driver.current_url
    assert "not private" in driver.find_element(By.CSS_SELECTOR, ".draft").text
    assert axe_findings(driver) == []
    choose(find(driver, '[aria-label="role of diagnosis"]'), act, "sensitive")
    choose(find(driver, "#target"), act, "readmitted")
    act(find(driver, '[name="label"][value="public"]'), Keys.SPACE)
    looked_at(driver, f"columns-{width}")
    act(find(driver, "button[type=submit]"), Keys.ENTER)
    title_is(driver, "Confirm")
    assert axe_findings(driver) == []
    looked_at(driver, f"confirm-{width}")
    act(find(driver, "button[name=all]"), Keys.ENTER)
    title_is(driver, "Leakage")
    assert axe_findings(driver) == []
    looked_at(driver, f"leakage-{width}")
    act(find(driver, "form button"), Keys.ENTER)
    title_is(driver, "Budget")
    before = find(driver, "#words").text
    find(driver, "#slider").send_keys(*[Keys.ARROW_RIGHT] * 6)
    waiting(driver).until(lambda d: d.find_element(By.ID, "words").text != before)
    assert float(find(driver, "#epsilon").get_attribute("value")) == 2.0
    assert axe_findings(driver) == []
    looked_at(driver, f"budget-{width}")
    act(find(driver, "form button"), Keys.ENTER)
    title_is(driver, "Plan")
    assert find(driver, ".verdict").text
    assert axe_findings(driver) == []
    looked_at(driver, f"plan-{width}")
    act(find(driver, "a.button"), Keys.ENTER)
    title_is(driver, "Train")
    assert "corrdp train" in find(driver, "pre").text
    assert axe_findings(driver) == []
    assert problems(driver) == []


def charges(folder):
    entries = Ledger.open(folder / "budget.ledger").to_json()["entries"]
    return [entry for entry in entries if entry["kind"] == "charge"]


def test_by_mouse_a_double_click_a_reload_and_a_second_tab_pay_once(driver, studio):
    address, folder, process = studio
    to_training(driver, address, by_mouse, 1280)
    looked_at(driver, "run-1280")
    assert not (folder / "out" / "policy.toml").exists()
    ActionChains(driver).double_click(find(driver, "form button")).perform()
    title_is(driver, "Train the model")
    driver.refresh()
    first = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get(address.split("?")[0] + "run")
    with contextlib.suppress(WebDriverException):  # it may go on to reload itself
        for button in driver.find_elements(By.CSS_SELECTOR, "form button")[:1]:
            button.click()
    driver.close()
    driver.switch_to.window(first)
    assert ended(driver) == "Done."
    assert len(charges(folder)) == 1
    find(driver, "a.button").click()
    title_is(driver, "Train")
    looked_at(driver, "done-1280")
    find(driver, 'a[href="/certificate"]').click()
    assert "Risk in words" in find(driver, "pre").text
    driver.get(address.split("?")[0] + "report")
    assert "Sensitive features" in find(driver, "#verdict").text
    certificate = Certificate.from_file(folder / "out" / "model" / "certificate.json")
    assert certificate.verify()
    # The server stops when it is told to, and answers nobody afterwards.
    process.terminate()
    process.wait()
    with pytest.raises(URLError):
        urllib.request.urlopen(address.split("?")[0])


def test_by_keyboard_on_a_phone_the_path_is_the_same(driver, studio):
    address, folder, _ = studio
    to_training(driver, address, by_keyboard, 400)
    # Leakage of a public table costs nothing, and a preview reads no row.
    base = address.split("?")[0]
    lines = (folder / "data.csv").read_text().splitlines()
    (folder / "public.csv").write_text("\n".join(lines[:501]) + "\n")
    driver.get(base + "leakage")
    path = find(driver, "#table")
    path.send_keys(str(folder / "public.csv"), Keys.ENTER)
    assert ended(driver) == "Done."
    driver.get(base + "plan")
    assert find(driver, ".verdict").text
    find(driver, 'a[href="/preview"]').send_keys(Keys.ENTER)
    title_is(driver, "Preview")
    assert "invented" in find(driver, ".draft").text
    assert axe_findings(driver) == []
    looked_at(driver, "preview-400")
    driver.get(base + "run")
    assert "--leakage public_leakage.json" in find(driver, "pre").text
    assert not (folder / "budget.ledger").exists()


def test_a_wrong_token_and_a_foreign_page_get_nothing(driver, studio, tmp_path):
    address, folder, _ = studio
    base = address.split("?")[0]
    with pytest.raises(HTTPError, match="403"):
        urllib.request.urlopen(base + "?token=wrong")
    driver.delete_all_cookies()
    driver.get(address)
    title_is(driver, "Columns")
    foreign = tmp_path / "foreign.html"
    foreign.write_text(
        f'<form method="post" action="{base}run"><button>win</button></form>'
    )
    driver.get(foreign.as_uri())
    find(driver, "button").click()
    waiting(driver).until(lambda d: "Refused" in d.page_source)
    assert not (folder / "out" / "policy.toml").exists()


def test_two_hundred_columns_keep_what_was_said_through_reloads(driver, tmp_path):
    """Hostile names, values with blanks and yes-or-no columns among them."""
    n_rows = 200
    wide = {f"code {place}": [" on", "off "] * (n_rows // 2) for place in range(196)}
    wide |= {HOSTILE: [1, 0] * (n_rows // 2), "'; drop=\"\u202e": range(n_rows)}
    table = pd.DataFrame(wide).assign(
        smoker=[True, False] * (n_rows // 2), ill=["yes", "no"] * (n_rows // 2)
    )
    with started(tmp_path, table) as (address, folder, _):
        set_page(driver, width=390)
        driver.get(address)
        title_is(driver, "Columns")
        assert len(driver.find_elements(By.CSS_SELECTOR, "tbody tr")) == 200
        assert axe_findings(driver) == []
        choose(find(driver, '[aria-label="role of smoker"]'), by_mouse, "sensitive")
        choose(find(driver, "#target"), by_mouse, "ill")
        by_mouse(find(driver, '[name="label"][value="public"]'), None)
        looked_at(driver, "wide-columns")
        by_mouse(find(driver, "button[type=submit]"), None)
        title_is(driver, "Confirm")
        driver.refresh()
        title_is(driver, "Confirm")
        looked_at(driver, "wide-confirm")
        # Ticked one by one, everything can be confirmed: yes-or-no columns too.
        driver.execute_script(
            "for (const b of document.querySelectorAll('[type=checkbox]')) b.click()"
        )
        by_mouse(find(driver, "button:not([name])"), None)
        title_is(driver, "Leakage")
        driver.refresh()
        by_mouse(find(driver, "form button"), None)
        title_is(driver, "Budget")
        driver.refresh()
        by_mouse(find(driver, "form button"), None)
        title_is(driver, "Plan")
        assert "too few" in find(driver, ".verdict").text  # and says so
        assert overflow(driver) <= 0
        driver.get(address.split("?")[0] + "columns")
        chosen = Select(find(driver, '[aria-label="role of smoker"]'))
        assert chosen.first_selected_option.text == "sensitive"
        assert problems(driver) == []
        assert list((folder / "out").iterdir()) == []  # nothing was run or written
