"""What a column seems to hold, guessed from its cells for a draft.

Only drafts look at cells like this. Everything that is guessed awaits confirmation,
and what could name a person (free text, identifiers, dates, values of very few rows) is
not written down.
"""

import math
import re
from dataclasses import dataclass
from typing import Any

from corrdp.exceptions import PolicyError
from corrdp.policy._checks import is_plain
from corrdp.tables import MISSING_TEXTS

MOST_CATEGORIES = 30
"""More different values than this are no categories, unless their owner says so."""

MOST_NAMED_CATEGORIES = 500
"""Of a column that its owner calls a category: countries, occupations, diagnoses."""

FEWEST_ROWS = 3
"""A value that fewer rows hold may name one of them, so it is not listed."""

DRAFT_BINS = 8
"""Of numbers in a draft, unless steps have one each."""

MOST_STEPS = 12
"""So many whole numbers in a row, each held by enough rows, get a bin each."""

_NUMBER = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf(inity)?))\s*$"
_COMMA_NUMBER = r"^\s*[+-]?\d+(\.\d{3})*(,\d+)+\s*$"
_LEADING_ZERO = r"^\s*[+-]?0\d"
_DATES = (
    r"^\s*\d{4}[-/.]\d{1,2}[-/.]\d{1,2}([T ].*)?$",
    r"^\s*\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4}([T ].*)?$",
    r"^\s*\d{1,2}[- ][A-Za-z]{3,9}[- ]\d{2,4}$",
    r"^\s*\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$",
)
_COMPACT_DATE = r"^\s*(19|20)\d{2}(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_ADDRESSES = (
    r"^\S+@\S+\.\S+$",
    r"^[a-z]+://",
    r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-",
)
_NAMED_LIKE_IDENTIFIER = re.compile(
    r"(?i:(^|[\W_])(id|uid|uuid|guid|ssn|mrn|nr|identifier|email|phone)$)|[a-z]I[Dd]$"
    r"|(?i:^(rownames?|row[\W_]?(no|number|index)|index|seq[\W_]?no|unnamed: 0)$)"
)
_BOOLEAN_WORDS = {"true", "True", "TRUE", "false", "False", "FALSE"}
_MOSTLY = 0.9
_LONGEST_CATEGORY = 60
_WORDS_OF_A_SENTENCE = 4


@dataclass(frozen=True)
class Guess:
    """The fields of a domain, or why there are none."""

    domain: dict[str, Any]  # as a policy file has them; empty for a column left out
    read: tuple[str, ...]  # fields whose values came from cells
    reason: str = ""  # why it is left out, or what is doubtful; never a value


