"""What a browser sends back: left values stay what they were, edits are taken."""

import pandas as pd
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.studio import Session
from corrdp.studio._app import _Pages
from corrdp.studio._forms import edited, number, shown
from corrdp.studio._security import Keys

N_ROWS = 200


@pytest.fixture
def session(tmp_path):
    half = N_ROWS // 2
    table = pd.DataFrame(
        {
            "blanks": [" x", "y "] * half,
            "dotted.name": ["k", "l"] * half,
            "age": list(range(20, 70)) * (N_ROWS // 50),
            "smoker": [True, False] * half,
            "label": [0, 1] * half,
        }
    )
    table.to_csv(tmp_path / "data.csv", index=False)
    made = Session(str(tmp_path / "data.csv"), tmp_path / "out")
    made.draft(made.choices.roles | {"blanks": "sensitive"}, "label", "public")
    return made


def sent(session, **changed):
    """Return the form of the page of domains as a browser sends it."""
    texts = {
        f"value-{place}": changed.get(field["name"], shown(field["value"]))
        for place, field in enumerate(session.fields())
    }
    return {name: text.replace("\n", "\r\n") for name, text in texts.items()}


def test_what_was_left_as_it_was_is_not_changed_by_line_ends(session):
    before = session.document
    assert _Pages(session, Keys())._take_domains(sent(session) | {"all": "yes"})
    left = dict(before) | {"unconfirmed": []}
    assert session.document == left
    assert session.policy().to_dict()["label"]["categories"] == [0, 1]


def test_an_edit_keeps_the_other_values_and_their_types(session):
    form = sent(session, age="18\n90", label="0\n1\n2", blanks=" x\ny \nz")
    _Pages(session, Keys())._take_domains(form | {"all": "yes"})
    found = {field["name"]: field["value"] for field in session.fields()}
    assert found["age"] == [18.0, 90.0]
    assert found["label"] == [0, 1, 2]
    assert found["blanks"] == [" x", "y ", "z"]


def test_every_waiting_value_can_be_ticked(session):
    ticks = {f"confirm-{place}": "yes" for place, _ in enumerate(session.fields())}
    assert _Pages(session, Keys())._take_domains(sent(session) | ticks) == "/leakage"
    assert session.ready


def test_a_refused_number_is_named_to_people():
    with pytest.raises(CorrDPError, match="leakage of 'age' must be a number"):
        number("leakage-3", {"leakage-3": "much"}, "the leakage of 'age'")
    field = {"key": "bounds", "name": "age", "value": [0, 1]}
    with pytest.raises(CorrDPError, match="bounds of 'age' must be two numbers"):
        edited(field, "low\nhigh")
    kind = {"key": "type", "name": "smoker", "value": ["boolean"]}
    with pytest.raises(CorrDPError, match="type of 'smoker'"):
        edited(kind, "number")
