"""What one cell says: its canonical text, its number, whether it is missing.

Every door to data (files, frames, arrays, lists) reads cells by these functions alone,
so that the code of a row never depends on what other rows hold: a cell that a program
has turned from ``"1"`` into 1 or 1.0, because of its neighbors, says the same.
"""

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from functools import wraps
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NamedTuple, ParamSpec

import numpy as np

from corrdp._names import reading
from corrdp._typing import FloatArray
from corrdp.exceptions import CorrDPError, PolicyError

MISSING_TEXTS = frozenset(("", "NA", "NaN", "nan", "null", "NULL"))
"""Texts that say that a value is missing, unless a category is declared so."""

NO_TEXT = "\x00"
"""Stands for cells without a text (lists, times); no category can be declared so."""

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITY = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_BOOLEANS = {
    **dict.fromkeys(("true", "True", "TRUE"), "1"),
    **dict.fromkeys(("false", "False", "FALSE"), "0"),
}
_BLANKS = " \t\r\n"
_Terms = ParamSpec("_Terms")


def canonical_text(value: Any) -> str | None:
    """Return the text by which a category is compared, or None if it has none.

    Text stands for itself, and bytes for the text that they spell in UTF-8; true and
    false are written in lower case; a whole number has no decimal point, so that 1 and
    1.0 are both ``"1"``; a date, or a time of day at midnight, is written 2020-01-31.

    Examples
    --------
    >>> [canonical_text(value) for value in ("1.0", 1.0, 1, 2.5, True)]
    ['1.0', '1', '1', '2.5', 'true']
    """
    if isinstance(value, str):
        return str.__str__(value)  # members of an enumeration write more than they say
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.timedelta64):  # numpy counts it among the integers
        return None
    if isinstance(value, Integral):
        with suppress(ValueError):  # more digits than Python writes
            return str(int(value))
        return None
    if isinstance(value, Real):
        number = number_of(value)
        return str(int(number)) if number.is_integer() else repr(number)
    if isinstance(value, Decimal):
        return _decimal_text(value)
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime.datetime):
        if value != value:  # NaT of pandas, which calls itself one
            return None
        at_midnight = value.time() == datetime.time() and value.tzinfo is None
        return str(value.date() if at_midnight else value)
    if isinstance(value, datetime.date):
        return value.isoformat()
    return canonical_text(value.real) if _is_real(value) else None


def _is_real(value: Any) -> bool:
    """Return whether a complex number is a real one.

    Programs make a whole column complex because of one cell; the others say what they
    said.
    """
    return isinstance(value, complex | np.complexfloating) and bool(value.imag == 0)


def loose_text(text: str) -> str:
    """Return the canonical text of the number that a text spells; true is 1.

    Examples
    --------
    >>> [loose_text(text) for text in ("1.0", "01", " 1e3", "TRUE", "V58", "1,5")]
    ['1', '1', '1000', '1', 'V58', '1,5']
    """
    bare = text.strip(_BLANKS)
    if bare in _BOOLEANS:
        return _BOOLEANS[bare]
    if _NUMBER.fullmatch(bare) is None:
        return text
    try:
        return _decimal_text(Decimal(bare)) or text
    except InvalidOperation:  # an exponent of more digits than decimals can have
        return canonical_text(float(bare)) or text


def is_missing(value: Any) -> bool:
    """Return whether an object says that a value is missing: None, NaN, NaT, NA."""
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, Real | np.datetime64):
        return bool(value != value)
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return _is_real(value) and is_missing(value.real)


