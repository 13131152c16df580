"""Damaged files are refused in words, never by a stray error of the decoder."""

import copy
import json
import random
import shutil

import pandas as pd
import pytest

from corrdp._json import Infinite, check_shape, digest, parse_json
from corrdp.certificate import Certificate
from corrdp.cli._models import describe, load_estimator, read_leakage
from corrdp.estimators import LogisticRegression, sweep
from corrdp.exceptions import CorrDPError
from corrdp.leakage import LeakageTable, estimate_leakage
from corrdp.ledger import Ledger
from corrdp.policy import Budget, Policy
from corrdp.report import render_html, render_markdown, with_audit, with_sweep

POLICY = """
target = "ill"

[features.age]
role = "sensitive"
type = "number"
bounds = [0, 100]
bins = 2

[features.race]
role = "insensitive"
type = "category"
categories = ["a", "b"]
leakage = 0.2

[label]
type = "boolean"
score = 0.0
"""
TABLE = pd.DataFrame(
    {"age": [30.0, 60.0] * 40, "race": ["a", "b"] * 40, "ill": [True, False] * 40}
)
DEEP = json.loads("[" * 300 + "]" * 300)
WRONG = (None, True, -1, 10**400, "text", [], {}, [[]], {"a": None}, DEEP)


@pytest.fixture(scope="module")
def policy():
    return Policy.from_toml(POLICY)


@pytest.fixture(scope="module")
def leakage(policy):
    options = {"source": "private", "epsilon": 1.0, "delta": 1e-4}
    return estimate_leakage(TABLE, policy, random_state=0, **options)