def guess_domain(name: str, column: Any, *, as_category: bool, is_label: bool) -> Guess:
    """Return what a column of private texts seems to hold, by its cells and its name.

    Its owner may say that its numbers, or its many values, are categories. A label has
    no slots: every value must be declared.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not is_plain(name):
        return _left_out("its name has control characters; rename it")
    missing = pc.is_in(column, value_set=pa.array(sorted(MISSING_TEXTS)))
    cells = pc.drop_null(column.filter(pc.invert(pc.fill_null(missing, False))))
    if len(cells) == 0:
        return _left_out("it has no values")
    has_missing = len(cells) < len(column)
    counted = cells.value_counts()
    values, counts = counted.field("values"), counted.field("counts")
    is_number = _matches(values, (_NUMBER,))
    odd = pc.sum(pc.invert(is_number)).as_py()
    # One text among numbers ("?", "unknown") is a way to write that one is missing.
    in_numbers = pc.sum(counts.filter(is_number)).as_py() or 0  # None if there is none
    one_word = odd == 1 and 2 * in_numbers > len(cells)
    if (odd == 0 or one_word) and not _any(values, _LEADING_ZERO) and not as_category:
        if _share(values, counts, (_COMPACT_DATE,)) >= _MOSTLY:
            return _left_out("it looks like dates; derive a number from it")
        numbers = cells.filter(_matches(cells, (_NUMBER,)))
        numbers = pc.utf8_trim_whitespace(numbers).cast(pa.float64())
        return _of_numbers(name, numbers, is_label, has_missing or one_word)
    if set(values.to_pylist()[:7]) <= _BOOLEAN_WORDS:
        return _boolean(is_label, has_missing)
    if _share(values, counts, _DATES) >= _MOSTLY:
        return _left_out("it looks like dates or times; derive a number from it")
    if _share(values, counts, _ADDRESSES) >= _MOSTLY and odd:
        return _left_out("it looks like addresses or keys")
    most = MOST_NAMED_CATEGORIES if as_category else MOST_CATEGORIES
    return _category(name, cells, is_label, has_missing, most=most)


def _of_numbers(name: str, numbers: Any, is_label: bool, has_missing: bool) -> Guess:
    import pyarrow.compute as pc

    n_distinct = pc.count_distinct(numbers).as_py()
    ends = pc.min_max(numbers).as_py()
    whole = _are_whole(numbers)
    if n_distinct == 2 and whole and is_label:
        # 0 and 1, or 1 and 2; predictions are written as labels are declared.
        both = [int(ends["min"]), int(ends["max"])]
        return Guess({"type": "category", "categories": both}, ("categories",))
    if n_distinct == 2 and (ends["min"], ends["max"]) == (0, 1):
        return _boolean(is_label, has_missing, digits=True)
    is_common = n_distinct == 1 and len(numbers) >= FEWEST_ROWS
    # Larger numbers, and infinity, are no categories that a policy can declare.
    if is_common and abs(ends["min"]) <= 2.0**1000 and not is_label:
        return _constant(_written(ends["min"]), has_missing)
    lower, upper = bounds = rounded_bounds(numbers)
    domain: dict[str, Any] = {"type": "number", "bounds": bounds}
    doubt = ""
    if _is_identifier(name, numbers, n_distinct):
        doubt = "it looks like an identifier"
    written = {"whole": True} if whole else {}
    if is_label:
        return Guess(domain | written, ("bounds", *written), doubt)
    domain["bins"] = DRAFT_BINS
    read = ["bounds", *written]
    if whole and (steps := _steps(numbers, n_distinct)):
        lower, upper = domain["bounds"] = steps
        domain["bins"] = n_distinct
        read.insert(1, "bins")
    middle = (lower + upper) / 2
    missing, more = _missing(math.floor(middle) if whole else middle, has_missing)
    return Guess(domain | written | missing, (*read, *more), doubt)


def _constant(value: float | int, has_missing: bool) -> Guess:
    """Guess that a column has the one value that all cells hold: it tells nothing."""
    domain = {"type": "category", "categories": [value], "unknown": value}
    missing, _ = _missing(value, has_missing)
    return Guess(domain | missing, ("categories", "unknown", *missing))


def _are_whole(numbers: Any) -> bool:
    """Return whether all numbers are whole, and none too large to tell."""
    import pyarrow.compute as pc

    is_whole = pc.equal(pc.floor(numbers), numbers)
    is_small = pc.less(pc.abs(numbers), 2.0**53)
    return bool(pc.all(pc.and_(is_whole, is_small)).as_py())


def _steps(numbers: Any, n_distinct: int) -> list[float] | None:
    """Return bounds between which whole numbers without a gap get a bin each.

    Bins between whole numbers, and beyond the last, hold no rows: nothing can be
    proved of them, so that they would spoil every bound on what the column tells. The
    ends are values that several rows hold, as listed categories are.
    """
    import pyarrow.compute as pc

    ends = pc.min_max(numbers).as_py()
    n_steps = ends["max"] - ends["min"] + 1
    counts = numbers.value_counts().field("counts")
    fewest = pc.min(counts).as_py()
    if n_steps > min(n_distinct, MOST_STEPS) or fewest < FEWEST_ROWS:
        return None
    return [ends["min"] - 0.5, ends["max"] + 0.5]


def _is_identifier(name: str, numbers: Any, n_distinct: int) -> bool:
    """Return whether numbers count the rows, or have the name of a key."""
    import pyarrow.compute as pc

    if n_distinct < len(numbers) * _MOSTLY or len(numbers) < 2:
        return False
    if not pc.all(pc.equal(pc.floor(numbers), numbers)).as_py():
        return False
    ends = pc.min_max(numbers).as_py()
    is_dense = ends["max"] - ends["min"] < 1.1 * len(numbers)
    counts_rows = is_dense and n_distinct == len(numbers) > MOST_CATEGORIES
    return counts_rows or _NAMED_LIKE_IDENTIFIER.search(name) is not None


def _category(
    name: str, cells: Any, is_label: bool, has_missing: bool, *, most: int
) -> Guess:
    """Guess groups of rows; more than `most` of them are none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    counted = cells.value_counts()
    values, counts = counted.field("values"), counted.field("counts")
    n_rows = pc.sum(counts).as_py()
    if len(values) > most and _has_commas(values, counts):
        return _left_out("its numbers have commas; write them with decimal points")
    if len(values) > MOST_CATEGORIES and len(values) >= _MOSTLY * n_rows:
        return _left_out("nearly every row has a value of its own: an identifier")
    if len(values) > most:
        kept = "" if most > MOST_CATEGORIES else ", name it in --category to keep it"
        return _left_out(
            f"more than {most} different values; merge them{kept}, or leave it out"
        )
    if _NAMED_LIKE_IDENTIFIER.search(name) and len(values) >= _MOSTLY * n_rows:
        return _left_out("it looks like an identifier")
    if _is_free_text(values):
        return _left_out("it looks like free text")
    n_values = len(values)
    # Texts with control characters, which stand for lists and times too, cannot be
    # declared.
    plain = pa.array([is_plain(value) for value in values.to_pylist()])
    values, counts = values.filter(plain), counts.filter(plain)
    if len(values) == 0 or (is_label and len(values) < n_values):
        return _left_out(
            "it holds lists, times or control characters; write its values otherwise"
        )
    kept = values
    if not is_label:  # a label has no slot for the others
        kept = values.filter(pc.greater_equal(counts, FEWEST_ROWS))
    if len(kept) == 0:
        return _left_out(
            f"no value is held by {FEWEST_ROWS} rows, so each could name one of them"
        )
    listed = sorted(kept.to_pylist())
    domain: dict[str, Any] = {"type": "category", "categories": listed}
    if is_label:
        return Guess(domain, ("categories",))
    common = values[pc.index(counts, pc.max(counts)).as_py()].as_py()
    unknown = {"other": True} if len(kept) < n_values else {"unknown": common}
    missing, _ = _missing(common, has_missing)
    return Guess(domain | unknown | missing, ("categories", *unknown, *missing))


