"""Options that list names: quotes keep the commas and blanks of a name."""

import pandas as pd
import pytest

from command_runner import run
from corrdp.cli._options import names
from corrdp.policy import Policy


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, []),
        ("", []),
        (" , ", []),
        ("a,b", ["a", "b"]),
        (" a , b c ,", ["a", "b c"]),
        ('"a,b",c', ["a,b", "c"]),
        ('c, "a,b"', ["c", "a,b"]),
        ('he said "x",it\'s', ['he said "x"', "it's"]),
        ('"""x"" said",c', ['"x" said', "c"]),
        ("a\nb,c", ["a b", "c"]),
        ('"open,c', ["open,c"]),
        ('" a",b', [" a", "b"]),
        ('c ,"a " , "two\nlines"', ["c", "a ", "two\nlines"]),
        ('"x" said,c', ['"x" said', "c"]),
        ('"",a', ["a"]),
    ],
)
def test_names_are_parted_by_commas_outside_quotes(text, found):
    assert names(text) == found


def test_a_column_with_a_comma_can_be_sensitive(tmp_path):
    frame = pd.DataFrame({"a,b": ["x", "y"] * 30, "c": range(60), "ill": [0, 1] * 30})
    frame.to_csv(tmp_path / "data.csv", index=False)
    common = ("init", "data.csv", "--target", "ill", "--label", "public")
    refused = run(*common, "--sensitive", "a,b", cwd=tmp_path)
    assert refused.code == 3
    assert "in quotes: '\"a,b\",c'" in refused.stderr
    quoted = run(*common, "--sensitive", '"a,b"', "--out", "p.toml", cwd=tmp_path)
    assert quoted.code == 0, quoted.stderr
    assert Policy.from_file(tmp_path / "p.toml").sensitive == ("a,b",)


def test_a_column_with_blanks_around_its_name_can_be_sensitive(tmp_path):
    frame = pd.DataFrame({" a": ["x", "y"] * 30, "c": range(60), "ill": [0, 1] * 30})
    frame.to_csv(tmp_path / "data.csv", index=False)
    common = ("init", "data.csv", "--target", "ill", "--label", "public")
    refused = run(*common, "--sensitive", " a", cwd=tmp_path)
    assert refused.code == 3
    assert "blanks around it, in quotes" in refused.stderr
    quoted = run(*common, "--sensitive", '" a"', "--out", "p.toml", cwd=tmp_path)
    assert quoted.code == 0, quoted.stderr
    assert Policy.from_file(tmp_path / "p.toml").sensitive == (" a",)
