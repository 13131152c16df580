"""A small register of people: a table and its policy."""

import numpy as np
import pandas as pd

N_ROWS = 4_000
POLICY_TEXT = """
relation = "one_insensitive"

[features.income]
role = "sensitive"
type = "number"
bounds = [0, 100]
bins = 10

[features.smoker]
role = "sensitive"
type = "boolean"

[features.age]
role = "insensitive"
type = "number"
bounds = [0, 100]
bins = 10
leakage = 0.3

[features.hours]
role = "insensitive"
type = "number"
bounds = [0, 60]
missing = "slot"
leakage = 0.2

[features.sector]
role = "insensitive"
type = "category"
categories = ["industry", "trade", "office"]
leakage = 0.2

[features.region]
role = "public"
type = "category"
categories = ["north", "south", "east"]

[features.sex]
role = "insensitive"
type = "category"
categories = ["f", "m"]
leakage = 0.1
"""


def people_table(n_rows=N_ROWS, seed=0):
    generator = np.random.default_rng(seed)
    age = generator.integers(0, 101, n_rows).astype(float)
    hours = generator.integers(0, 61, n_rows).astype(float)
    hours[generator.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "income": np.round(generator.gamma(4.0, 8.0, n_rows).clip(0, 100), 2),
            "smoker": generator.random(n_rows) < 0.3,
            "age": age,
            "hours": hours,
            "sector": generator.choice(["industry", "trade", "office"], n_rows),
            "region": generator.choice(["north", "south", "east"], n_rows),
            "sex": generator.choice(["f", "m"], n_rows),
        }
    )