@pytest.fixture(scope="module")
def folder(policy, leakage, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    model = LogisticRegression(
        policy, epsilon=4.0, delta=1e-4, leakage=leakage, random_state=0
    )
    model.fit(TABLE, TABLE["ill"]).save(folder)
    return folder


def places(document, path=()):
    """Yield the way to every value of a document, lists by first and last entry."""
    if isinstance(document, dict):
        steps = list(document)
    elif isinstance(document, list):
        steps = sorted({0, len(document) - 1}) if document else []
    else:
        return
    for step in steps:
        yield (*path, step)
        yield from places(document[step], (*path, step))


def damaged(document):
    """Yield copies with one entry removed, or replaced by something else."""
    for *way, last in places(document):
        for wrong in ("removed", *WRONG):
            changed = copy.deepcopy(document)
            owner = changed
            for step in way:
                owner = owner[step]
            if wrong == "removed":
                del owner[last]
            else:
                owner[last] = wrong
            yield (*way, last), wrong, changed


def sealed(document):
    """Return a document with the digest of what is in it: damage with intent."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return rest | {"digest": digest(rest)} if "digest" in document else document


def outcomes(document, use):
    """Use every damaged copy; return how many were refused and how many passed."""
    refused = passed = 0
    stray = []
    for place, wrong, changed in damaged(document):
        try:
            use(sealed(changed))
        except CorrDPError:
            refused += 1
        except Exception as error:
            shown = f"{place} <- {repr(wrong)[:20]}"
            stray.append(f"{shown}: {type(error).__name__}: {str(error)[:60]}")
        else:
            passed += 1
    assert not stray, "\n".join(stray[:40])
    return refused, passed


def use_certificate(document):
    certificate = Certificate.from_dict(document)
    certificate.to_text()
    certificate.to_json()
    certificate.verify()


def use_leakage(document):
    table = LeakageTable.from_dict(document)
    table.to_text()
    table.to_dict()
    table.distances()
    table.claim()


def test_damaged_certificates(folder):
    document = json.loads((folder / "certificate.json").read_text())
    use_certificate(document)
    refused, passed = outcomes(document, use_certificate)
    assert refused > 5 * passed


def test_damaged_leakage_tables(leakage):
    document = json.loads(json.dumps(leakage.to_dict()))
    use_leakage(document)
    refused, passed = outcomes(document, use_leakage)
    assert refused > 2 * passed  # what nothing reads (notice, spent) may be damaged


def test_damaged_models(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.json"

    def use(document):
        path.write_text(json.dumps(document))
        load_estimator(tmp_path).predict(TABLE)

    document = json.loads(path.read_text())
    use(document)
    refused, passed = outcomes(document, use)
    assert refused > passed > 0  # parameters that prediction does not need may differ


def test_damaged_policies():
    document = Policy.from_toml(POLICY).to_dict()
    refused, passed = outcomes(document, Policy.from_dict)
    assert refused > 5 * passed


@pytest.mark.parametrize("name", ["model.json", "certificate.json", "policy.toml"])
def test_cut_files(name, folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    whole = (tmp_path / name).read_bytes()
    cuts = sorted({*range(0, len(whole) - 2, max(1, len(whole) // 60))})
    for cut in cuts:
        (tmp_path / name).write_bytes(whole[:cut])
        with pytest.raises(CorrDPError):
            load_estimator(tmp_path)


NOT_DOCUMENTS = {
    "empty": b"",
    "nothing": b"null",
    "a number": b"3",
    "a list": b"[]",
    "an object": b"{}",
    "endless": b"[" * 100_000,
    "deep": b'{"schema":' * 5_000,
    "digits": b'{"schema": ' + b"9" * 10_000 + b"}",
    "not a number": b'{"schema": NaN}',
    "latin": '{"schema": "é"}'.encode("latin1"),
    "zeros": bytes(64),
}


@pytest.mark.parametrize("content", NOT_DOCUMENTS.values(), ids=NOT_DOCUMENTS)
def test_files_of_another_kind(content, policy, folder, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    readers = [Certificate.from_file, Policy.from_file, Ledger.open]
    for read in (*readers, lambda path: read_leakage(path, policy)):
        with pytest.raises(CorrDPError):
            read(path)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(CorrDPError):
        load_estimator(tmp_path)


def test_damaged_ledgers(policy, tmp_path):
    path = tmp_path / "l.db"
    ledger = Ledger.create(path, policy, budget=Budget(epsilon=9.0, delta=1e-4))
    options = {"source": "private", "epsilon": 1.0, "delta": 1e-5}
    estimate_leakage(
        TABLE,
        policy,
        charge=lambda plan: ledger.charge(
            {name: (plan.event(name),) for name in plan.table.class_names},
            policy=policy,
            purpose="leakage",
            fingerprint=ledger.fingerprint(TABLE),
        ),
        **options,
    )
    whole = path.read_bytes()
    draws = random.Random(0)
    refused = 0
    for _ in range(150):
        changed = bytearray(whole)
        for _ in range(draws.randrange(1, 4)):
            changed[draws.randrange(len(whole))] = draws.randrange(256)
        cut = draws.choice([len(whole), draws.randrange(len(whole))])
        path.write_bytes(changed[:cut])
        try:
            Ledger.open(path).to_text()
        except CorrDPError:
            refused += 1
    assert refused > 50  # a byte of unused space may change unnoticed


# --- what reports are made of


@pytest.fixture(scope="module")
def summary(policy):
    model = LogisticRegression(policy, epsilon=4.0, delta=1e-4, random_state=0)
    fitted = model.fit(TABLE, TABLE["ill"])
    document = describe(fitted, title="t", n_rows=80, leakage=None, measured=[])
    return json.loads(json.dumps(document))


def test_damaged_summaries(summary):
    assert render_markdown(summary)
    refused, _ = outcomes(summary, render_markdown)
    assert refused > len(summary)


def test_damaged_sweeps(summary):
    point = {"method": "corr", "epsilon": 1.0, "mean": 0.5, "low": 0.4, "high": 0.6}
    points = [point | {"n_models": 2}]
    document = {"notice": "research", "metric": "accuracy", "points": points}

    def use(sweep):
        render_markdown(with_sweep(summary, sweep))

    use(document)
    refused, _ = outcomes(document, use)
    assert refused > 20


def test_damaged_audits(summary):
    result = {
        "class": "sensitive",
        "target": "training",
        "certified_epsilon": 4.0,
        "audited_epsilon": 1.0,
        "delta": 1e-4,
        "verdict": "consistent",
        "tightness": 0.25,
        "n_runs": 100,
    }
    document = {
        "schema": "corrdp.audit/1",
        "certificate_digest": summary["certificate_digest"],
        "results": [result],
        "passed": True,
        "confidence": 0.99,
        "cut": [],
    }

    def use(audit):
        render_markdown(with_audit(summary, audit))

    use(document)
    refused, _ = outcomes(document, use)
    assert refused > 20


def test_damaged_pages(summary):
    """Rendering takes long, so that only whole sections are taken away."""
    assert "<html" in render_html(summary)
    for name in summary:
        rest = {key: value for key, value in summary.items() if key != name}
        try:
            render_html(rest)
        except CorrDPError as error:
            assert "damaged" in str(error)  # noqa: PT017


@pytest.mark.parametrize("damage", ["[]", "{}\n[]", "\0"])  # not a line cut off
def test_damaged_checkpoints_of_sweeps(damage, policy, tmp_path):
    path = tmp_path / "checkpoint.jsonl"
    options = {"policy": policy, "methods": ["corr"], "epsilons": [4.0], "delta": 1e-4}
    options |= {"seeds": 2, "research": True, "checkpoint": path}
    sweep(TABLE, TABLE["ill"], **options)
    assert path.stat().st_mode & 0o777 == 0o600  # exact scores are in it
    path.write_text(damage)
    with pytest.raises(CorrDPError, match="checkpoint"):
        sweep(TABLE, TABLE["ill"], **options)
    assert path.read_text() == damage


# --- the tools themselves


def test_shapes_name_what_is_wrong():
    shape = {"a": [int], "b": {...: (float, None)}, "c": Infinite, "d": frozenset("xy")}
    good = {"a": [1], "b": {"k": 1, "l": None}, "c": "inf", "d": "x", "more": 0}
    check_shape(good, shape, "thing")
    for name, wrong, place in [
        ("a", 1, "thing.a"),
        ("a", [True], r"thing.a\[0\]"),
        ("a", [1.5], r"thing.a\[0\]"),
        ("b", {"k": "1"}, "thing.b.k"),
        ("b", {"k": 10**400}, "thing.b.k"),
        ("c", "infinite", "thing.c"),
        ("d", "z", "thing.d"),
        ("d", ["x"], "thing.d"),
    ]:
        with pytest.raises(CorrDPError, match=f"the {place} is damaged"):
            check_shape(good | {name: wrong}, shape, "thing")
    del good["a"]
    with pytest.raises(CorrDPError, match="has no 'a'"):
        check_shape(good, shape, "thing")


def test_parsing_tells_where():
    with pytest.raises(CorrDPError, match=r"sweep is not JSON \(line 2, column 1\)"):
        parse_json("{\n", "sweep")
