"""JSON lines: every line speaks for itself."""

import json

import pytest

from corrdp.exceptions import CorrDPError
from corrdp.tables._files import iter_batches, read_table


def written(folder, *lines):
    (folder / "t.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "t.jsonl"


def test_a_name_that_a_line_leaves_out_is_a_missing_value(tmp_path):
    path = written(tmp_path, '{"a": 1}', "", '{"b": "x", "a": 2.5}', '{"a": null}')
    table = read_table(path, number_columns=["a"])
    assert table.to_pydict() == {"a": [1.0, 2.5, None], "b": [None, "x", None]}
    chosen = read_table(path, ["b", "a"], number_columns=[])
    assert chosen.to_pydict() == {"b": [None, "x", None], "a": ["1", "2.5", None]}


@pytest.mark.parametrize("odd", ["2020-01-01", 1, 1.5, True, None, [1], {"c": 2}])
def test_one_line_does_not_change_how_others_are_read(tmp_path, odd):
    """Arrow's reader would take times for times only if all cells were."""
    lines = ['{"a": "2021-05-06"}', '{"a": "7"}', '{"a": 7}', json.dumps({"a": odd})]
    read = read_table(written(tmp_path, *lines), number_columns=[])
    assert read["a"].to_pylist()[:3] == ["2021-05-06", "7", "7"]


def test_whether_another_line_has_a_name_does_not_matter(tmp_path):
    """An abort where no line has it would tell whether one record does."""
    for last, cell in (('{"c": 2}', "2"), ('{"b": 2}', None)):
        path = written(tmp_path, '{"a": 1}', last)
        read = read_table(path, ["a", "c"], number_columns=[])
        assert read.to_pydict() == {"a": ["1", None], "c": [None, cell]}


def test_a_text_that_is_no_unicode_is_a_cell_like_others(tmp_path):
    path = written(tmp_path, '{"a": "x"}', '{"a": "\\ud800"}', '{"a": null}')
    read = read_table(path, ["a"], number_columns=[])["a"].to_pylist()
    assert read[0] == "x"
    assert set(read[1]) == {"\ufffd"}
    assert read[2] is None


def test_a_number_of_more_digits_than_python_reads_ends_nothing(tmp_path):
    long = "9" * 5000
    path = written(tmp_path, '{"a": 1}', f'{{"a": {long}}}', f'{{"a": -{long}}}')
    numbers = read_table(path, ["a"], number_columns=["a"])["a"].to_pylist()
    assert numbers == [1.0, float("inf"), -float("inf")]
    assert read_table(path, ["a"], number_columns=[])["a"].to_pylist()[0] == "1"


def test_a_line_that_nests_deeper_than_python_reads_ends_nothing(tmp_path):
    deep = "[" * 200_000 + "]" * 200_000
    path = written(tmp_path, '{"a": 1}', f'{{"a": {deep}}}', '{"a": 3}')
    numbers = read_table(path, ["a"], number_columns=["a"])["a"].to_pylist()
    assert numbers == [1.0, None, 3.0]


@pytest.mark.parametrize("line", ['{"a": secret}', '["secret"]', "17"])
def test_what_is_no_object_is_refused_without_a_word_of_it(tmp_path, line):
    path = written(tmp_path, '{"a": 1}', line)
    with pytest.raises(CorrDPError, match="One JSON object per line") as caught:
        list(iter_batches(path, number_columns=[]))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
