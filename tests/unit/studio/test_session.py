"""A session: nothing unconfirmed leaves memory, nothing is paid twice or replaced."""

import contextlib
import io
import json
import threading
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp import LogisticRegression, estimate_leakage
from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.studio import Session
from corrdp.studio._app import _Pages
from corrdp.studio._jobs import Jobs
from corrdp.studio._preview import Asked, budget_words, planned, previewed
from corrdp.studio._security import Keys

N_ROWS = 400


@pytest.fixture
def session(tmp_path):
    table = hospital_table(N_ROWS).assign(patient_id=range(N_ROWS))
    table.to_csv(tmp_path / "data.csv", index=False)
    return Session(str(tmp_path / "data.csv"), tmp_path / "out")


def drafted(session):
    roles = dict(session.choices.roles) | {"diagnosis": "sensitive"}
    session.draft(roles, "readmitted", "public")
    return session


def confirmed(session):
    drafted(session)
    session.confirm({}, set(session.document["unconfirmed"]))
    session.declare_leakage(dict.fromkeys(session.policy().insensitive, 0.5))
    return session


def test_identifiers_are_flagged_and_left_out_unless_wanted(session):
    column = {c.name: c for c in session.columns}["patient_id"]
    assert column.doubt
    assert session.choices.roles["patient_id"] == "leave"


