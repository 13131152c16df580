"""How far one record moves a gradient: `docs/theory/glm_sensitivity.md`, in its order.

| section of the note | module |
|---|---|
| 1, corners of the domain, radius and diameter of a feature | `_corners` |
| 4, which corners of the line become rows | `_corners` |
| 2, how far scores reach, and how far a class moves them | `_scores` |
| 2, which pairs of residuals there are (Lemmas 1 to 5) | `_residuals`, the losses |
| 3 and 4, what rows know before there are parameters | `_table` |
| 3 and 4, how far groups move (Lemmas 6, 7, Theorems 1, 2) | `_movement` |
| 1 and 5, the claim, at parameters and before there are any | `_gradient` |

`influence.md` adds the groups with an influence bound. Nothing is imported here: losses
need `_residuals`, and `_gradient` needs the losses.
"""
