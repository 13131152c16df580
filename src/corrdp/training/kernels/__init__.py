"""Passes over rows and bounds, in numpy and compiled.

`_plain` and `_compiled` sum the gradients of tiles, `_grids` rounds what `_compiled`
adds up; `training/rows/_questions` takes the compiled one where numba is installed.
`_scalar_bounds` is the compiled twin of `training/sensitivity`. Nothing is imported
here, so that who needs one of them does not wait for numba.
"""
