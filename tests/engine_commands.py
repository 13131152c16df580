"""The commands that give files to an engine, against the same in one process."""

import json
from dataclasses import replace
from functools import partial

from command_runner import run
from corrdp.cli import _models
from corrdp.policy import NumberDomain
from corrdp.tables import _pieces
from engine_examples import MARKER
from linear_model_examples import example_frame, example_policy

STEPS = 3
PAID = ("--epsilon", 1, "--delta", 1e-6, "--seed", 0, "--json")


def written_table(directory):
    """Write rows to files, in which a cell is not what engines guess it is.

    One is cut into pieces, and of some rows a column is in the name of their folder.
    """
    frame = example_frame(300)
    age, sex, city = example_policy().features
    # Codes with leading zeros, an empty cell, and a file without rows.
    codes = {"x": "01", "y": "1", "z": ""}
    city = replace(city, domain=replace(city.domain, categories=tuple(codes.values())))
    age = replace(age, domain=NumberDomain(0, 100, bins=4))
    policy = replace(example_policy(), features=(age, sex, city))
    policy.to_file(directory / "policy.toml")
    frame = frame.assign(city=frame.city.map(codes))
    table = directory / "table"
    table.mkdir()
    frame[:100].to_csv(table / "a.csv", index=False)
    frame[100:250].to_parquet(table / "b.parquet", row_group_size=40)
    for sex, rows in frame[250:].groupby("sex"):
        (table / f"sex={sex}").mkdir()
        rows.drop(columns="sex").to_parquet(table / f"sex={sex}" / "d.parquet")
    frame[:0].to_parquet(table / "c.parquet")
    return frame


def commands_agree(directory, monkeypatch, engine, commands=3):
    """Assert that an engine changes nothing of what commands write and print."""
    found = _models.estimator_class
    monkeypatch.setattr(
        _models, "estimator_class", lambda *a: partial(found(*a), n_steps=STEPS)
    )
    monkeypatch.setattr(_pieces, "PIECE_BYTES", 1500)
    written_table(directory)
    ask = ("--ask", "count() by city", "--ask", "mean(age)")
    printed = []
    for options in ((), ("--engine", engine)):
        place = directory / (engine if options else "here")
        common = (directory / "table", "--policy", directory / "policy.toml", *options)
        shown = []
        for command in (
            ("train", *common, "--model", "logistic", "--out", place, *PAID),
            ("query", *common, *ask, *PAID),
            ("leakage", *common, *PAID),
        )[:commands]:
            result = run(*command)
            assert result.code == 0, result.stderr
            shown.append(json.loads(result.stdout) | {"out": None})
        printed.append([shown, (place / "model.json").read_text()])
    assert printed[0] == printed[1]


def refused_cell(directory, engine):
    """Return what a command says of a cell that the policy does not declare."""
    frame = written_table(directory)
    frame.loc[40, "sex"] = MARKER
    frame[:100].to_csv(directory / "table" / "a.csv", index=False)
    return run(
        *("query", directory / "table", "--policy", directory / "policy.toml"),
        *("--ask", "count() by sex", "--engine", engine, *PAID),
    )