def test_a_tick_confirms_what_is_read_beside_it(tmp_path):
    """Slots are confirmed with categories, and whole numbers with bounds."""
    n = 60
    rare = ["P"] * (n - 1) + ["Q"]
    frame = pd.DataFrame(
        {
            "illness": rare,
            "ward": [None] * 9 + ["A", "B", "C"] * 17,
            "age": [20 + i % 40 for i in range(n)],
            "ill": [0, 1] * (n // 2),
            "back": ["no", "yes"] * (n // 2),
        }
    )
    frame.to_csv(tmp_path / "rare.csv", index=False)
    session = Session(str(tmp_path / "rare.csv"), tmp_path / "out")
    roles = {name: "insensitive" for name in frame if name != "back"}
    session.draft(roles | {"illness": "sensitive"}, "back", "public")
    told = {field["name"]: field["besides"] for field in session.fields()}
    assert told["illness"] == (
        "missing cells count as P; all other values are one value more"
    )
    assert told["ward"].startswith("missing cells are a value of their own; other")
    assert (
        told["age"] == "whole numbers; counted in 8 bins; missing cells count as 37.0"
    )
    assert told["ill"] == "written as 1 and 0; missing cells count as False"
    assert told["back"] == ""


def test_an_unconfirmed_draft_is_never_written(session, tmp_path):
    drafted(session)
    assert session.waiting > 0
    with pytest.raises(PolicyError, match="confirm"):
        session.write_policy()
    assert not (tmp_path / "out").exists()


def test_a_confirmed_draft_is_a_policy_that_commands_read(session, tmp_path):
    path = confirmed(session).write_policy()
    policy = Policy.from_file(path)
    assert policy.sensitive == ("diagnosis",)
    assert policy.feature("age").leakage == 0.5
    assert "patient_id" not in [f.name for f in policy.features]


def test_a_file_of_somebody_else_is_not_replaced(session, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "policy.toml").write_text(hospital_policy_text())
    with pytest.raises(CorrDPError, match="already"):
        confirmed(session).write_policy()
    assert (tmp_path / "out" / "policy.toml").read_text() == hospital_policy_text()


def test_its_own_file_may_be_written_again(session):
    confirmed(session).write_policy()
    session.declare_leakage(dict.fromkeys(session.policy().insensitive, 0.25))
    session.write_policy()


@pytest.mark.parametrize(("label", "sensitive"), [("", "diagnosis"), ("public", None)])
def test_what_was_not_said_is_asked_for(session, label, sensitive):
    roles = dict(session.choices.roles)
    if sensitive:
        roles[sensitive] = "sensitive"
    with pytest.raises(PolicyError):
        session.draft(roles, "readmitted", label)


def test_the_same_command_is_one_job_for_all_who_ask(tmp_path, monkeypatch):
    started, finish = [], threading.Event()

    def run(job, folder):
        started.append(job.words)
        finish.wait()
        job.code = 0

    monkeypatch.setattr("corrdp.studio._jobs.Job.run", run)
    jobs = Jobs(tmp_path)
    asking = [
        threading.Thread(target=jobs.start, args=(["train", "x"], "Train"))
        for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    key, job = jobs.start(["train", "x"], "Train")
    assert started == [("train", "x")]
    assert jobs.get(key) is job
    finish.set()


def test_a_ledger_that_came_to_be_makes_no_second_command(
    session, tmp_path, monkeypatch
):
    ledger = tmp_path / "budget.ledger"
    paying = Session(session.data, session.folder, ledger=ledger, ledger_epsilon=3.0)
    started = []
    monkeypatch.setattr(
        "corrdp.studio._jobs.Job.run", lambda job, folder: started.append(job.words)
    )
    confirmed(paying)
    first, _ = paying.jobs.start(
        paying.train_words(), "Train", extra=paying.creating_words()
    )
    ledger.touch()
    second, _ = paying.jobs.start(
        paying.train_words(), "Train", extra=paying.creating_words()
    )
    assert first == second
    assert len(started) == 1
    assert "--ledger-epsilon" in started[0]
    assert paying.creating_words() == ()


def test_another_policy_is_another_command(session, monkeypatch):
    """What was trained for one policy is not shown as trained for the next."""

    def run(job, folder):
        job.code = 0

    monkeypatch.setattr("corrdp.studio._jobs.Job.run", run)
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())
    pages = _Pages(confirmed(session), Keys())
    pages._take_run({})
    assert pages._trained()
    session.declare_leakage(dict.fromkeys(session.policy().insensitive, 0.25))
    assert not pages._trained()
    first, again = pages._take_run({}), pages._take_run({})
    assert pages._trained()
    assert first == again


def test_the_same_words_about_another_policy_are_another_job(tmp_path, monkeypatch):
    finishing(monkeypatch)
    jobs, words = Jobs(tmp_path), ("train", "--out", "model")
    first, again = (jobs.start(words, "Train", about="a")[0] for _ in range(2))
    assert first == again
    assert not jobs.finished(words, "b")
    assert jobs.start(words, "Train", about="b")[0] != first


def finishing(monkeypatch):
    """Let commands end well at once, without running anything."""

    def run(job, folder):
        job.code = 0
        saved = folder / job.words[job.words.index("--out") + 1]
        saved.parent.mkdir(exist_ok=True, parents=True)
        saved.write_text(" ".join(job.words))

    monkeypatch.setattr("corrdp.studio._jobs.Job.run", run)
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())


def test_no_result_takes_the_place_of_another(session, tmp_path, monkeypatch):
    """Other sessions' results, a second price and a second model keep their files."""
    finishing(monkeypatch)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "leakage.json").write_text("of yesterday")
    pages = _Pages(confirmed(session), Keys())
    paid = {"source": "paid", "epsilon": "0.3"}
    first = pages._take_leakage(paid | {"again": "1"})
    session.choices.delta = 1e-5  # a second tab has not heard of it
    assert pages._take_leakage(paid) == first
    assert session.choices.leakage_file == "leakage-2.json"
    pages._take_leakage(paid | {"epsilon": "0.5", "again": "1"})
    assert session.choices.leakage_file == "leakage-3.json"
    assert pages._take_leakage(paid) == first
    assert "--delta 5e-07 --out leakage-2.json" in session.commands()
    pages._take_run({})
    session.choices.epsilon = 2.0
    pages._take_run({})
    assert session.train_words()[-1] == "model-2"
    session.choices.epsilon = 1.0
    assert session.train_words()[-1] == "model"
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {
        *("policy.toml", "leakage.json", "leakage-2.json", "leakage-3.json"),
        *("model", "model-2"),
    }
    assert (tmp_path / "out" / "leakage.json").read_text() == "of yesterday"


