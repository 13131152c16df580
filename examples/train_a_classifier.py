"""Train a classifier and read its certificate.

Patients of an invented hospital; diagnosis and income are sensitive. A fixed seed makes
this page the same every time, and the certificate says so: leave it out for a release.
"""

from corrdp.datasets import hospital_policy, hospital_table
from corrdp.estimators import LogisticRegression

table = hospital_table(5_000)
fresh = hospital_table(5_000, random_state=1)
model = LogisticRegression(hospital_policy(), epsilon=0.5, delta=1e-6, random_state=0)
model.fit(table, table["readmitted"])
print(model.certificate_.to_short_text())
print(f"accuracy on fresh, public rows: {model.score(fresh, fresh['readmitted']):.3f}")
