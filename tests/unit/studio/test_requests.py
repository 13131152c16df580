"""What the studio answers to requests out of order, out of range, or unforeseen."""

import re
import socket

import numpy as np
import pandas as pd
import pytest

from asgi_client import Client
from corrdp.exceptions import CorrDPError
from corrdp.studio import Session, make_app, serve
from corrdp.studio._jobs import Job
from corrdp.studio._security import FORM_FIELD, Keys

PORT = 4321
CELL = "a cell that nobody may see"
COLUMNS = ("age", "sex", "town", "ill", "cost")
AGE, SEX, TOWN, ILL, COST = range(5)


@pytest.fixture
def session(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 70, 400),
            "sex": rng.choice(["f", "m"], 400),
            "town": rng.choice(["Bern", "Chur"], 400),
            "ill": rng.choice(["no", "yes"], 400),
            "cost": rng.uniform(0, 100, 400),
        }
    )
    frame.to_csv(tmp_path / "data.csv", index=False)
    return Session(str(tmp_path / "data.csv"), tmp_path)


@pytest.fixture
def client(session):
    keys = Keys()
    app = make_app(session, keys, port=PORT)
    client = Client(app, f"127.0.0.1:{PORT}")
    client.get("/", params={"token": keys.token})
    send = client.post
    client.post = lambda path, data=(): send(
        path, data={FORM_FIELD: keys.form} | dict(data)
    )
    return client


def roles(sensitive=(AGE,), target=ILL, label="public"):
    chosen = {f"role-{place}": "insensitive" for place in range(5)}
    chosen |= {f"role-{place}": "sensitive" for place in sensitive}
    return chosen | {"target": str(target), "label": label}


def confirmed(client, **wishes):
    assert client.post("/columns", roles(**wishes)).headers["location"] == "/domains"
    assert client.post("/domains", {"all": "1"}).headers["location"] == "/leakage"


@pytest.mark.parametrize("name", ["report", "certificate", "plan", "run", "preview"])
def test_pages_that_come_later_lead_back(client, name):
    assert client.get(f"/{name}").status_code == 303


@pytest.mark.parametrize("target", ["", "-1", "5", "9" * 5000, "\u0661", "0.0", "nan"])
def test_a_target_is_one_of_the_columns(client, target):
    page = client.post("/columns", roles() | {"target": target})
    assert "no column to predict was chosen" in page.text


def test_somebody_must_be_protected(client):
    page = client.post("/columns", {"target": str(ILL), "label": "public"})
    assert "nothing is sensitive" in page.text


def test_words_of_a_budget_are_our_own(client):
    for given in ({}, {"epsilon": "x", "delta": "1e-6"}):
        told = client.get("/words", params=given)
        assert "epsilon must be a number" in told.text
    told = client.get("/words", params={"epsilon": "1e308", "delta": "1e-300"})
    assert "nothing is bounded" in told.text


@pytest.mark.parametrize("epsilon", ["", "nan", "inf", "-1", "0"])
def test_leakage_is_not_bought_for_no_budget(client, session, epsilon):
    confirmed(client)
    page = client.post("/leakage", {"source": "paid", "epsilon": epsilon})
    assert "epsilon must be a" in page.text
    assert session.choices.leakage == "declared"
    assert not session.jobs._jobs


def test_nothing_is_trained_with_leakage_that_is_not_there(
    client, session, monkeypatch
):
    monkeypatch.setattr(Job, "run", lambda job, folder: setattr(job, "code", 3))
    confirmed(client)
    client.post("/leakage", {"source": "paid", "epsilon": "0.5"})
    assert len(session.jobs._jobs) == 1
    for page in (client.get("/plan"), client.get("/preview"), client.post("/run")):
        assert "its command has not ended, or it failed" in page.text
    assert len(session.jobs._jobs) == 1


