"""Answers and what came with them: radii, certificate, payment, table, picture."""

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from corrdp._typing import JSONObject
from corrdp.certificate import Certificate
from corrdp.ledger import Receipt
from corrdp.queries._chart import chart_svg
from corrdp.queries._plan import QueryPlan
from corrdp.queries._query import Cell

SAMPLING_NOTE = (
    "radius: noise alone; sampling_radius: 95 percent, if rows are independent draws "
    "from a population, from released numbers and declared bounds"
)

_STYLE = (
    ":root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:2rem}"
    "td,th{padding:.2rem .8rem;text-align:right}svg{max-width:100%}"
)


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
        """One text per cell; empty for a single number."""
        return tuple(" / ".join(cell) for cell in self.cells)

    @property
    def title(self) -> str:
        """The name, or the question."""
        return self.name or self.ask

    @property
    def value(self) -> float | dict[str, float]:
        """The number, or a number per cell."""
        value: float | dict[str, float] = self._by_label(self.values)
        return value

    @property
    def radius(self) -> float | dict[str, float]:
        """The radius, or a radius per cell."""
        radius: float | dict[str, float] = self._by_label(self.radii)
        return radius

    @property
    def sampling_radius(self) -> float | dict[str, float | None] | None:
        """The sampling radius, or one per cell."""
        radii = self.sampling_radii or (None,) * len(self.values)
        radius: float | dict[str, float | None] | None = self._by_label(radii)
        return radius

    @property
    def rank_radius(self) -> float | dict[str, float] | None:
        """By how many rows a drawn quantile may miss its rank; None for the rest."""
        radius: float | dict[str, float] | None = (
            self._by_label(self.rank_radii) if self.rank_radii else None
        )
        return radius

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
        """Return a picture: bars with error bars, or a heat map of two columns."""
        return chart_svg(self.title, self.keys, self.cells, self.values, self.radii)

    def _by_label(self, items: Sequence[Any]) -> Any:
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
        result of a select; each value is followed by its radius.
        """
        records: dict[tuple[tuple[str, ...], Cell], JSONObject] = {}
        for answer in self.answers:
            for cell, value, radius in zip(
                answer.cells, answer.values, answer.radii, strict=True
            ):
                place = (answer.keys, cell)
                names: JSONObject = dict(zip(answer.keys, cell, strict=True))
                record = records.setdefault(place, names)
                record[answer.title] = value
                record[f"{answer.title} radius"] = radius
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
