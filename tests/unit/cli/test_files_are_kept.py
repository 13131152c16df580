"""What costs nothing replaces no ledger, no policy and nothing that was paid for."""

import shutil

import pytest

from command_runner import hospital_folder, run

POLICY = ("--policy", "policy.toml")
FREE = {
    "predict": ("predict", "model", "data.csv"),
    "report": ("report", "model"),
    "report as JSON": ("report", "model", "--format", "json"),
    "audit": ("audit", "policy.toml", "--epsilon", 1, "--delta", 1e-6),
    "leakage": ("leakage", "data.csv", *POLICY, "--source", "public"),
}
KEPT = ("budget.ledger", "policy.toml", "model/certificate.json", "bought.json")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    hospital_folder(folder)
    bought = ("--epsilon", 1, "--delta", 1e-6, "--out", "bought.json")
    result = run("leakage", "data.csv", *POLICY, *bought, cwd=folder)
    assert result.code == 0, result.stderr
    return folder


@pytest.mark.parametrize("kept", KEPT)
@pytest.mark.parametrize("command", FREE)
def test_no_file_of_another_kind_is_replaced(command, kept, trained):
    before = (trained / kept).read_bytes()
    result = run(*FREE[command], "--out", kept, cwd=trained)
    assert (trained / kept).read_bytes() == before
    assert result.code == 3
    assert "Choose" in result.stderr


@pytest.mark.parametrize(
    ("command", "name"),
    [("predict", "p.csv"), ("report", "r.html"), ("report as JSON", "r.json")],
)
def test_a_file_of_the_same_kind_is_replaced(command, name, trained, tmp_path):
    shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    for _ in range(2):
        result = run(*FREE[command], "--out", name, cwd=tmp_path)
        assert result.code == 0, result.stderr
    (tmp_path / "r.json").write_text("not JSON")
    refused = run(*FREE["report as JSON"], "--out", "r.json", cwd=tmp_path)
    assert refused.code == 3
