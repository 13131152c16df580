"""Every command through its entry point: help, what it does, what it refuses."""

import csv
import gzip
import inspect
import json
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from dataclasses import replace
from importlib.metadata import version

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
import typer

from command_runner import COMMAND, INIT, ROWS, TRAIN, hospital_folder, run
from corrdp.certificate import Certificate
from corrdp.cli._app import app
from corrdp.datasets import hospital_policy_text, hospital_table


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return hospital_folder(tmp_path_factory.mktemp("hospital"))


def commands():
    names = [(command.name,) for command in app.registered_commands]
    for group in app.registered_groups:
        inner = group.typer_instance.registered_commands
        names += [
            (group.name, command.name or command.callback.__name__) for command in inner
        ]
    return names


@pytest.mark.parametrize("name", commands(), ids=" ".join)
def test_every_command_has_help(name):
    result = run(*name, "--help")
    assert result.code == 0
    assert "Usage" in result.stdout


@pytest.mark.parametrize("name", commands(), ids=" ".join)
def test_every_command_has_an_example_that_its_options_allow(name):
    command = typer.main.get_command(app)
    for word in name:
        command = command.commands[word]
    example = inspect.cleandoc(command.help).split("\n\n")[-1]
    shown, *words = shlex.split(example)
    assert (shown, *words[: len(name) + 1]) == ("Example:", "corrdp", *name)
    command.make_context(name[-1], words[len(name) + 1 :])  # raises for unknown words


def test_the_version_is_that_of_the_package():
    result = run("--version")
    assert (result.code, result.stdout) == (0, f"corrdp {version('corrdp')}\n")


def test_help_names_the_exit_codes_and_every_command():
    shown = run("--help").stdout
    assert "Exit codes" in shown
    for name in commands():
        assert name[0] in shown


def test_the_installed_command_is_this_entry_point():
    result = subprocess.run([COMMAND, "--help"], capture_output=True, text=True)
    assert result.returncode == 0
    assert "Correlation-aware" in result.stdout


# --- init, confirm, check


def test_init_marks_what_it_read_and_training_refuses_until_confirmed(folder, tmp_path):
    policy = tmp_path / "draft.toml"
    drafted = run(
        *("init", folder / "data.csv", *INIT, "--label", "public"),
        *("--public", "season", "--out", policy, "--json"),
    )
    assert drafted.code == 0, drafted.stderr
    document = json.loads(drafted.stdout)
    assert document["sensitive"] == ["diagnosis", "income"]
    assert document["public"] == ["season"]
    assert "features.income.bounds" in document["unconfirmed"]
    assert "features.smoker.type" in document["unconfirmed"]
    train = ("train", folder / "data.csv", "--policy", policy, *TRAIN)
    refused = run(*train, "--out", tmp_path / "model")
    assert refused.code == 3
    assert "features.income.bounds" in refused.stderr
    assert not (tmp_path / "model").exists()
    one = run("confirm", policy, "features.income.bounds")
    assert one.code == 0
    assert "features.income.bounds" not in policy.read_text().split("[features", 1)[0]
    income = tomllib.loads(policy.read_text())["features"]["income"]
    assert f"features.income.bounds = {income['bounds']}" in one.stdout
    confirmed = json.loads(run("confirm", policy, "--all", "--json").stdout)
    assert confirmed["unconfirmed"] == []
    assert set(confirmed["values"]) == set(confirmed["confirmed"])
    assert "north" in confirmed["values"]["features.region.categories"]
    assert confirmed["values"]["label.type"] == "boolean"
    again = run(*train, "--out", tmp_path / "model")
    assert again.code == 3
    assert "leakage" in again.stderr  # confirmed, and still no leakage declared
    checked = json.loads(
        run("check", folder / "data.csv", "--policy", policy, "--json").stdout
    )
    assert checked["fits"]
    assert not checked["ready"]


def test_init_needs_a_choice_about_the_label(folder, tmp_path):
    result = run("init", folder / "data.csv", *INIT, "--out", tmp_path / "p.toml")
    assert result.code == 2
    assert "--label" in result.stderr


def test_init_protects_the_label_if_told(folder, tmp_path):
    path = tmp_path / "p.toml"
    run("init", folder / "data.csv", *INIT, "--label", "protected", "--out", path)
    assert "score = 1.0" in path.read_text()


def test_init_never_replaces_a_file(folder, tmp_path):
    (tmp_path / "p.toml").write_text("mine")
    result = run(
        *("init", folder / "data.csv", *INIT, "--label", "public"),
        *("--out", tmp_path / "p.toml"),
    )
    assert result.code == 3
    assert (tmp_path / "p.toml").read_text() == "mine"


