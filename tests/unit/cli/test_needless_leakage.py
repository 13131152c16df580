"""Ordinary DP has no use for a leakage table, and says so before a row is read."""

import pytest

from corrdp.cli._models import MethodChoice
from corrdp.cli._train import _refuse_needless
from corrdp.datasets import hospital_policy
from corrdp.exceptions import CorrDPError
from corrdp.leakage import declared_table


def test_standard_with_a_leakage_table_is_refused_in_its_own_words():
    table = declared_table(hospital_policy())
    with pytest.raises(CorrDPError, match="no use for a leakage table"):
        _refuse_needless(MethodChoice.STANDARD, table)
    _refuse_needless(MethodChoice.STANDARD, None)
    _refuse_needless(MethodChoice.CORR, table)
