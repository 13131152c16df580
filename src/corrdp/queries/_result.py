"""Answers and what came with them: radii, certificate, payment, table, picture."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from corrdp._typing import JSONObject
from corrdp.certificate import Certificate
from corrdp.ledger import Receipt
from corrdp.queries._plan import QueryPlan
from corrdp.queries._query import Cell
from corrdp.queries._question_text import quoted

SAMPLING_NOTE = (
    "radius: noise alone; sampling_radius: 95 percent, if rows are independent draws "
    "from a population, from released numbers and declared bounds"
)

_STYLE = (
    ":root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:2rem}"
    "td,th{padding:.2rem .8rem;text-align:right}svg{max-width:100%}"
)
_LEFT, _WIDTH, _ROW, _CELL = 190, 420, 22, 46
_BLUE = (47, 127, 193)
MOST_CELLS = 400
_T = TypeVar("_T")


@dataclass(frozen=True)
class Answer:
    """One answer, or one per cell, with how far off it may be.

    Parameters
    ----------
    ask : str
        The question.
    cells : tuple of tuple of str
        Groups that name each cell; one empty cell for a single number.
    values : tuple of float
        The noisy answers.
    radii : tuple of float
        Distance within which the answers without noise lie.
    probability : float
        With at least this probability all answers of the release are within their
        radii at once.
    keys : tuple of str
        Columns whose groups name the cells.
    sampling_radii : tuple of float or None
        How far the answers without noise may be from those of a population of which
        the rows are a sample (95 percent): apart from noise, and not paid for, since it
        is computed from what is released. None where no bound is known.
    name : str
        Name of the column of a select; the question by default.
    consistent : bool
        Whether the values were made to agree with each other after the release.
    rank_radii : tuple of float
        For drawn quantiles: by how many rows the rank may be missed, with the same
        probability. Empty for other answers.
    """

    ask: str
    cells: tuple[Cell, ...]
    values: tuple[float, ...]
    radii: tuple[float, ...]
    probability: float
    keys: tuple[str, ...] = ()
    sampling_radii: tuple[float | None, ...] = ()
    name: str = ""
    consistent: bool = False
    rank_radii: tuple[float, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """One text per cell, no two alike; empty for a single number."""
        labels = tuple(" / ".join(cell) for cell in self.cells)
        if len(set(labels)) < len(labels):  # a group has the sign in its name
            labels = tuple(" / ".join(map(quoted, cell)) for cell in self.cells)
        return labels

    @property
    def title(self) -> str:
        """The name, or the question."""
        return self.name or self.ask

    @property
    def value(self) -> float | dict[str, float]:
        """The number, or a number per cell."""
        return self._by_label(self.values)

    @property
    def radius(self) -> float | dict[str, float]:
        """The radius, or a radius per cell."""
        return self._by_label(self.radii)

    @property
    def sampling_radius(self) -> float | dict[str, float | None] | None:
        """The sampling radius, or one per cell."""
        return self._by_label(self.sampling_radii or (None,) * len(self.values))

    @property
    def rank_radius(self) -> float | dict[str, float] | None:
        """By how many rows a drawn quantile may miss its rank; None for the rest."""
        return self._by_label(self.rank_radii) if self.rank_radii else None

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        document: JSONObject = {
            "ask": self.ask,
            "value": self._by_label(_finite(self.values)),
            "radius": self._by_label(_finite(self.radii)),
            "sampling_radius": self.sampling_radius,
            "probability": self.probability,
        }
        if self.rank_radii:
            document["rank_radius"] = self._by_label(_finite(self.rank_radii))
        if self.keys:
            document["by"] = list(self.keys)
            document["cells"] = [list(cell) for cell in self.cells]
        if self.name:
            document["name"] = self.name
        if self.consistent:
            document["consistent"] = True
        return document

    def shown_radius(self, place: int) -> str:
        """Return the radius of a cell in words; that of a draw is in ranks."""
        if self.rank_radii:
            return f"{self.rank_radii[place]:.4g} ranks"
        return f"{self.radii[place]:.4g}"

    def to_svg(self) -> str:
        """Return a picture: bars with error bars, or a heat map of two columns.

        That of one number, or of more cells than can be told apart, is empty.
        """
        if not self.keys or not 2 <= len(self.cells) <= MOST_CELLS:
            return ""
        return _heat_map(self) if len(self.keys) == 2 else _bars(self)

    def _by_label(self, items: Sequence[_T]) -> _T | dict[str, _T]:
        if self.labels == ("",):
            return items[0]
        return dict(zip(self.labels, items, strict=True))


@dataclass(frozen=True, eq=False)
class QueryResult:
    """Answers, what they prove, and the payment.

    Parameters
    ----------
    answers : tuple of Answer
        In the order of the questions.
    certificate : Certificate
        What was released, priced per class.
    plan : QueryPlan
        The noise.
    receipt : Receipt, optional
        The charge in the ledger, if one was given.
    """

    answers: tuple[Answer, ...]
    certificate: Certificate
    plan: QueryPlan
    receipt: Receipt | None

    def rows(self) -> list[JSONObject]:
        """Return one record per cell, with all answers that have this cell.

        Answers that are split by the same columns stand beside each other, as in the
        result of a select; each value is followed by its radius. Where a name is taken,
        by a column or by another answer, the later one is numbered.
        """
        records: dict[tuple[tuple[str, ...], Cell], JSONObject] = {}
        for answer in self.answers:
            for cell, value, radius in zip(
                answer.cells, answer.values, answer.radii, strict=True
            ):
                place = (answer.keys, cell)
                names: JSONObject = dict(zip(answer.keys, cell, strict=True))
                record = records.setdefault(place, names)
                title = _free_title(answer.title, record)
                record[title] = value
                record[f"{title} radius"] = radius
        return list(records.values())

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return {
            "answers": [answer.to_json() for answer in self.answers],
            "errors": SAMPLING_NOTE,
            "plan": self.plan.to_json(),
            "certificate": self.certificate.to_dict(),
            "charge": None if self.receipt is None else self.receipt.number,
        }

    def to_text(self) -> str:
        """Return the answers as a plain table."""
        lines = []
        for answer in self.answers:
            for place, (label, value) in enumerate(
                zip(answer.labels, answer.values, strict=True)
            ):
                name = f"{answer.title}: {label}" if label else answer.title
                radius = answer.shown_radius(place)
                lines.append(f"{name:<40}  {value:14.6g}  +- {radius}")
        lines.append(f"({self._summary()})")
        return "\n".join(lines)

    def _summary(self) -> str:
        stamps = ", replayable noise" if self.certificate.replayable_noise else ""
        if any(answer.consistent for answer in self.answers):
            stamps += ", made consistent after the release"
        return (
            "all within their radius with probability "
            f"{self.answers[0].probability:g}; epsilon {self.certificate.epsilon:.6g}, "
            f"delta {self.certificate.delta:g}{stamps}"
        )

    def to_html(self) -> str:
        """Return tables and pictures as HTML that needs nothing else."""
        parts = []
        for answer in self.answers:
            head = [*answer.keys, "value", "radius (noise)", "radius (sampling)"]
            sampling = answer.sampling_radii or (None,) * len(answer.values)
            body = [
                [*cell, f"{value:.6g}", answer.shown_radius(place), _shown(error)]
                for place, (cell, value, error) in enumerate(
                    zip(answer.cells, answer.values, sampling, strict=True)
                )
            ]
            title = html.escape(answer.title)
            if answer.consistent:
                title += " (made consistent after the release)"
            parts.append(f"<h3>{title}</h3>{answer.to_svg()}{_table(head, body)}")
        parts.append(f"<p>{html.escape(self._summary())}</p>")
        return "".join(parts)

    def to_page(self) -> str:
        """Return a whole page with the tables and pictures."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            f"<title>Answers</title><style>{_STYLE}</style></head>"
            f"<body><h1>Answers</h1>{self.to_html()}</body></html>"
        )

    def _repr_html_(self) -> str:
        return self.to_html()


