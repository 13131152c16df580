"""A certificate in the forms that regulators and other accountants read."""

from corrdp.report.exports._dp_events import dp_events
from corrdp.report.exports._nist import nist_statement, nist_text
from corrdp.report.exports._registry import registry_entry, yaml_text

__all__ = ["dp_events", "nist_statement", "nist_text", "registry_entry", "yaml_text"]
