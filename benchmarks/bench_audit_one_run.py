"""Power and false alarms of audits in one run, by either bound.

Run: python benchmarks/bench_audit_one_run.py. Every canary has a coordinate of its own
with normal noise, which is the best that canaries can do; some numbers of guesses are
tried and share an error of 5 per cent. The share of 1000 audits that call the claim
broken is saved with the table of the documentation.
"""

import numpy as np
from saved_tables import markdown_table, save_figures, save_table

from corrdp.auditing import Claim
from corrdp.auditing._one_run import _BOUNDS

FAILURE = 0.05
N_AUDITS = 1000
FACTORS = (1.0, 0.8, 0.5, 0.25)  # of the noise that is claimed
GUESSED = (1 / 16, 1 / 8, 1 / 4)


def fewest(bound, claim, n_guesses, n_canaries):
    """Return the smallest number of correct guesses that contradicts the claim."""
    low, high = 0, n_guesses + 1
    while low < high:
        middle = (low + high) // 2
        refuted = _BOUNDS[bound](
            middle,
            n_guesses=n_guesses,
            n_canaries=n_canaries,
            claim=claim,
            failure_probability=FAILURE / len(GUESSED),
        )
        low, high = (low, middle) if refuted else (middle + 1, high)
    return low


def caught(mu, limits, n_canaries, rng):
    """Return the share of audits in which some number of guesses passes its limit."""
    found = 0
    for _ in range(N_AUDITS):
        coins = rng.random(n_canaries) < 0.5
        scores = np.where(coins, mu, -mu) / 2 + rng.standard_normal(n_canaries)
        surest = np.argsort(-np.abs(scores))
        right = np.cumsum((scores > 0)[surest] == coins[surest])
        found += any(right[count - 1] >= limit for count, limit in limits.items())
    return found / N_AUDITS


def measured():
    """Return a row per claim, number of canaries and bound."""
    rng = np.random.default_rng(0)
    rows = []
    for mu in (0.3, 1.0):
        for n_canaries in (500, 5000):
            counts = [round(part * n_canaries) for part in GUESSED]
            for bound in _BOUNDS:
                claim = Claim.gaussian(mu, delta=1e-5)
                limits = {c: fewest(bound, claim, c, n_canaries) for c in counts}
                shares = {
                    f"{factor:g}": caught(mu / factor, limits, n_canaries, rng)
                    for factor in FACTORS
                }
                row = {"mu": mu, "n_canaries": n_canaries, "bound": bound}
                rows.append(row | {"caught": shares})
                print(rows[-1], flush=True)
    return rows


def table(rows):
    """Return the table of the documentation."""
    header = ["claimed mu", "canaries", "bound"]
    header += [f"noise x {factor:g}" for factor in FACTORS]
    lines = []
    for row in rows:
        shares = [f"{share:.3f}" for share in row["caught"].values()]
        lines.append([f"{row['mu']:g}", str(row["n_canaries"]), row["bound"], *shares])
    return markdown_table(header, lines)


def run():
    """Measure, save, and return what the page of all benchmarks shows."""
    saved = measured()
    save_figures("audit_one_run", saved)
    save_table("audit_one_run", table(saved))
    return [
        {
            "name": f"mu {row['mu']:g}, {row['n_canaries']} canaries, {row['bound']}",
            "value": row["caught"]["0.5"],
            "unit": "share",
            "note": f"half the noise caught; alarms if sound {row['caught']['1']:g}",
        }
        for row in saved
    ]


if __name__ == "__main__":
    run()
