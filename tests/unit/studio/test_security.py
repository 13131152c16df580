"""The studio answers its own page alone: host, token, cookie, origin, form key."""

import pandas as pd
import pytest

from asgi_client import Client
from corrdp.datasets import hospital_table
from corrdp.studio import Session, make_app
from corrdp.studio._security import FORM_FIELD, Keys

PORT = 4321
HOST = f"127.0.0.1:{PORT}"


@pytest.fixture
def keys():
    return Keys()


@pytest.fixture
def client(tmp_path, keys):
    hospital_table(200).to_csv(tmp_path / "data.csv", index=False)
    session = Session(str(tmp_path / "data.csv"), tmp_path)
    return Client(make_app(session, keys, port=PORT), HOST)


@pytest.fixture
def known(client, keys):
    """A client that has exchanged the token for its cookie."""
    answer = client.get("/", params={"token": keys.token})
    assert answer.status_code == 303
    return client


def test_nothing_is_shown_without_the_cookie(client):
    for path in ("/", "/columns", "/report", "/asset/studio.css", "/words"):
        assert client.get(path).status_code == 403


def test_a_wrong_token_opens_nothing(client):
    assert client.get("/", params={"token": "wrong"}).status_code == 403
    assert client.get("/columns").status_code == 403


def test_the_token_works_once(known, keys):
    cookie = known.cookies[keys.cookie_name]
    known.cookies.clear()
    assert known.get("/", params={"token": keys.token}).status_code == 403
    known.cookies[keys.cookie_name] = cookie
    assert known.get("/columns").status_code == 200


def test_the_cookie_is_strict_and_out_of_reach_of_scripts(client, keys):
    header = client.get("/", params={"token": keys.token}).headers["set-cookie"]
    assert "HttpOnly" in header
    assert "samesite=strict" in header.lower()


def test_two_studios_in_one_browser_do_not_shut_each_other_out(known, tmp_path):
    """Cookies are sent to every port of a host, under their names."""
    others = Keys()
    session = Session(str(tmp_path / "data.csv"), tmp_path)
    other = Client(make_app(session, others, port=PORT + 1), f"127.0.0.1:{PORT + 1}")
    other.cookies = known.cookies
    assert other.get("/", params={"token": others.token}).status_code == 303
    assert other.get("/columns").status_code == 200
    assert known.get("/columns").status_code == 200


@pytest.mark.parametrize("host", ["evil.example:4321", "127.0.0.1:9", "evil.example"])
def test_a_rebound_name_is_refused(known, host):
    assert known.get("/columns", headers={"host": host}).status_code == 421


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_page_is_refused_even_with_the_cookie(known, keys, headers):
    form = {FORM_FIELD: keys.form, "target": "0", "label": "public"}
    assert known.post("/columns", data=form, headers=headers).status_code == 403
    assert known.get("/columns", headers=headers).status_code == 403


def test_its_own_forms_come_without_an_origin_and_are_taken(known, keys):
    form = {FORM_FIELD: keys.form, "label": "public"}
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    assert known.post("/columns", data=form, headers=headers).status_code == 200


@pytest.mark.parametrize("key", ["", "wrong"])
def test_a_form_needs_its_key(known, key):
    assert known.post("/run", data={FORM_FIELD: key}).status_code == 403
    assert known.post("/run").status_code == 403
    other = known.post("/run", body=b"{}", kind="application/json")
    assert other.status_code == 403


def test_pages_load_nothing_from_elsewhere_and_are_not_kept(known):
    headers = known.get("/columns").headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def test_only_the_studios_own_files_are_assets(known):
    assert known.get("/asset/studio.css").status_code == 200
    assert known.get("/asset/..%2f_app.py").status_code == 404
    assert known.get("/asset/base.html.j2").status_code == 404


def test_two_hundred_columns_and_hostile_names_are_text(tmp_path, keys):
    hostile = '"><script>alert(1)</script>'
    wide = {f"column {place}": range(60) for place in range(200)}
    wide = pd.DataFrame(wide | {hostile: [0, 1] * 30})
    table = pd.concat([hospital_table(60), wide], axis=1)
    table.to_csv(tmp_path / "data.csv", index=False)
    session = Session(str(tmp_path / "data.csv"), tmp_path)
    app = make_app(session, keys, port=PORT)
    client = Client(app, HOST, follow=True)
    page = client.get("/", params={"token": keys.token}).text
    assert page.count("<tr>") > 200
    assert "<script>alert" not in page
    names = [column.name for column in session.columns]
    form = {f"role-{place}": "leave" for place in range(len(names))}
    form[f"role-{names.index('diagnosis')}"] = "sensitive"
    form[f"role-{names.index(hostile)}"] = "insensitive"
    form |= {"target": str(names.index("readmitted")), "label": "public"}
    page = client.post("/columns", data=form | {FORM_FIELD: keys.form}).text
    assert "Confirm what was read" in page
    assert "<script>alert" not in page


def test_a_refusal_is_shown_on_the_page_and_changes_nothing(known, keys):
    answer = known.post("/columns", data={FORM_FIELD: keys.form, "label": "public"})
    assert answer.status_code == 200
    assert 'role="alert"' in answer.text
    assert known.get("/plan").headers["location"] == "/columns"
