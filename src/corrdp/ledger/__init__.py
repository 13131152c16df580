"""The ledger: one budget for every release on the same data."""

from corrdp.ledger._accounts import Account
from corrdp.ledger._balance import Balance, Remaining
from corrdp.ledger._ledger import Ledger, Receipt
from corrdp.ledger._payment import (
    LeakagePayment,
    LedgerChoice,
    Payment,
    charge_certificate,
    check_ledger,
    open_ledger,
    pay_for_leakage,
    refuse_unrecorded,
    require_recorded,
    unpaid_events,
)
from corrdp.ledger._rules import ConcentratedEvent, Rule

__all__ = [
    "Account",
    "Balance",
    "ConcentratedEvent",
    "LeakagePayment",
    "Ledger",
    "LedgerChoice",
    "Payment",
    "Receipt",
    "Remaining",
    "Rule",
    "charge_certificate",
    "check_ledger",
    "open_ledger",
    "pay_for_leakage",
    "refuse_unrecorded",
    "require_recorded",
    "unpaid_events",
]
