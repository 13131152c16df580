"""Published tables are read byte for byte, or refused."""

import gzip

import numpy as np
import pytest

from corrdp.datasets import load_adult, load_medical_cost, paper_synthetic
from corrdp.exceptions import CorrDPError
from corrdp.policy import PolicyEncoder


def test_a_changed_file_is_refused(tmp_path):
    (tmp_path / "adult.csv.gz").write_bytes(gzip.compress(b"age,income\n1,2\n"))
    with pytest.raises(CorrDPError, match="sha256"):
        load_adult(tmp_path)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(CorrDPError, match="neither adult"):
        load_adult(tmp_path)


def test_unknown_roles_are_refused(tmp_path):
    with pytest.raises(CorrDPError, match="appendix"):
        load_medical_cost(tmp_path, roles="both")


def test_the_synthetic_table_is_replayable_and_bounded():
    table = paper_synthetic(n_rows=300, n_columns=12, n_sensitive=4, random_state=3)
    again = paper_synthetic(n_rows=300, n_columns=12, n_sensitive=4, random_state=3)
    assert table.frame.equals(again.frame)
    assert table.policy.sensitive == ("x0", "x1", "x2", "x3")
    codes = PolicyEncoder(table.policy).transform(table.frame)
    # three standard deviations make half a unit, so one makes a sixth
    assert codes.std(axis=0) == pytest.approx(np.full(12, 1 / 6), rel=0.2)
    assert np.abs(codes.mean(axis=0)).max() < 0.05


def test_all_insensitive_columns_leak_alike():
    leaks = [f.leakage for f in paper_synthetic(n_rows=10).policy.features[10:]]
    assert leaks == pytest.approx([leaks[0]] * 90)
    assert 0.1 < leaks[0] < 0.5


def test_more_sensitive_columns_than_columns_are_refused():
    with pytest.raises(CorrDPError, match="n_sensitive must not exceed"):
        paper_synthetic(n_columns=3, n_sensitive=4)
