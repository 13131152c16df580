"""Names that rooms share which may not enter each other."""

WHOLE_RECORD = "whole_record"
"""The class of neighbors in which all of a record changes: priced, never promised."""
