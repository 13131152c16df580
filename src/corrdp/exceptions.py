"""Errors and warnings of corrdp.

The tree::

    CorrDPError (ValueError)
    ├── PolicyError            a policy, or a table that does not fit it
    ├── BudgetError            a privacy parameter that is missing or out of range
    ├── MissingBoundError      a bound that would have to be read from private rows
    ├── UnsupportedEventError  an event the accountant does not know
    └── GuaranteeVoidError     going on would release something no proof covers

    CorrDPWarning (UserWarning)
    └── UtilityWarning         the guarantee holds, the result may be of little use

Messages say what was wrong, the value seen and what to do. They never contain a
value read from a data row: columns and counts of declared things only.
"""


class CorrDPError(ValueError):
    """Base of every error that corrdp raises on purpose."""


class PolicyError(CorrDPError):
    """A policy contradicts itself, or a table does not fit the policy."""


class BudgetError(CorrDPError):
    """A privacy parameter is missing or out of range."""


class MissingBoundError(CorrDPError):
    """A bound is needed that would have to be read from private rows."""


class UnsupportedEventError(CorrDPError):
    """The accountant was handed an event that it cannot price."""


class GuaranteeVoidError(CorrDPError):
    """Going on would release something that no proof covers."""


class CorrDPWarning(UserWarning):
    """Base of every warning that corrdp issues."""


class UtilityWarning(CorrDPWarning):
    """The guarantee holds, but the result may be of little use."""