@pytest.mark.parametrize(
    ("target", "fits", "other"),
    [(ILL, "logistic", "linear"), (COST, "linear", "logistic")],
)
def test_a_model_fits_the_column_to_predict(client, session, target, fits, other):
    confirmed(client, target=target)
    assert session.choices.model == fits
    budget = {"epsilon": "1", "delta": "1e-6"}
    page = client.post("/budget", budget | {"model": other})
    assert "the model does not fit" in page.text
    taken = client.post("/budget", budget | {"model": fits})
    assert taken.headers["location"] == "/plan"


@pytest.mark.parametrize("kind", [ValueError, KeyError, OverflowError])
def test_words_that_may_quote_a_row_are_withheld(
    client, session, monkeypatch, capfd, kind
):
    """On the page, and in the terminal, where the server would print them."""

    def stumble(*_):
        raise kind(CELL)

    monkeypatch.setattr(session, "draft", stumble)
    monkeypatch.setattr(Session, "fields", stumble)
    answers = [client.post("/columns", roles())]
    session.document = {}
    answers.append(client.get("/domains"))
    told = capfd.readouterr()
    for answer in answers:
        assert answer.status_code == 500
        assert "withheld" in answer.text
        assert CELL not in answer.text
        assert answer.headers["cache-control"] == "no-store"
    assert CELL not in told.out + told.err
    assert told.err.count(f"({kind.__name__})") == 2
    assert "in stumble" in told.err


def test_a_command_that_cannot_be_started_has_ended(tmp_path):
    job = Job(("train",), "Train the model")
    job.run(tmp_path / "absent")
    assert not job.running
    assert not job.succeeded
    assert "could not be started" in job.output


def shown_about(client, page):
    return re.search(r'name="about" value="(\w+)"', client.get(page).text)[1]


OVERTAKEN = "has changed since that page was shown"


@pytest.mark.parametrize("page", ["domains", "leakage", "budget"])
def test_a_form_of_another_draft_is_refused(client, session, page):
    """Its places would be those of other columns: a leakage, a bound, a tick."""
    confirmed(client)
    about = shown_about(client, f"/{page}")
    client.post("/columns", roles(sensitive=(SEX,)))
    client.post("/domains", {"all": "1"})
    before = session.document
    form = {"about": about, "source": "declared", "all": "1"}
    form |= {f"leakage-{place}": "0.01" for place in range(3)}
    form |= {"epsilon": "9", "delta": "1e-6", "model": "logistic"}
    answer = client.post(f"/{page}", form)
    assert OVERTAKEN in answer.text
    assert session.document == before
    assert session.choices.epsilon == 1.0
    again = client.post(f"/{page}", form | {"about": shown_about(client, f"/{page}")})
    assert again.status_code == 303


def test_training_pays_the_price_that_its_button_shows(client, session, monkeypatch):
    confirmed(client)
    client.post("/leakage", {f"leakage-{place}": "0.5" for place in range(3)})
    started = []
    monkeypatch.setattr(Job, "run", lambda job, folder: started.append(job.words))
    about = shown_about(client, "/run")
    client.post("/budget", {"epsilon": "9", "delta": "1e-6", "model": "logistic"})
    answer = client.post("/run", {"about": about})
    assert OVERTAKEN in answer.text
    assert "Train and pay epsilon 9.0" in answer.text
    assert not started
    for _ in range(2):  # a double click
        form = {"about": shown_about(client, "/run")}
        assert client.post("/run", form).status_code == 303


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x.csv", "\0", "a" * 5000])
def test_a_public_table_that_cannot_be_named_is_refused(client, name):
    confirmed(client)
    page = client.post("/leakage", {"source": "public", "table": name})
    assert page.status_code == 200
    assert "there is no file of that name" in page.text


@pytest.mark.parametrize("port", ["taken", 70_000])
def test_a_port_that_cannot_be_taken_is_told(session, port):
    told = []
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        wanted = other.getsockname()[1] if port == "taken" else port
        with pytest.raises(CorrDPError, match="cannot be taken"):
            serve(session, port=wanted, tell=told.append)
    assert told == []