def test_confirm_names_what_waits(folder, tmp_path):
    path = tmp_path / "p.toml"
    run("init", folder / "data.csv", *INIT, "--label", "public", "--out", path)
    for arguments in ((), ("features.age.color",)):
        result = run("confirm", path, *arguments)
        assert result.code == 3
        assert "features.age.bounds" in result.stderr


def test_check_names_columns_that_do_not_fit_and_no_value(folder, tmp_path):
    table = hospital_table(50)
    table["region"] = table["region"].replace("north", "atlantis-7731")
    table.drop(columns="sex").to_csv(tmp_path / "other.csv", index=False)
    result = run(
        *("check", tmp_path / "other.csv", "--policy", folder / "policy.toml"), "--json"
    )
    assert result.code == 3
    document = json.loads(result.stdout)
    assert set(document["problems"]) == {"region", "sex"}
    assert "atlantis" not in result.stdout + result.stderr


@pytest.mark.parametrize("form", ["csv.gz", "parquet", "arrow", "sqlite", "duckdb"])
def test_every_format_and_globs_are_read(form, folder, tmp_path):
    table = hospital_table(60)
    path = tmp_path / f"part-1.{form}"
    if form == "csv.gz":
        path.write_bytes(gzip.compress(table.to_csv(index=False).encode()))
    elif form == "parquet":
        table.to_parquet(path)
    elif form == "arrow":
        pyarrow.feather.write_feather(pa.Table.from_pandas(table), path)
    elif form == "sqlite":
        with sqlite3.connect(path) as connection:
            table.to_sql("visits", connection, index=False)
        connection.close()
    else:
        with duckdb.connect(str(path)) as connection:
            connection.register("frame", table)
            connection.execute("create table visits as select * from frame")
    in_database = form in {"sqlite", "duckdb"}
    data = f"{path}::visits" if in_database else str(tmp_path / f"part-*.{form}")
    result = run("check", data, "--policy", folder / "policy.toml", "--json")
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["ready"]


# --- plan, train, predict, report


def test_plans_read_no_data_and_print_json(folder):
    arguments = ("--rows", 20_000, "--epsilon", 0.5, "--delta", 1e-6)
    for model in ("means", "logistic"):
        result = run(
            *("plan", "--policy", folder / "policy.toml", *arguments),
            *("--model", model, "--json"),
        )
        planned = json.loads(result.stdout)
        assert planned["certificate"]["epsilon"] == pytest.approx(0.5)
        assert 0 < planned["variance_ratio"] < 0.5
        assert planned["groups"][0]["noise_scale"] > 0
    text = run("plan", "--policy", folder / "policy.toml", *arguments).stdout
    assert "total variance against ordinary DP" in text


def test_train_leaves_model_certificate_and_report(folder):
    document = json.loads((folder / "train.json").read_text())
    assert document["certificate"]["epsilon"] <= 2
    assert document["seconds"] is None  # it depends on the rows, and is not paid for
    assert "train_score" not in document  # unpaid, so not shown
    names = {path.name for path in (folder / "model").iterdir()}
    assert names == {
        *("model.json", "policy.toml", "certificate.json", "certificate.txt"),
        *("summary.json", "report.html"),
    }


def test_research_shows_a_score_and_says_so(folder, tmp_path):
    result = run(
        *("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN),
        *("--research", "--public-test", folder / "data.csv"),
        *("--out", tmp_path / "model", "--json"),
    )
    document = json.loads(result.stdout)
    assert document["train_score"] == document["public_score"] > 0.6
    assert document["notice"] == "research: not private"
    assert document["seconds"] > 0
    assert "research: not private" in (tmp_path / "model" / "report.html").read_text()


def test_methods_that_protect_nothing_need_research(folder, tmp_path):
    train = ("train", folder / "data.csv", "--policy", folder / "policy.toml", *TRAIN)
    out = ("--method", "nonprivate", "--out", tmp_path / "model")
    assert run(*train, *out).code == 4
    result = run(*train, *out, "--research", "--json")
    assert json.loads(result.stdout)["certificate"] is None
    assert "protects nobody" in (tmp_path / "model" / "report.html").read_text()


def test_a_model_is_never_replaced(folder):
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", *TRAIN, "--out", "model"),
        cwd=folder,
    )
    assert result.code == 3
    assert "already holds a model" in result.stderr


