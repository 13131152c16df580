"""Rows where they lie: cut into tiles, asked for sums, never handed on.

| what | module |
|---|---|
| the format: columns of tiles, groups and models as kernels read them | `_tiles` |
| what a step asks, who is asked, how answers become one sum | `_questions` |
| from batches to segments of tiles, in memory or in a mapped file | `_segments` |
| segments that processes of this machine answer for | `_workers` |
| partitions of an engine, each in tiles of its own | `_partitions` |

A question holds public numbers, an answer integers; noise is added to their total by
whoever asked (`docs/theory/scale.md`). Nothing is imported here: kernels read `_tiles`.
"""
