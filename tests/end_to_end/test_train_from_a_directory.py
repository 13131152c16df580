"""``corrdp train table/``: rows are read in batches, workers sum over them."""

import json

from command_runner import run
from corrdp.datasets import hospital_policy_text, hospital_table


def _train(folder, data, out, *options):
    return run(
        *("train", data, "--policy", "policy.toml", "--model", "logistic"),
        *("--epsilon", 2, "--delta", 1e-6, "--seed", 0, "--json", "--out", out),
        *options,
        cwd=folder,
    )


def test_a_directory_gives_the_model_of_the_file_and_the_ledger_knows_it(tmp_path):
    table = hospital_table(600)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    table.to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "table").mkdir()
    table[:250].to_parquet(tmp_path / "table" / "a.parquet")
    table[250:].to_csv(tmp_path / "table" / "b.csv", index=False)
    paying = ("--ledger", "l.db")
    new = ("--ledger-epsilon", 100, "--ledger-delta", 1e-4)
    first = _train(tmp_path, "all.csv", "one", *paying, *new)
    assert first.code == 0, first.stderr
    # The ledger would refuse another table.
    second = _train(tmp_path, "table", "two", *paying, "--cache-dir", "kept")
    assert second.code == 0, second.stderr
    third = _train(tmp_path, "table", "three", "--workers", 2)
    assert third.code == 0, third.stderr
    models = [
        json.loads((tmp_path / name / "model.json").read_text())["content"]
        for name in ("one", "two", "three")
    ]
    assert models[0]["coefficients"] == models[1]["coefficients"]
    assert models[0]["coefficients"] == models[2]["coefficients"]
    assert len(list((tmp_path / "kept").glob("*.tiles"))) == 1
    table[:350].to_csv(tmp_path / "table" / "b.csv", index=False)  # other rows
    refused = _train(tmp_path, "table", "four", *paying)
    assert refused.code != 0
    assert "is not that of earlier charges" in refused.stderr


def test_networks_have_no_workers(tmp_path):
    hospital_table(50).to_csv(tmp_path / "all.csv", index=False)
    (tmp_path / "policy.toml").write_text(hospital_policy_text())
    result = run(
        *("train", "all.csv", "--policy", "policy.toml", "--model", "mlp"),
        *("--epsilon", 2, "--delta", 1e-6, "--workers", 2, "--out", "model"),
        cwd=tmp_path,
    )
    assert result.code != 0
    assert "--workers and --cache-dir" in result.stderr
