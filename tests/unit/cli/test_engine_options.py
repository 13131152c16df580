"""What commands refuse of engines, before anything is read or started."""

import pytest

from command_runner import run
from corrdp.engines import engine_files, engine_session
from corrdp.exceptions import CorrDPError
from corrdp.tables import FilePiece
from linear_model_examples import example_frame, example_policy

PAID = ("--epsilon", 1, "--delta", 1e-6)


@pytest.fixture
def folder(tmp_path):
    example_policy().to_file(tmp_path / "policy.toml")
    return tmp_path


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ("query", ("--ask", "count()", "--address", "here"), "without --engine"),
        ("query", ("--ask", "count()", "--ledger", "l"), "--ledger needs the rows"),
        ("leakage", ("--ledger", "l"), "--ledger needs the rows in this process"),
        ("train", ("--model", "mlp", "--out", "m"), "--model mlp needs the rows"),
        (
            "train",
            ("--model", "logistic", "--out", "m", "--research"),
            "--research needs",
        ),
        (
            "train",
            ("--model", "logistic", "--out", "m", "--cache-dir", "c"),
            "--cache-dir",
        ),
    ],
)
def test_options_that_need_the_rows_here_are_refused(folder, command, options, told):
    engine = () if "--address" in options else ("--engine", "ray")
    result = run(
        *(command, "table", "--policy", "policy.toml", *PAID, *options, *engine),
        cwd=folder,
    )
    assert result.code != 0
    assert told in " ".join(result.stderr.split())
    assert sorted(p.name for p in folder.iterdir()) == ["policy.toml"]


def test_workers_read_files_alone(tmp_path):
    example_frame(10).to_parquet(tmp_path / "a.parquet")
    table = engine_files("dask", str(tmp_path / "*.parquet"), ["age"])
    assert [FilePiece.from_text(text) for text in table.pieces] == [
        FilePiece(str(tmp_path / "a.parquet"), {})
    ]
    with pytest.raises(CorrDPError, match="read files, a glob or a directory"):
        engine_files("dask", "rows.db::people", ["age"])


def test_an_engine_that_is_not_there_is_named(monkeypatch):
    from corrdp.engines import _ray

    def absent(address):
        raise ImportError("ray")

    def silent(address):
        raise OSError("M4RK3R")

    for start, told in ((absent, "pip install"), (silent, r"at there \(OSError\)")):
        monkeypatch.setattr(_ray, "joined", start)
        with (
            pytest.raises(CorrDPError, match=told) as caught,
            engine_session("ray", "there"),
        ):
            pass
        assert caught.value.__context__ is None