def test_nothing_is_paid_again_after_a_restart_unasked(session, tmp_path, monkeypatch):
    finishing(monkeypatch)
    paid = {"source": "paid", "epsilon": "0.3"}
    before = _Pages(confirmed(session), Keys())
    before._take_leakage(paid)
    before._take_run({})
    assert session.earlier_models == []
    restarted = Session(session.data, session.folder)
    after = _Pages(confirmed(restarted), Keys())
    with pytest.raises(CorrDPError, match=r"holds leakage\.json already"):
        after._take_leakage(paid)
    assert restarted.choices.leakage == "declared"
    with pytest.raises(CorrDPError, match="holds model already"):
        after._take_run({})
    assert not restarted.jobs._jobs
    for page in (after._page("leakage"), after._page("run")):
        assert b'name="again"' in page.body
    after._take_run({"again": "1"})
    assert restarted.train_words()[-1] == "model-2"
    after._take_run({})  # a second click is of this session
    assert b'name="again"' not in after._page("run").body
    assert len(restarted.jobs._jobs) == 1


@pytest.mark.parametrize("is_paid", [False, True])
def test_what_an_earlier_start_has_paid_for_is_used_again(session, tmp_path, is_paid):
    """A model of the same policy, budget, leakage and kind; no other, and unpaid."""
    policy = confirmed(session).policy()
    frame = pd.read_csv(session.data)
    table = None
    if is_paid:
        table = estimate_leakage(
            frame, policy, source="private", epsilon=0.3, delta=5e-7, random_state=0
        )
    model = LogisticRegression(policy, epsilon=1.0, delta=1e-6, leakage=table)
    model.fit(frame, frame["readmitted"]).save(session.folder / "model")
    session.write_policy()
    restarted = Session(session.data, session.folder)
    pages = _Pages(confirmed(restarted), Keys())
    if table is not None:
        with pytest.raises(CorrDPError, match="another policy, budget, leakage"):
            pages._take_run({"use": "model"})
        (session.folder / "leakage.json").write_text(json.dumps(table.to_dict()))
        assert b"Use leakage.json" in pages._page("leakage").body
        assert pages._take_leakage({"use": "leakage.json"}) == "/budget"
    assert b"Use model" in pages._page("run").body
    for name in ("model-2", "../out/model", ""):
        with pytest.raises(CorrDPError, match="no such model"):
            pages._take_run({"use": name})
    for field, value in (("epsilon", 2.0), ("delta", 1e-5), ("model", "linear")):
        own = getattr(restarted.choices, field)
        setattr(restarted.choices, field, value)
        with pytest.raises(CorrDPError, match="another policy, budget, leakage"):
            pages._take_run({"use": "model"})
        setattr(restarted.choices, field, own)
    assert not restarted.jobs._jobs
    assert pages._take_run({"use": "model"}) == "/run"
    assert pages._trained()
    assert "epsilon" in pages._page("run").body.decode()
    assert pages._take_run({}).startswith("/job/")  # a click on an old page
    assert len(restarted.jobs._jobs) == 1
    assert not restarted.jobs.running
    other = dict.fromkeys(restarted.policy().insensitive, 0.25)
    third = Session(session.data, session.folder)
    again = _Pages(confirmed(third), Keys())
    third.declare_leakage(other)
    with pytest.raises(CorrDPError, match="another policy, budget, leakage"):
        again._take_run({"use": "model"})


def test_a_policy_is_not_changed_under_a_running_command(session, monkeypatch):
    monkeypatch.setattr("corrdp.studio._jobs.Job.run", lambda job, folder: None)
    pages = _Pages(confirmed(session), Keys())
    pages._take_run({})
    session.declare_leakage(dict.fromkeys(session.policy().insensitive, 0.25))
    with pytest.raises(CorrDPError, match="running"):
        pages._take_run({})
    assert (
        Policy.from_file(session.folder / "policy.toml").feature("age").leakage == 0.5
    )


def test_the_plan_of_joined_levels_is_that_of_training():
    generator = np.random.default_rng(0)
    shares = [0.3, 0.3, 0.34, 0.03, 0.02, 0.01]
    table = pd.DataFrame(
        {
            "s": generator.random(20_000) < 0.5,
            "u": generator.choice(list("abcdef"), 20_000, p=shares),
        }
    )
    policy = Policy(
        (
            Feature("s", "sensitive", BooleanDomain()),
            Feature("u", "insensitive", CategoryDomain(tuple("abcdef"))),
        ),
        Label("y", BooleanDomain(), 0.0),
    )
    leakage = estimate_leakage(table, policy, epsilon=0.3, delta=1e-6, random_state=1)
    assert leakage.joined
    budget = Budget(epsilon=1.0, delta=1e-6)
    shown = planned(Asked(policy, 20_000, budget, "logistic", leakage))
    assert shown["whole_record"] > 1.0


