"""Questions in SQL: one select of aggregates from one table becomes queries.

The tree comes from sqlglot; every node is either translated or refused with the place
where it stands, so nothing that cannot be priced is passed over.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from corrdp.exceptions import CorrDPError
from corrdp.queries._ask import split_and_filtered
from corrdp.queries._conditions import (
    Absence,
    Comparison,
    Condition,
    Membership,
    Verdict,
)
from corrdp.queries._kinds import Correlation, Count, Covariance, Mean, Total, Variance
from corrdp.queries._quantiles import Quantiles
from corrdp.queries._query import Arithmetic, Constant, Query, Questions, aggregates
from corrdp.queries._question_text import not_too_deep
from corrdp.tables import canonical_text

_PARTS = {"expressions", "from", "from_", "where", "group"}
_SIGNS = {"EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_ARITHMETIC = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/"}
_OF_ONE_COLUMN: dict[str, Callable[[str], Query]] = {
    "Sum": Total,
    "Avg": Mean,
    "VariancePop": Variance,
    "Median": lambda name: Quantiles(name, (0.5,)),
}
_OF_TWO_COLUMNS: dict[str, Callable[[str, str], Query]] = {
    "CovarPop": Covariance,
    "Corr": Correlation,
}
_MOST_DIGITS = 308  # of the largest float
_KNOWN = "count, sum, avg, var_pop, median, percentile_cont, covar_pop and corr"


@not_too_deep
def parse_sql(text: str) -> Questions:
    """Read a select.

    Parameters
    ----------
    text : str
        ``select region, count(*), avg(age) from t where smoker group by region``. The
        table's name is not looked at. Aggregates: count, sum, avg, var_pop, median,
        percentile_cont, covar_pop, corr, each also with ``filter (where ...)``, and
        arithmetic between them. Conditions: comparisons with constants, in, between,
        is null, is true, and, or, not.

    Raises
    ------
    CorrDPError
        For anything else, with the place in the text.

    Examples
    --------
    >>> asked = parse_sql("select ward, avg(age) as mean from t group by ward")
    >>> asked.queries
    (Mean(column='age', by='ward', groups=None, where=None),)
    >>> asked.names
    ('mean',)
    """
    try:
        import sqlglot
    except ImportError:  # pragma: no cover - the extra is installed where tests run
        raise CorrDPError(
            "SQL needs sqlglot, which is not installed. Install corrdp[sql], or ask "
            "in the words of --ask."
        ) from None
    try:
        statements = sqlglot.parse(text)
    except sqlglot.errors.ParseError as error:
        first = error.errors[0]
        raise CorrDPError(
            f"cannot read the SQL at line {first['line']}, column {first['col']}, at "
            f"{first['highlight']!r}. Correct the statement."
        ) from None
    except sqlglot.errors.TokenError:
        raise CorrDPError(
            "cannot read the SQL: a quote or a comment is not closed. Close it."
        ) from None
    if len(statements) != 1 or _kind(statements[0]) != "Select":
        raise CorrDPError(
            "only one select can be answered, got "
            f"{' and '.join(_kind(node).lower() for node in statements)}. Ask one "
            "select from one table."
        )
    return _Reader(text, statements[0]).question()


def _kind(node: Any) -> str:
    return "nothing" if node is None else type(node).__name__


class _Reader:
    """Translates the tree of one select."""

    def __init__(self, text: str, select: Any) -> None:
        self._text = text
        self._select = select
        self._table_name = ""

    def question(self) -> Questions:
        args = self._select.args
        for part, node in args.items():
            if node and part not in _PARTS:
                first = node[0] if isinstance(node, list) else node
                # Some parts are words of the select, without a place of their own.
                place = first if hasattr(first, "walk") else self._select
                raise self._refused(place, f"{part} cannot be answered with noise")
        self._check_table(args.get("from_") or args.get("from"))
        by = self._group_columns(args.get("group"))
        where = args.get("where")
        condition = self._condition(where.this) if where else None
        queries, names = [], []
        for node in self._select.expressions:
            bare = node.this if _kind(node) == "Alias" else node
            if _kind(bare) == "Column":
                if self._column(bare) not in by:
                    why = "it is not in group by, and single rows are not released"
                    raise self._refused(bare, why)
                if node.alias not in ("", bare.name):
                    raise self._refused(node, "columns keep the names of the policy")
                continue
            query = self._aggregate(bare)
            if not aggregates(query):
                raise self._refused(bare, "a constant needs no table")
            split = by if len(by) != 1 else by[0]
            build = partial(split_and_filtered, query, split or None, None, condition)
            queries.append(self._placed(bare, build))
            names.append(node.alias or str(bare.sql(normalize_functions="lower")))
        if not queries:
            raise self._refused(self._select, "no aggregate was asked for")
        return Questions(tuple(queries), tuple(names))

    def _check_table(self, source: Any) -> None:
        if source is None:
            raise CorrDPError(
                "the select names no table. Write from and any name: the data is the "
                "table given beside the SQL."
            )
        table = source.this
        odd = {name for name, node in table.args.items() if node} - {"this", "alias"}
        if _kind(table) != "Table" or odd or _kind(table.this) != "Identifier":
            raise self._refused(table, "only one plain table can be asked")
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._refused(alias, "columns keep the names of the policy")
        # An alias takes the place of the name.
        self._table_name = str(table.alias_or_name).lower()

    def _group_columns(self, group: Any) -> tuple[str, ...]:
        if group is None:
            return ()
        for part, node in group.args.items():
            if node and part != "expressions":
                raise self._refused(group, f"group by {part} cannot be answered")
        return tuple(self._column(node) for node in group.expressions)

    def _column(self, node: Any) -> str:
        if _kind(node) != "Column" or _kind(node.this) != "Identifier":
            raise self._refused(node, "a column was expected")
        prefix = [part.name.lower() for part in node.parts[:-1]]
        if prefix and prefix != [self._table_name]:
            raise self._refused(node, "it is a column of another table")
        return str(node.this.this)

    def _aggregate(self, node: Any) -> Query:
        kind = _kind(node)
        if kind == "Paren":
            return self._aggregate(node.this)
        if kind == "Neg":
            return Arithmetic("-", Constant(0.0), self._aggregate(node.this))
        if kind == "Literal" and not node.is_string:
            return Constant(float(node.this))
        if kind in _ARITHMETIC:
            left, right = self._aggregate(node.this), self._aggregate(node.expression)
            return Arithmetic(_ARITHMETIC[kind], left, right)
        if kind == "Filter":
            condition = self._condition(node.expression.this)
            return self._placed(
                node,
                lambda: split_and_filtered(
                    self._aggregate(node.this), None, None, condition
                ),
            )
        if kind == "Count":
            if _kind(node.this) != "Star" or node.expressions:
                raise self._refused(
                    node,
                    "only count(*) can be priced; add where column is not null to "
                    "count present cells",
                )
            return Count()
        if kind in _OF_ONE_COLUMN:
            return _OF_ONE_COLUMN[kind](self._column(node.this))
        if kind in _OF_TWO_COLUMNS:
            return _OF_TWO_COLUMNS[kind](
                self._column(node.this), self._column(node.expression)
            )
        if kind == "WithinGroup" and _kind(node.this) == "PercentileCont":
            ordered = node.expression.expressions
            if len(ordered) == 1 and not ordered[0].args.get("desc"):
                return self._quantile(ordered[0].this, node.this.this)
        if kind == "Quantile":
            return self._quantile(node.this, node.args.get("quantile"))
        raise self._refused(node, f"only {_KNOWN} can be priced")

    def _quantile(self, column: Any, probability: Any) -> Query:
        name = self._column(column)
        if _kind(probability) != "Literal" or probability.is_string:
            raise self._refused(probability, "a probability between 0 and 1 is needed")
        return self._placed(
            probability, lambda: Quantiles(name, (float(probability.this),))
        )

    def _condition(self, node: Any) -> Condition:
        kind = _kind(node)
        if kind == "Paren":
            return self._condition(node.this)
        if kind == "And":
            return self._condition(node.this) & self._condition(node.expression)
        if kind == "Or":
            return self._condition(node.this) | self._condition(node.expression)
        if kind == "Not":
            return ~self._condition(node.this)
        if kind == "Column":
            return Comparison(self._column(node), "=", "true")
        if kind in _SIGNS:
            sign, left, right = _SIGNS[kind], node.this, node.expression
            if _kind(left) != "Column":
                sign, left, right = _MIRRORED[sign], right, left
            return Comparison(self._column(left), sign, self._constant(right))
        if kind == "Between" and not node.args.get("symmetric"):
            name = self._column(node.this)
            low, high = map(self._constant, (node.args["low"], node.args["high"]))
            return Comparison(name, ">=", low) & Comparison(name, "<=", high)
        if kind == "In" and node.expressions:
            values = tuple(self._constant(value) for value in node.expressions)
            return Membership(self._column(node.this), values)
        if kind == "Is":
            name = self._column(node.this)
            if _kind(node.expression) == "Null":
                return Absence(name)
            if _kind(node.expression) == "Boolean":
                return Verdict(name, self._constant(node.expression))
        raise self._refused(
            node,
            "only comparisons of a column with a constant, in, between, is null, is "
            "true, and, or, not can be priced",
        )

    def _constant(self, node: Any) -> str:
        kind = _kind(node)
        if kind == "Boolean":
            return "true" if node.this else "false"
        if kind == "Literal" and node.is_string:
            return str(node.this)
        sign = 1
        if kind == "Neg":
            sign, node, kind = -1, node.this, _kind(node.this)
        if kind == "Literal" and not node.is_string:
            # Whole numbers stay whole: beyond 2**53 a float is another number.
            text = str(node.this)
            is_whole = text.isdecimal() and len(text) <= _MOST_DIGITS
            number = int(text) if is_whole else float(text)
            return str(canonical_text(sign * number))
        raise self._refused(node, "a constant was expected")

    def _placed(self, node: Any, build: Callable[[], Query]) -> Query:
        try:
            return build()
        except CorrDPError as error:
            raise CorrDPError(f"{self._place(node)}: {error}") from None

    def _refused(self, node: Any, why: str) -> CorrDPError:
        return CorrDPError(
            f"{self._place(node)}: {why}. Ask for aggregates of declared columns."
        )

    def _place(self, node: Any) -> str:
        """Return where a node begins; signs and keywords by their first name."""
        starts = [
            part.meta["start"] for part in node.walk() if "start" in (part.meta or {})
        ]
        # What cannot be written back is refused here in words, not in sqlglot's log.
        shown = str(node.sql(unsupported_level="IGNORE"))
        if len(shown) > 40:
            shown = shown[:37] + "..."
        if not starts:
            return f"cannot answer the SQL {shown!r}"
        return f"cannot answer the SQL at character {min(starts) + 1}, {shown!r}"
