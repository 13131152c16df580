"""Engines: tables that a cluster holds, asked where they are.

Dask, Ray and Spark keep the partitions of a table on their workers. A partition is made
into something that answers questions with integers (`Maker`, `Question`); the driver
adds one answer of each (`HostedParts`), and whatever is private happens there,
afterwards. No row is fetched, and no noise is drawn on a worker
(`docs/theory/scale.md`).
"""

from corrdp.engines._file_parts import EngineFiles, engine_files
from corrdp.engines._kinds import (
    engine_session,
    hosted_parts,
    hosted_sums,
    is_elsewhere,
    is_hosted,
    refuse_hosted,
)
from corrdp.engines._parts import (
    Answer,
    Engine,
    Failed,
    HostedParts,
    Maker,
    Part,
    PlacedQuestion,
    Question,
    Reply,
    answered,
    asked_at,
    made,
    mark_of,
)

__all__ = [
    "Answer",
    "Engine",
    "EngineFiles",
    "Failed",
    "HostedParts",
    "Maker",
    "Part",
    "PlacedQuestion",
    "Question",
    "Reply",
    "answered",
    "asked_at",
    "engine_files",
    "engine_session",
    "hosted_parts",
    "hosted_sums",
    "is_elsewhere",
    "is_hosted",
    "made",
    "mark_of",
    "refuse_hosted",
]
