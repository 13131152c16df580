"""How many rows, or which epsilon, would make training worth its budget."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corrdp.training._plan import Prediction

MOST_ROWS = 1e18  # that anybody is told to bring,
MOST_EPSILON = 1e3  # and the largest epsilon
_QUESTIONS = 5  # to the planner, for one of them


@dataclass(frozen=True, slots=True)
class Needed:
    """What would make training worth its budget, as the planner itself says.

    Parameters
    ----------
    rows : float, optional
        Least number of rows, with this budget; None if none up to `MOST_ROWS` would do.
    epsilon : float, optional
        Least epsilon, with these rows; None if none up to `MOST_EPSILON` would do.
    """

    rows: float | None
    epsilon: float | None

    @property
    def text(self) -> str:
        """Both in one sentence."""
        if self.rows is None:
            other = "" if self.epsilon is None else f", epsilon={self.epsilon:g} would"
            return f"No number of rows would do{other}."
        other = "" if self.epsilon is None else f", or epsilon={self.epsilon:g},"
        return f"About {self.rows:,.0f} rows{other} would do."


def least_that_learns(
    prediction_at: Callable[[float], "Prediction"],
    beyond: float,
    factor: float,
    most: float,
) -> float | None:
    """Return about the least number at which a plan learns more than little.

    It has two digits and is `beyond` the number at which little is learned, by about a
    `factor`; None if it is above `most`. Every plan on the way says where it would
    look: a plan of a wide table takes seconds, so that few are asked, and what was
    found after `_QUESTIONS` stays, though a little less might do.
    """
    low, found, stride, asked = _place(beyond), None, 4, 0
    place, last = max(_place(beyond * factor), low) + 1, _place(most)
    while found is None or (low < place < found and asked < _QUESTIONS):
        asked += 1
        place = min(place, last)  # a plan may look beyond where another would do
        if place <= low:
            return None
        number = _of_two_digits(place)
        prediction = prediction_at(number)
        wanted = _place(number * prediction.missing_factor) + 1
        if prediction.learns_little:
            low, place, stride = place, max(wanted, place + stride), 2 * stride
            if found is not None:
                place = min(place, (low + found) // 2)
        else:
            found, place = place, max(wanted, low + 1)
    return _of_two_digits(found)


def _of_two_digits(place: int) -> float:
    """Return the numbers 1.0, 1.1, ..., 9.9, 10, 11, ... by their places."""
    decade, step = divmod(place, 90)
    return float(f"{10 + step}e{decade - 1}")


def _place(number: float) -> int:
    """Return the place of the largest number of two digits that is not above."""
    digits, exponent = f"{number:.17e}".split("e")
    return 90 * int(exponent) + int(10 * float(digits)) - 10