def test_a_failed_run_may_be_asked_for_again(tmp_path, monkeypatch):
    codes = iter([3, 0])
    done = threading.Event()

    def run(job, folder):
        job.code = next(codes)
        done.set()

    monkeypatch.setattr("corrdp.studio._jobs.Job.run", run)
    jobs = Jobs(tmp_path)
    _, first = jobs.start(["train", "x"], "Train")
    done.wait()
    _, second = jobs.start(["train", "x"], "Train")
    assert first is not second


def test_commands_to_copy_are_those_that_are_run(session):
    confirmed(session)
    assert session.commands().splitlines()[-1].startswith("corrdp train ")
    assert "--ledger" not in session.commands()
    assert "LogisticRegression" in session.python()


@pytest.mark.parametrize("ledger", [None, "budget.ledger"])
def test_python_to_copy_runs_as_it_stands(session, tmp_path, monkeypatch, ledger):
    path = None if ledger is None else tmp_path / ledger
    own = Session(session.data, session.folder, ledger=path, ledger_epsilon=3.0)
    confirmed(own).write_policy()
    monkeypatch.chdir(own.folder)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(own.python(), {})
    assert "epsilon 1" in printed.getvalue()
    assert path is None or path.exists()


def test_a_budget_has_words_and_a_bad_one_is_refused():
    assert "advantage of any attack at most" in budget_words(1.0, 1e-6)
    with pytest.raises(CorrDPError):
        budget_words(-1.0, 1e-6)


@pytest.mark.parametrize(
    ("n_rows", "epsilon", "words"),
    [
        (100, 50.0, "too few for 25 coefficients"),
        (300, 0.05, "too few for epsilon"),
        (50_000, 0.5, "here"),
    ],
)
def test_the_verdict_is_honest_about_rows(session, n_rows, epsilon, words):
    policy = confirmed(session).policy()
    budget = Budget(epsilon=epsilon, delta=1e-6)
    told = planned(Asked(policy, n_rows, budget, "logistic", None))
    assert words in told["verdict"]
    if n_rows > 1_000:
        assert told["whole_record"] >= epsilon * (1 - 1e-9)


def test_leakage_of_a_public_table_is_read_by_a_command_and_costs_nothing(
    session, tmp_path
):
    hospital_table(300).to_csv(tmp_path / "public.csv", index=False)
    confirmed(session)
    with pytest.raises(CorrDPError, match="no file of that name"):
        session.use_public_table(str(tmp_path / "missing.csv"))
    assert session.choices.leakage == "declared"
    session.use_public_table(f" {tmp_path / 'public.csv'} ")
    words = session.leakage_words()
    assert words[:2] == ["leakage", str(tmp_path / "public.csv")]
    assert words[words.index("--source") + 1] == "public"
    assert not {"--epsilon", "--ledger"} & set(words)
    assert "--leakage public_leakage.json" in session.commands()
    assert "from_file('public_leakage.json')" in session.python()
    session.write_policy()
    _, job = session.jobs.start(words, "read")
    while job.running:
        threading.Event().wait(0.05)
    assert job.succeeded, job.output


@pytest.mark.parametrize("model", ["logistic", "linear"])
def test_a_preview_reads_nothing_but_the_policy(model):
    policy = Policy.from_toml(hospital_policy_text())
    if model == "linear":
        label = Label("bill", NumberDomain(0, 1000), 0.0)
        policy = replace(policy, label=label)
    budget = Budget(epsilon=3.0, delta=1e-6)
    found = previewed(Asked(policy, 2_000, budget, model, None))
    scores = {row["name"]: row["score"] for row in found["rows"]}
    assert set(scores) == {"CorrDP", "ordinary differential privacy", "no protection"}
    assert scores["no protection"] > scores["ordinary differential privacy"] - 0.02
    assert scores["no protection"] > 0.3
    assert found["n_rows"] == 2_000
