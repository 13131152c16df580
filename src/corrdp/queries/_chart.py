"""Pictures of answers as SVG, drawn from released numbers and radii alone."""

import html
import math
from collections.abc import Sequence

_LEFT, _WIDTH, _ROW, _CELL = 190, 420, 22, 46
_BLUE = (47, 127, 193)
MOST_CELLS = 400


def chart_svg(
    title: str,
    keys: Sequence[str],
    cells: Sequence[tuple[str, ...]],
    values: Sequence[float],
    radii: Sequence[float],
) -> str:
    """Return bars with error bars, or a heat map if two columns name the cells.

    A picture of one number, or of more cells than can be told apart, is empty.
    """
    if not keys or not 2 <= len(cells) <= MOST_CELLS:
        return ""
    if len(keys) == 2:
        return _heat_map(title, cells, values, radii)
    return _bars(title, cells, values, radii)


def _bars(
    title: str,
    cells: Sequence[tuple[str, ...]],
    values: Sequence[float],
    radii: Sequence[float],
) -> str:
    reach = [radius if math.isfinite(radius) else 0.0 for radius in radii]
    low = min(0.0, *(v - r for v, r in zip(values, reach, strict=True)))
    high = max(0.0, *(v + r for v, r in zip(values, reach, strict=True)))
    scale = _WIDTH / ((high - low) or 1.0)

    def across(value: float) -> float:
        return _LEFT + (value - low) * scale

    parts = []
    for number, (cell, value, radius) in enumerate(
        zip(cells, values, reach, strict=True)
    ):
        top = number * _ROW + 3
        middle = top + (_ROW - 6) / 2
        start, end = sorted((across(0.0), across(value)))
        parts.append(_label(" / ".join(cell), _LEFT - 6, middle, "end"))
        parts.append(
            f'<rect x="{start:.1f}" y="{top}" width="{end - start:.1f}" '
            f'height="{_ROW - 6}" fill="rgb{_BLUE}" opacity="0.75"/>'
        )
        left, right = across(value - radius), across(value + radius)
        parts.append(
            f'<path d="M{left:.1f} {middle}H{right:.1f}M{left:.1f} {middle - 4}v8'
            f'M{right:.1f} {middle - 4}v8" stroke="currentColor" fill="none"/>'
        )
        parts.append(_label(f"{value:.4g}", _LEFT + _WIDTH + 8, middle, "start"))
    return _svg(title, _LEFT + _WIDTH + 90, len(cells) * _ROW + 4, parts)


def _heat_map(
    title: str,
    cells: Sequence[tuple[str, ...]],
    values: Sequence[float],
    radii: Sequence[float],
) -> str:
    rows = list(dict.fromkeys(cell[0] for cell in cells))
    columns = list(dict.fromkeys(cell[1] for cell in cells))
    low, high = min(values), max(values)
    parts = [
        _label(name, _LEFT + (place + 0.5) * 2 * _CELL, 10, "middle")
        for place, name in enumerate(columns)
    ]
    for place, name in enumerate(rows):
        parts.append(_label(name, _LEFT - 6, 20 + (place + 0.5) * _CELL, "end"))
    for cell, value, radius in zip(cells, values, radii, strict=True):
        x = _LEFT + columns.index(cell[1]) * 2 * _CELL
        y = 20 + rows.index(cell[0]) * _CELL
        share = (value - low) / (high - low) if high > low else 0.5
        parts.append(
            f'<rect x="{x}" y="{y}" width="{2 * _CELL - 2}" height="{_CELL - 2}" '
            f'fill="rgb{_BLUE}" opacity="{0.08 + 0.72 * share:.2f}"/>'
        )
        parts.append(_label(f"{value:.4g}", x + _CELL, y + 0.38 * _CELL, "middle"))
        parts.append(_label(f"± {radius:.3g}", x + _CELL, y + 0.74 * _CELL, "middle"))
    width = _LEFT + len(columns) * 2 * _CELL + 8
    return _svg(title, width, 24 + len(rows) * _CELL, parts)


def _label(text: str, x: float, y: float, anchor: str) -> str:
    short = text if len(text) <= 28 else text[:27] + "…"
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" '
        f'dominant-baseline="middle" fill="currentColor">{html.escape(short)}</text>'
    )


def _svg(title: str, width: float, height: float, parts: list[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" width="{width:.0f}" role="img" font-size="12" '
        f'font-family="system-ui, sans-serif"><title>{html.escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )
