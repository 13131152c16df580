"""Privacy accounting: curves, events and composition, from numbers alone."""

__all__: list[str] = []
