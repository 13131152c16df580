"""Exports: each layer answered or left open, a valid entry, events that recompute."""

import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path

import dp_accounting
import pytest
import yaml
from dp_accounting import pld

from command_runner import hospital_folder, run
from corrdp._names import NUMBER_COUNTS
from corrdp.accounting import (
    WHOLE_RECORD,
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
)
from corrdp.certificate import Calibration, Component, LeakageClaim, certify
from corrdp.datasets import hospital_policy
from corrdp.policy import Budget
from corrdp.report.exports import (
    dp_events,
    nist_statement,
    nist_text,
    registry_entry,
    yaml_text,
)
from report_fixtures import planned_certificate

SCHEMA = yaml.safe_load(
    Path(__file__).with_name("registry_schema.yaml").read_text(encoding="utf-8")
)
TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
}
DAY = date(2026, 11, 16)


def problems(value, schema, where="entry"):
    """Return what a value has against a schema; properties that it lacks count."""
    if not isinstance(value, TYPES[schema["type"]]):
        return [f"{where} is no {schema['type']}"]
    found = []
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where} is {value!r}")
    if "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        found.append(f"{where} is {value!r}")
    if isinstance(value, dict):
        known = schema["properties"]
        found += [
            f"{where} lacks {n}" for n in schema.get("required", ()) if n not in value
        ]
        found += [f"{where} has {name}" for name in value if name not in known]
        for name in value.keys() & known.keys():
            found += problems(value[name], known[name], f"{where}.{name}")
    if isinstance(value, list):
        for item in value:
            found += problems(item, schema["items"], f"{where}[]")
    return found


def certificate_of(*events):
    return certify(
        hospital_policy(),
        [Component("release", events={WHOLE_RECORD: events})],
        budget=Budget(epsilon=50.0, delta=1e-6),
        leakage=LeakageClaim.declared(hospital_policy()),
        calibration=Calibration.THEOREM,
    )


def rebuilt(event):
    """Return the event of dp-accounting that an exported one names."""
    arguments = {key: value for key, value in event.items() if key != "type"}
    if "events" in arguments:
        arguments["events"] = [rebuilt(one) for one in arguments["events"]]
    if "event" in arguments:
        arguments["event"] = rebuilt(arguments["event"])
    return getattr(dp_accounting, event["type"])(**arguments)


def recomputed(event, delta, relation="ADD_OR_REMOVE_ONE"):
    relation = dp_accounting.NeighboringRelation[relation]
    accountant = pld.PLDAccountant(relation)
    accountant.compose(rebuilt(event))
    return accountant.get_epsilon(delta)


def test_every_layer_is_answered_or_marked():
    statement = nist_statement(planned_certificate())
    layers = {row["layer"]: row for row in statement["layers"]}
    assert layers["Privacy parameters"]["covered"]
    assert "epsilon 0.5" in layers["Privacy parameters"]["answer"]
    ordinary = layers["Ordinary differential privacy of the same release"]
    assert "epsilon 9.46" in ordinary["answer"]  # 9.4503, rounded up
    for name in ("Data security and access control", "Exposure at collection"):
        assert not layers[name]["covered"]
    text = nist_text(statement)
    assert all(f"## {name}" in text for name in layers)
    assert "one of two equally likely ones with 52.5 %" in text


def test_what_voids_a_layer_is_not_called_covered():
    certificate = replace(
        planned_certificate(), calibration=Calibration.THEOREM, replayable_noise=True
    )
    layers = {row["layer"]: row for row in nist_statement(certificate)["layers"]}
    assert not layers["Algorithms and correctness"]["covered"]
    assert not layers["Randomness and arithmetic"]["covered"]


def test_bounds_that_were_released_are_not_called_declared():
    """Logistic models find narrower bounds by default, with a part of the budget."""
    declared = planned_certificate()
    first, *others = declared.components
    found = replace(declared, components=(replace(first, name=NUMBER_COUNTS), *others))
    answers = [
        next(
            row["answer"]
            for row in nist_statement(certificate)["layers"]
            if row["layer"] == "Bounds and pre-processing"
        )
        for certificate in (declared, found)
    ]
    assert "not read off the rows" in answers[0]
    assert "not read off the rows" not in answers[1]
    assert f"({NUMBER_COUNTS}) found with noise and paid for" in answers[1]
    told = [
        str(registry_entry(certificate, title="x", created=DAY))
        for certificate in (declared, found)
    ]
    assert ["counts with noise" in text for text in told] == [False, True]