def _free_title(title: str, record: JSONObject) -> str:
    free, number = title, 1
    while free in record or f"{free} radius" in record:
        number += 1
        free = f"{title} {number}"
    return free


def _finite(items: Sequence[float]) -> list[float | None]:
    return [item if math.isfinite(item) else None for item in items]


def _shown(number: float | None) -> str:
    return "unknown" if number is None else f"{number:.4g}"


def _table(head: list[str], body: list[list[str]]) -> str:
    def line(tag: str, cells: list[str]) -> str:
        inner = "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells)
        return f"<tr>{inner}</tr>"

    rows = "".join(line("td", cells) for cells in body)
    return f"<table>{line('th', head)}{rows}</table>"


def _bars(answer: Answer) -> str:
    reach = [radius if math.isfinite(radius) else 0.0 for radius in answer.radii]
    low = min(0.0, *(v - r for v, r in zip(answer.values, reach, strict=True)))
    high = max(0.0, *(v + r for v, r in zip(answer.values, reach, strict=True)))
    scale = _WIDTH / ((high - low) or 1.0)

    def across(value: float) -> float:
        return _LEFT + (value - low) * scale

    parts = []
    for number, (cell, value, radius) in enumerate(
        zip(answer.cells, answer.values, reach, strict=True)
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
    height = len(answer.cells) * _ROW + 4
    return _svg(answer.title, _LEFT + _WIDTH + 90, height, parts)


def _heat_map(answer: Answer) -> str:
    rows = list(dict.fromkeys(cell[0] for cell in answer.cells))
    columns = list(dict.fromkeys(cell[1] for cell in answer.cells))
    low, high = min(answer.values), max(answer.values)
    parts = [
        _label(name, _LEFT + (place + 0.5) * 2 * _CELL, 10, "middle")
        for place, name in enumerate(columns)
    ]
    for place, name in enumerate(rows):
        parts.append(_label(name, _LEFT - 6, 20 + (place + 0.5) * _CELL, "end"))
    for cell, value, radius in zip(
        answer.cells, answer.values, answer.radii, strict=True
    ):
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
    return _svg(answer.title, width, 24 + len(rows) * _CELL, parts)


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
