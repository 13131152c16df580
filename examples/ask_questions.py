"""Ask for means and counts within one budget.

Questions are planned together, so that noise goes where it must.
"""

from corrdp.datasets import hospital_policy, hospital_table
from corrdp.queries import answer_queries

answers = answer_queries(
    hospital_table(5_000),
    hospital_policy(),
    ["mean(age)", "mean(income)", "count() by region"],
    epsilon=0.5,
    random_state=0,
)
print(answers.to_text())