def _has_commas(values: Any, counts: Any) -> bool:
    """Return whether texts are numbers as other countries write them."""
    numbers = _share(values, counts, (_NUMBER, _COMMA_NUMBER))
    return numbers >= _MOSTLY and _any(values, _COMMA_NUMBER)


def _is_free_text(values: Any) -> bool:
    """Return whether values read like sentences rather than names of groups."""
    texts = values.to_pylist()
    words = sorted(len(text.split()) for text in texts)
    return (
        max(map(len, texts)) > _LONGEST_CATEGORY
        or words[len(words) // 2] > _WORDS_OF_A_SENTENCE
        or any("\n" in text for text in texts)
    )


def _boolean(is_label: bool, has_missing: bool, *, digits: bool = False) -> Guess:
    if is_label:
        return Guess({"type": "boolean"}, ("type",))
    missing, read = _missing(False, has_missing)
    domain: dict[str, Any] = {"type": "boolean"}
    if digits:
        domain["digits"] = True
        read = ("digits", *read)
    return Guess(domain | missing, ("type", *read))


def _missing(value: Any, has_missing: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return how missing values are treated, and what of it tells of the table.

    Nothing later is refused either way. A slot without rows would cost a model noise,
    and no leakage bound could be proved of it.
    """
    if has_missing:
        return {"missing": "slot"}, ("missing",)
    return {"missing_value": value}, ()


def _left_out(reason: str) -> Guess:
    return Guess({}, (), reason)


def rounded_bounds(numbers: Any) -> list[float | int]:
    """Return bounds moved outwards to round numbers, so that no exact value shows.

    The grid has 1, 2 or 5 times a power of ten, a tenth to a fifth of the range. An end
    on the grid moves a step further; only zero stays, the natural end of amounts.
    """
    import pyarrow.compute as pc

    ends = pc.min_max(numbers.filter(pc.is_finite(numbers))).as_py()
    low, high = float(ends["min"] or 0.0), float(ends["max"] or 0.0)
    largest = max(abs(low), abs(high))
    # A range too narrow for twelve digits is widened, so that its ends can be written.
    width = max(high - low or largest or 1.0, largest * 1e-9, 1e-300)
    if not math.isfinite(width):
        raise PolicyError(
            "a column has numbers beyond what bounds can hold. Leave it out."
        )
    power = 10.0 ** math.floor(math.log10(width / 5.0))
    step = max(
        [s * power for s in (1.0, 2.0, 5.0) if s * power <= width / 5.0 * 1.0001]
    )
    lower, upper = math.floor(low / step), math.ceil(high / step)
    # Judged as written: rounding may have moved a bound back onto the value.
    while low != 0.0 and _written(lower * step) >= low:
        lower -= 1
    while (high != 0.0 and _written(upper * step) <= high) or upper <= lower:
        upper += 1
    return [_written(lower * step), _written(upper * step)]


def _written(bound: float) -> float | int:
    """Return a bound with twelve digits, whole if it is."""
    rounded = float(f"{bound:.12g}")
    is_whole = rounded.is_integer() and abs(rounded) < 2**53
    return int(rounded) if is_whole else rounded


def _matches(texts: Any, patterns: tuple[str, ...]) -> Any:
    import pyarrow.compute as pc

    pattern = "|".join(f"({pattern})" for pattern in patterns)
    return pc.match_substring_regex(texts, pattern)


def _any(values: Any, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(_matches(values, (pattern,))).as_py())


def _share(values: Any, counts: Any, patterns: tuple[str, ...]) -> float:
    """Return the share of cells that match one of the patterns."""
    import pyarrow.compute as pc

    matching = pc.sum(counts.filter(_matches(values, patterns))).as_py() or 0
    return float(matching / pc.sum(counts).as_py())
