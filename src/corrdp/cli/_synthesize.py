"""``corrdp synthesize``: a synthetic table, its certificate and a report."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrdp._files import csv_text, write_text
from corrdp.cli import _models as models
from corrdp.cli import _options as options
from corrdp.cli._models import MethodChoice
from corrdp.cli._output import JsonOption, refuse_formulas, results, show, working
from corrdp.cli._paying import NO_LEDGER, LedgerOptions, takes_ledger
from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.policy import Policy

TABLE_FILE = "synthetic.csv"


# How the tables that a model holds are found.
SelectionChoice = StrEnum("SelectionChoice", ["AUTO", "SCREEN", "ADAPTIVE"])


@takes_ledger
def synthesize(
    data: options.DataArgument,
    policy: options.PolicyOption,
    epsilon: options.EpsilonOption,
    delta: options.DeltaOption,
    out: options.ResultsOption,
    rows: Annotated[
        int | None,
        typer.Option(min=1, help="Synthetic rows; default: as many as the table."),
    ] = None,
    method: Annotated[
        MethodChoice,
        typer.Option(help="What is protected: corr, standard or semi."),
    ] = MethodChoice.CORR,
    selection: Annotated[
        SelectionChoice,
        typer.Option(
            help="screen: tables are chosen from noisy ones, free. adaptive: round by "
            "round, paid. auto: by the noise that screening would have."
        ),
    ] = SelectionChoice.AUTO,
    constraints: Annotated[
        Path | None,
        typer.Option(help="TOML file of what never occurs and what determines what."),
    ] = None,
    bins: Annotated[int, typer.Option(help="Bins of numbers that declare none.")] = 16,
    max_cells: Annotated[
        int,
        typer.Option(help="Most cells of the model: bounds time and memory."),
    ] = 100_000,
    leakage: options.LeakageOption = None,
    title: options.TitleOption = None,
    paying: LedgerOptions = NO_LEDGER,
    spreadsheet_safe: options.SpreadsheetSafeOption = False,
    seed: options.SeedOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a synthetic table with the policy's columns, its model and certificate.

    More rows can be drawn at any time with corrdp sample, at no cost. A ledger is
    charged before anything is counted; the model appears once it is fitted, the rows
    and the report in one move at the end.

    Example: corrdp synthesize data.csv --policy policy.toml --epsilon 1 --delta 1e-6
    --out synthetic
    """
    from corrdp.ledger import open_ledger
    from corrdp.policy import read_declared
    from corrdp.report import summarize, with_ledger
    from corrdp.synthesis import Synthesizer

    declared, known = models.read_policy(policy, leakage)
    choice = paying.choice(delta=delta, leakage=known)
    models.require_place(out, TABLE_FILE)
    if not spreadsheet_safe:  # before anything is paid for
        refuse_formulas(declared_texts(declared), "names and categories")
    maker = Synthesizer(
        declared,
        epsilon=epsilon,
        delta=delta,
        leakage=known,
        method=method.value,
        selection=selection.value,
        bins=bins,
        max_cells=max_cells,
        random_state=seed,
        **_knowledge(constraints),
    )
    with results(out) as staging:
        with working("Reading the table"):
            table = read_declared(data, declared)
        plan = maker.plan(table.num_rows)
        account = None
        if choice is not None:
            distances = plan.leakage.distances
            account = open_ledger(choice, plan.policy, leakage=distances)
        with working("Counting and fitting"):
            maker.fit(table, ledger=account, accept_new_data=paying.accept_new_data)
        maker.save(staging)
        write_text(staging / "certificate.txt", maker.certificate_.to_text())
    # The model is paid for and kept, even if more rows are wanted than there is room.
    with results(out) as staging:
        with working("Drawing rows"):
            drawn = maker.sample(rows, random_state=seed, output="pyarrow")
        write_table(staging / TABLE_FILE, drawn, spreadsheet_safe=spreadsheet_safe)
        with working("Writing the report"):
            summary = summarize(
                maker.policy_,
                maker.certificate_,
                title=title or "Synthetic table",
                n_rows=table.num_rows,
                leakage=known,
            )
            if account is not None:
                summary = with_ledger(summary, account)
            models.write_summary(staging, summary)
    show(
        {
            "certificate": maker.certificate_.to_dict(),
            "rows": drawn.num_rows,
            "pairs": [list(pair) for pair in maker.pairs_],
            "out": str(out),
        },
        as_json=as_json,
        text=f"{maker.certificate_.to_short_text()}\n{drawn.num_rows} synthetic rows "
        f"in {out / TABLE_FILE}. Report: {out / 'report.html'}; every claim in words: "
        f"corrdp certificate show {out}",
    )


def declared_texts(policy: "Policy") -> list[str]:
    """Return the names and categories of all columns, which synthetic rows hold."""
    names = [column.name for column in policy.columns]
    domains = [column.domain for column in policy.columns]
    return names + [str(v) for d in domains for v in getattr(d, "categories", ())]


def write_table(path: Path, table: Any, *, spreadsheet_safe: bool) -> None:
    """Write a pyarrow table as CSV; a gap is an empty cell."""
    columns = [column.to_pylist() for column in table.columns]
    lines = zip(*columns, strict=True)
    text = csv_text(table.column_names, lines, spreadsheet_safe=spreadsheet_safe)
    write_text(path, text)


def _knowledge(path: Path | None) -> dict[str, Any]:
    """Return the declared zeros of a TOML file, as `Synthesizer` takes them."""
    if path is None:
        return {}
    remedy = "Pass a TOML file with [[impossible]] and [[determines]]."
    document = options.read_toml(path, remedy)
    stray = set(document) - {"impossible", "determines"}
    if stray or not all(isinstance(value, list) for value in document.values()):
        raise CorrDPError(
            f"{str(path)!r} may hold [[impossible]] and [[determines]] entries only, "
            f"got {', '.join(sorted(map(repr, document)))}. Remove the others."
        )
    return document