def number_of(value: Any) -> float:
    """Return the number that a cell says, NaN if it says none.

    Text is read as a decimal number, blanks around it ignored; true is 1, false is 0.
    Bytes are the text that they spell, as among categories: a column has that type
    because of one cell that is no Unicode, and the others say what they said.

    Examples
    --------
    >>> [number_of(value) for value in (True, "True", "1e3", " -.5 ", "1,5", None)]
    [1.0, 1.0, 1000.0, -0.5, nan, nan]
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        bare = value.strip(_BLANKS)
        return float(_BOOLEANS[bare]) if bare in _BOOLEANS else spelled_number(bare)
    if isinstance(value, np.timedelta64):
        return math.nan
    if isinstance(value, Real | Decimal | np.bool_):
        try:
            return float(value)
        except OverflowError:
            return math.copysign(math.inf, 1 if value == abs(value) else -1)
        except ValueError:  # a signaling NaN
            return math.nan
    return float(value.real) if _is_real(value) else math.nan


def spelled_number(text: str) -> float:
    """Return the decimal number that a text spells, NaN if it spells none.

    Python reads more as numbers, such as ``1_0``.
    """
    is_number = _NUMBER.fullmatch(text) or _INFINITY.fullmatch(text)
    return float(text) if is_number else math.nan


def _decimal_text(value: Decimal) -> str | None:
    if value.is_nan():
        return None
    if value.is_finite() and value.as_tuple().exponent == 0:
        # digits alone: exact, however many; else as a program would store the number
        return format(value, "f") if value else "0"
    return canonical_text(float(value))


_PLAIN = r"^-?[0-9]{1,40}(\.[0-9]{0,40})?([eE][+-]?[0-9]{1,2})?$"
"""Numbers that Arrow and Python read alike, and that neither overflow nor vanish."""


class Wanted(NamedTuple):
    """What is read of a source: columns (None for all), which are numbers, batches."""

    columns: Sequence[str] | None
    number_columns: Sequence[str]
    batch_rows: int


Reader = Callable[[Path, Wanted], Iterator[Any]]
"""From a path and what is wanted of it to tables of text and floats."""


def text_column(column: Any) -> Any:
    """Return a pyarrow column as the canonical texts of its cells."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return (
            column
            if _is_unicode(column)
            else _by_distinct(column, text_of_cell, pa.string())
        )
    if pa.types.is_dictionary(kind):
        return text_column(column.cast(kind.value_type))
    exact = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if exact or pa.types.is_null(kind) or pa.types.is_string_view(kind):
        return pc.cast(column, pa.string())
    return _by_distinct(column, text_of_cell, pa.string())


def number_column(column: Any) -> Any:
    """Return a pyarrow column as floats; null where a cell says no number."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        return number_column(column.cast(kind.value_type))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.chunked_array(
            [_as_nulls(_floats_of_text(chunk)) for chunk in column.chunks],
            pa.float64(),
        )
    if pa.types.is_decimal(kind):
        # Arrow scales it, off by a bit: 0.3 is 3 / 10 no more.
        return number_column(pc.cast(column, pa.string()))
    exact = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if exact or pa.types.is_boolean(kind):
        return pc.cast(column, pa.float64(), safe=False)
    return _by_distinct(column, _number_or_none, pa.float64())


def python_cells(array: Any) -> list[Any]:
    """Return the cells of a pyarrow array as Python objects, None where missing.

    Arrow converts all cells or none. Where it refuses, cells are converted one by one:
    bytes that are no Unicode are replaced, and what Python cannot hold, such as a day
    after the year 9999, has no text.
    """
    try:
        return list(array.to_pylist())
    except Exception:  # whatever it says may quote a cell
        return [_python_cell(cell) for cell in array]


def _python_cell(cell: Any) -> Any:
    try:
        return cell.as_py()
    except UnicodeDecodeError:
        return cell.as_buffer().to_pybytes().decode("utf-8", "replace")
    except Exception:
        return NO_TEXT


def text_of_cell(value: Any) -> str | None:
    """Return the canonical text of an object, None if it is missing."""
    if is_missing(value):
        return None
    text = canonical_text(value)
    return NO_TEXT if text is None else text


def text_array(values: Sequence[Any]) -> Any:
    """Return objects of any kind as a pyarrow array of canonical texts."""
    import pyarrow as pa

    if not set(map(type, values)) <= {str, type(None)}:
        values = [v if type(v) is str else text_of_cell(v) for v in values]
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # Arrow converts all cells or none
        return pa.array([v and _as_unicode(v) for v in values], pa.string())


def _as_unicode(text: str) -> str:
    """Return a text with what is no Unicode, such as half of a pair, replaced."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def number_array(values: Sequence[Any]) -> Any:
    """Return objects of any kind as a pyarrow array of floats."""
    floats = np.fromiter(map(number_of, values), dtype=np.float64, count=len(values))
    return _as_nulls(floats)


def _number_or_none(value: Any) -> float | None:
    number = number_of(value)
    return None if number != number else number