def test_the_entry_is_valid_against_the_schema_of_the_registry():
    entry = registry_entry(
        planned_certificate(), title="Readmission: 30 days", created=DAY
    )
    read = yaml.safe_load(yaml_text(entry))
    assert read == entry
    assert problems(read, SCHEMA) == []
    assert read["url_slug"] == "readmission-30-days-2026"
    parameters = read["deployment"]["privacy_loss"]["privacy_parameters"]
    whole = planned_certificate().classes[WHOLE_RECORD].epsilon
    assert parameters == {"epsilon": whole, "delta": 1e-6}
    assert (
        "sensitive: epsilon 0.5, promised"
        in (read["deployment"]["privacy_loss"]["privacy_parameters_description"])
    )


def test_a_hostile_title_stays_one_text():
    title = 'a: "b"\n- c #d\u2028{e}'
    entry = registry_entry(planned_certificate(), title=title, created=DAY)
    assert yaml.safe_load(yaml_text(entry))["deployment"]["product"]["name"] == title


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tier",), 4),
        (("status",), None),
        (("deployment", "model", "access_type"), "x"),
    ],
)
def test_the_check_of_the_schema_finds_a_planted_mistake(path, value):
    entry = registry_entry(planned_certificate(), title="x", created=DAY)
    place = entry
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert problems(entry, SCHEMA)
    del place[path[-1]]
    assert problems(entry, SCHEMA)


def test_outsiders_recompute_every_class_from_the_events():
    document = dp_events(planned_certificate())
    assert set(document["classes"]) == set(planned_certificate().classes)
    for row in document["classes"].values():
        again = recomputed(
            row["event"], document["delta"], document["neighboring_relation"]
        )
        assert again == pytest.approx(row["epsilon"], rel=5e-3)


def test_laplace_and_gaussian_compose_alike_outside():
    certificate = certificate_of(LaplaceEvent(0.3, 5), GaussianEvent(0.4, 2))
    row = dp_events(certificate)["classes"]["sensitive"]
    assert recomputed(row["event"], 1e-6) == pytest.approx(row["epsilon"], rel=5e-3)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (SampledGaussianEvent(0.1, 0.5, 0.2, 30), "corrdp account sampled --rate 0.1"),
        (ApproximateEvent(0.5, 1e-8, 2), "epsilon 0.5 and delta 1e-08"),
    ],
)
def test_what_has_no_event_outside_says_how_to_price_it(event, words):
    row = dp_events(certificate_of(event))["classes"]["sensitive"]
    assert row["event"]["events"][0]["type"] == "UnsupportedDpEvent"
    assert words in row["event"]["events"][0]["recompute"]


def test_a_class_that_does_not_move_is_no_event_outside():
    silent = dp_events(certificate_of(GaussianEvent(0.0)))["classes"]["sensitive"]
    assert silent["event"]["events"] == [{"type": "NoOpDpEvent"}]


def test_the_command_writes_every_format(tmp_path):
    folder = hospital_folder(tmp_path)
    nist = run("certificate", "export", "model", "--format", "nist", cwd=folder)
    assert nist.code == 0, nist.stderr
    assert "## Unit of privacy" in nist.stdout
    registry = run("certificate", "export", "model", "--format", "registry", cwd=folder)
    assert problems(yaml.safe_load(registry.stdout), SCHEMA) == []
    saved = run(
        *("certificate", "export", "model", "--format", "dp-event"),
        *("--out", "events.json"),
        cwd=folder,
    )
    assert saved.code == 0, saved.stderr
    events = json.loads((folder / "events.json").read_text())
    assert events["schema"] == "corrdp.dp-event/1"
    again = run(
        *("certificate", "export", "model", "--format", "nist", "--out", "events.json"),
        cwd=folder,
    )
    assert again.code == 3
    assert "exists" in again.stderr
