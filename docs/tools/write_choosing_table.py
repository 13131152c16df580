"""Write docs/results/choosing.inc: what epsilons mean for an attack."""

from pathlib import Path

from corrdp.accounting import GaussianEvent, attack_risk, gaussian_mu
from corrdp.certificate import percent, rounded_up

PAGE = Path(__file__).parents[1] / "results" / "choosing.inc"
EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
DELTA = 1e-6
HEADS = (
    "epsilon",
    "mu",
    "found at 1 % false alarms",
    "a 10 % guess becomes",
    "even odds become",
)


def choosing_table() -> str:
    """Return the table as Markdown."""
    lines = [f"| {' | '.join(HEADS)} |", "|" + "---|" * len(HEADS)]
    for epsilon in EPSILONS:
        mu = gaussian_mu(epsilon=epsilon, delta=DELTA)
        risk = attack_risk([GaussianEvent(mu)])
        cells = (
            f"{epsilon:g}",
            rounded_up(risk.mu),
            percent(risk.true_positive_rate[0.01]),
            percent(risk.guess[0.1]),
            percent(risk.even_odds),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(choosing_table(), encoding="utf-8")