def _floats_of_text(chunk: Any) -> FloatArray:
    """Read each text as a number, NaN where it spells none.

    Arrow reads a whole chunk or nothing. Where it refuses, the plain numbers are read
    by Arrow and all others by Python: the two agree wherever both apply.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return _as_nan(pc.cast(chunk, pa.float64()))
    except pa.ArrowInvalid:
        pass
    plain = pc.fill_null(pc.match_substring_regex(chunk, _PLAIN), False)
    nothing = pa.scalar(None, chunk.type)
    floats = _as_nan(pc.cast(pc.if_else(plain, chunk, nothing), pa.float64())).copy()
    odd = np.flatnonzero(~plain.to_numpy(zero_copy_only=False))
    encoded = chunk.take(pa.array(odd)).dictionary_encode()
    spelled = [number_of(text) for text in python_cells(encoded.dictionary)]
    places = encoded.indices.fill_null(len(spelled)).to_numpy()
    floats[odd] = np.asarray([*spelled, np.nan])[places]
    return floats


def _as_nan(array: Any) -> FloatArray:
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def _as_nulls(floats: FloatArray) -> Any:
    import pyarrow as pa

    return pa.array(floats, pa.float64(), from_pandas=True)


def _by_distinct(column: Any, convert: Callable[[Any], Any], kind: Any) -> Any:
    """Convert each distinct value once, chunk by chunk."""
    import pyarrow as pa

    def converted(chunk: Any) -> Any:
        try:
            encoded = chunk.dictionary_encode()
        except (pa.ArrowInvalid, NotImplementedError):  # lists and structures
            return pa.array([convert(value) for value in python_cells(chunk)], kind)
        values = [convert(value) for value in python_cells(encoded.dictionary)]
        return pa.array(values, kind).take(encoded.indices)

    return pa.chunked_array([converted(chunk) for chunk in column.chunks], kind)


def _is_unicode(column: Any) -> bool:
    """Return whether all texts are: files may hold others, and Arrow passes them on."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def arrow_batches(held: Any, wanted: Wanted) -> Iterator[Any]:
    """Yield rows that Arrow holds: the wanted columns as floats and texts."""
    import pyarrow as pa

    table = held if isinstance(held, pa.Table) else pa.Table.from_batches([held])
    if wanted.columns is not None:
        table = table.select(list(wanted.columns))
    for start in range(0, table.num_rows, wanted.batch_rows):
        rows = table.slice(start, wanted.batch_rows)
        yield pa.table(
            {
                name: number_column(rows[name])
                if name in wanted.number_columns
                else text_column(rows[name])
                for name in rows.column_names
            }
        )


def object_batch(cells: Iterable[tuple[str, Sequence[Any]]], wanted: Wanted) -> Any:
    """Return objects of any kind, by column, as one batch of floats and texts."""
    import pyarrow as pa

    return pa.table(
        {
            name: (number_array if name in wanted.number_columns else text_array)(own)
            for name, own in cells
        }
    )


def check_names(
    path: Path, columns: Sequence[str] | None, present: Sequence[str]
) -> None:
    """Raise `PolicyError` if columns are absent, or two have the same name."""
    if len(set(present)) < len(present):
        raise PolicyError(
            f"{str(path)!r} has two columns of the same name. Rename one of them."
        )
    require_columns(repr(str(path)), columns or (), present)


def require_columns(table: str, names: Sequence[str], present: Sequence[Any]) -> None:
    """Raise `PolicyError` if columns are absent, also where others look like them."""
    absent = [name for name in names if name not in present]
    if absent:
        raise PolicyError(
            f"{table} lacks the columns {', '.join(map(repr, absent))}."
            f"{_renaming(absent[0], present)} "
            "Add them, or remove them from the policy."
        )


def _renaming(name: str, present: Sequence[Any]) -> str:
    """Return what to do about a name that is only written in another way."""
    for column in present:
        if str(column).endswith(f"__{name}"):
            return (
                f" {column!r} looks like the output of a ColumnTransformer: give it "
                "verbose_feature_names_out=False."
            )
        if reading(str(column)) == reading(name):
            return (
                f" The table has {column!a}, which is another name: it differs in "
                "its type, in case, in blanks or in how letters are put together. "
                "Rename one of them."
            )
    return ""


def guarded(hint: str) -> Callable[[Callable[_Terms, Any]], Callable[_Terms, Any]]:
    """Return a decorator of readers: what a parser says may quote rows, and is dropped.

    The first argument of a reader is the path, or what stands for it in messages.
    """

    def decorated(read: Callable[_Terms, Any]) -> Callable[_Terms, Any]:
        @wraps(read)
        def batches(*terms: _Terms.args, **more: _Terms.kwargs) -> Iterator[Any]:
            failure = ""
            try:
                yield from read(*terms, **more)
            except (CorrDPError, KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException as error:  # panics of polars are no Exception
                failure = type(error).__name__
            if failure:
                raise CorrDPError(f"cannot read {str(terms[0])!r} ({failure}). {hint}")

        return batches

    return decorated