def test_linear_model_of_a_number(folder, tmp_path):
    table = hospital_table(ROWS).drop(columns="readmitted")
    table.to_csv(tmp_path / "data.csv", index=False)
    text = hospital_policy_text().split("[label]")[0]
    stay = text.index("[features.length_of_stay]")
    season = text.index("[features.season]")
    text = text[:stay] + text[season:].rsplit("# Score 0", 1)[0]
    text = text.replace('target = "readmitted"', 'target = "length_of_stay"')
    text += '\n[label]\ntype = "number"\nbounds = [0, 30]\nscore = 0.0\n'
    (tmp_path / "policy.toml").write_text(text)
    result = run(
        *("train", "data.csv", "--policy", "policy.toml", "--model", "linear"),
        *("--epsilon", 5, "--delta", 1e-6, "--out", "model", "--json"),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    result = run("predict", "model", "data.csv", "--out", "p.csv", cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert list(pd.read_csv(tmp_path / "p.csv")) == ["prediction"]


@pytest.mark.torch
def test_networks_are_trained_saved_and_applied(folder, tmp_path):
    hospital_table(300).to_csv(tmp_path / "data.csv", index=False)
    words = ("--policy", folder / "policy.toml", "--epsilon", 20, "--delta", 1e-6)
    result = run(
        *("train", "data.csv", *words, "--model", "mlp", "--out", "model", "--json"),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    assert json.loads(result.stdout)["certificate"]["epsilon"] <= 20
    result = run("predict", "model", "data.csv", "--out", "p.csv", cwd=tmp_path)
    assert result.code == 0, result.stderr
    assert len(pd.read_csv(tmp_path / "p.csv")) == 300


def test_leakage_feeds_plan_and_training(folder, tmp_path):
    policy = folder / "policy.toml"
    result = run(
        *("leakage", folder / "data.csv", "--policy", policy, "--source", "public"),
        *("--out", tmp_path / "leakage.json", "--json"),
    )
    assert result.code == 0, result.stderr
    assert set(json.loads(result.stdout)["features"]["region"]) >= {"estimate", "upper"}
    use = ("--policy", policy, "--leakage", tmp_path / "leakage.json")
    planned = run("plan", *use, "--rows", ROWS, *TRAIN, "--json")
    assert json.loads(planned.stdout)["certificate"]["leakage"]["source"] == "public"
    trained = run(
        *("train", folder / "data.csv", *use, *TRAIN, "--out", tmp_path / "m", "--json")
    )
    assert json.loads(trained.stdout)["certificate"]["leakage"]["source"] == "public"
    text = policy.read_text().replace("leakage = 0.42", "leakage = 0.43")
    (tmp_path / "other.toml").write_text(text)
    refused = run(
        *("plan", "--policy", tmp_path / "other.toml", *use[2:], "--rows", ROWS, *TRAIN)
    )
    assert refused.code == 3
    assert "estimated for policy" in refused.stderr


def test_predictions_are_one_line_per_row(folder, tmp_path):
    unlabeled = hospital_table(30, random_state=5).drop(columns="readmitted")
    unlabeled.to_csv(tmp_path / "new.csv", index=False)
    result = run(
        *("predict", folder / "model", tmp_path / "new.csv"),
        *("--out", tmp_path / "predictions.csv", "--json"),
    )
    assert json.loads(result.stdout)["rows"] == 30
    with (tmp_path / "predictions.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 30
    assert {line["prediction"] for line in lines} <= {"True", "False"}
    chances = [float(line["probability of True"]) for line in lines]
    assert all(0 < chance < 1 for chance in chances)


def test_a_changed_model_is_void(folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "model")
    path = tmp_path / "model" / "model.json"
    changed = path.read_text().replace('"epsilon": 2.0', '"epsilon": 1.0')
    path.write_text(changed)
    result = run(
        *("predict", tmp_path / "model", folder / "data.csv"),
        *("--out", tmp_path / "p.csv"),
    )
    assert result.code == 4
    assert not (tmp_path / "p.csv").exists()


def test_report_is_rendered_again_with_the_ledger(folder, tmp_path):
    for form, name in (("markdown", "r.md"), ("json", "r.json"), ("html", "r.html")):
        result = run(
            *("report", folder / "model", "--ledger", folder / "budget.ledger"),
            *("--format", form, "--out", tmp_path / name, "--json"),
        )
        assert result.code == 0, result.stderr
        assert "logistic model" in (tmp_path / name).read_text()


def test_sweep_compares_methods_and_feeds_the_report(folder, tmp_path):
    words = ("sweep", folder / "data.csv", "--policy", folder / "policy.toml")
    options = ("--epsilons", "0.5,2", "--seeds", 2, "--out", tmp_path / "sweep")
    refused = run(*words, *options)
    assert refused.code == 4
    assert "--research" in refused.stderr
    result = run(*words, *options, "--research", "--json")
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    assert "not private" in document["notice"]
    assert {point["method"] for point in document["points"]} == {
        *("corr", "standard", "semi", "partial", "nonprivate")
    }
    assert (tmp_path / "sweep" / "sweep.csv").read_text().startswith("method,epsilon")
    page = tmp_path / "r.html"
    run("report", folder / "model", "--sweep", tmp_path / "sweep", "--out", page)
    assert "sweep: research: not private" in page.read_text()


# --- certificate, account, query, ledger


def test_certificates_are_shown_and_verified(folder):
    assert "Certified" in run("certificate", "show", folder / "model").stdout
    result = run("certificate", "verify", folder / "model", "--json")
    assert json.loads(result.stdout)["verified"] is True


def test_changed_certificate_is_void(folder, tmp_path):
    shutil.copytree(folder / "model", tmp_path / "model")
    path = tmp_path / "model" / "certificate.json"
    path.write_text(path.read_text().replace('"delta": 1e-06', '"delta": 1e-09', 1))
    result = run("certificate", "verify", tmp_path / "model")
    assert result.code == 4
    assert "digest" in result.stderr


def test_a_certificate_of_another_fit_is_void(folder, tmp_path):
    """Both are whole, and of the same policy."""
    shutil.copytree(folder / "model", tmp_path / "model")
    path = tmp_path / "model" / "certificate.json"
    own = Certificate.from_file(path)
    other = replace(own, assumptions=(*own.assumptions, "of another fit"))
    path.write_text(other.to_json())
    assert run("certificate", "verify", path).code == 0
    result = run("certificate", "verify", tmp_path / "model")
    assert result.code == 4
    assert "certificate.json" in result.stderr


def test_account_prints_one_json_object():
    result = run("account", "gaussian", "--mu", 0.5, "--delta", 1e-6, "--json")
    assert json.loads(result.stdout)["epsilon"] == pytest.approx(2.2540846, rel=1e-6)


def test_account_sampled_matches_the_reference_value():
    options = {"rate": 0.01, "contribution": 1, "change": 0.1, "steps": 1000}
    pairs = [word for name, value in options.items() for word in (f"--{name}", value)]
    result = run("account", "sampled", *pairs, "--delta", 1e-5, "--json")
    epsilon = json.loads(result.stdout)["epsilon"]
    assert 0.33347 <= epsilon <= 0.33347 * 1.003


def test_leakage_training_and_queries_share_one_ledger(folder, tmp_path):
    table = hospital_table(ROWS).assign(remark=7)  # not in the policy
    table.to_csv(tmp_path / "data.csv", index=False)
    use = ("--policy", folder / "policy.toml", "--ledger", "l.db")
    new = ("--ledger-epsilon", 60, "--ledger-delta", 1e-5)
    steps = [
        ("leakage", "data.csv", *use, *new, "--epsilon", 1, "--delta", 1e-7),
        ("train", "data.csv", *use, *TRAIN, "--out", "model"),
        ("query", "data.csv", *use, "--ask", "mean(age)", "--epsilon", 0.5),
    ]
    for words in steps:
        result = run(*words, cwd=tmp_path)
        assert result.code == 0, result.stderr
    shown = json.loads(run("ledger", "show", tmp_path / "l.db", "--json").stdout)
    charges = [entry for entry in shown["entries"] if entry["kind"] == "charge"]
    assert len(charges) == len(steps)
    table.head(ROWS - 1).to_csv(tmp_path / "data.csv", index=False)
    other = ("train", "data.csv", *use, *TRAIN, "--out", "second")
    assert "not that of earlier charges" in run(*other, cwd=tmp_path).stderr
    assert run(*other, "--accept-new-data", cwd=tmp_path).code == 0


def test_query_answers_and_ledger_shows_the_charge(folder):
    shown = json.loads(run("ledger", "show", folder / "budget.ledger", "--json").stdout)
    charges = [entry for entry in shown["entries"] if entry["kind"] == "charge"]
    assert charges[0]["purpose"] == "logistic model, method corr"
    result = run(
        *("query", folder / "data.csv", "--policy", folder / "policy.toml"),
        *("--ask", "mean(age)", "--epsilon", 1, "--json"),
    )
    assert result.code == 0, result.stderr
    json.loads(result.stdout)
