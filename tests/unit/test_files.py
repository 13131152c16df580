"""Files appear whole, with the permissions that their content asks for."""

import csv
import io
import os
import stat

import pytest

from corrdp._files import csv_text, is_formula, write_text
from corrdp.exceptions import CorrDPError

FORMULAS = ["=HYPERLINK(1)", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1"]
FORMULAS += [" =1", "\n=1", "＝1"]
PLAIN = ["-1", "+1.5", "-.5e-3", "<=50K", "a=b", "", "'", "never", 3, -2.5, None, True]


def mode(path):
    return path.stat().st_mode & 0o777


@pytest.fixture(params=[0o022, 0o027, 0o077, 0o002], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_new_files_follow_the_umask(umask, tmp_path):
    write_text(tmp_path / "a.txt", "text")
    assert mode(tmp_path / "a.txt") == 0o666 & ~umask


def test_private_files_are_for_their_owner_alone(umask, tmp_path):
    path = tmp_path / "a.txt"
    for _ in range(2):
        write_text(path, "text", private=True)
        assert mode(path) == 0o600
        path.chmod(0o644)  # an earlier file that everybody could read


def test_a_replaced_file_keeps_its_permissions(umask, tmp_path):
    path = tmp_path / "a.txt"
    for kept in (0o600, 0o640, 0o664):
        path.touch()
        path.chmod(kept)
        write_text(path, "text")
        assert mode(path) == kept


def test_a_private_file_is_private_before_it_has_content(tmp_path, monkeypatch):
    seen = []
    opened = os.fdopen

    def watched(handle, *arguments, **options):
        seen.append(os.fstat(handle).st_mode & 0o777)
        return opened(handle, *arguments, **options)

    monkeypatch.setattr(os, "fdopen", watched)
    write_text(tmp_path / "a.txt", "text", private=True)
    assert seen == [0o600]


def test_a_file_that_cannot_be_written_leaves_no_trace(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CorrDPError, match="cannot write"):
        write_text(tmp_path / "folder", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("text", FORMULAS)
def test_formulas_are_refused_or_shown_as_text(text):
    with pytest.raises(CorrDPError, match="formula") as refusal:
        csv_text(["a"], [[text]], spreadsheet_safe=False)
    assert text.strip() not in str(refusal.value)
    with pytest.raises(CorrDPError, match="formula"):
        csv_text([text], [], spreadsheet_safe=False)
    written = csv_text([text], [[text]], spreadsheet_safe=True)
    lines = list(csv.reader(io.StringIO(written, newline="")))
    assert lines == [["'" + text], ["'" + text]]


@pytest.mark.parametrize("text", ["a\r=1", "a\n=1", "a\r\n=1", 'a"\r=1'])
def test_no_text_begins_a_line_of_its_own(text):
    written = csv_text(["a", "b"], [[text, 1]], spreadsheet_safe=False)
    lines = list(csv.reader(io.StringIO(written, newline="")))
    assert lines == [["a", "b"], [text, "1"]]


@pytest.mark.parametrize("value", PLAIN)
@pytest.mark.parametrize("spreadsheet_safe", [False, True])
def test_other_values_are_written_as_they_are(value, spreadsheet_safe):
    assert not is_formula(value)
    written = csv_text(["a"], [[value]], spreadsheet_safe=spreadsheet_safe)
    expected = "" if value is None else str(value)
    assert list(csv.DictReader(io.StringIO(written)))[0:1] == [{"a": expected}]


def test_no_device_and_no_pipe_is_replaced(tmp_path):
    """Run by root, ``--out /dev/null`` would take the device from all programs."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    stream = tmp_path / "stdout"
    stream.symlink_to("/proc/self/fd/1")  # as /dev/stdout is
    for path in (pipe, link, stream):
        with pytest.raises(CorrDPError, match="a device or a pipe"):
            write_text(path, "x")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()
    assert stream.is_symlink()
    assert len(list(tmp_path.iterdir())) == 3
