"""Estimators behind transformers: names of columns, routed arguments, output."""

import pandas as pd
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from corrdp.datasets import hospital_policy_text, hospital_table
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import PolicyError
from corrdp.policy import Policy, PolicyEncoder

POLICY = Policy.from_toml(hospital_policy_text())
TABLE = hospital_table(300)
FEATURES = TABLE.drop(columns="readmitted")


def model():
    return LogisticRegression(POLICY, epsilon=1.0, delta=1e-6)


def transformer(**settings):
    parts = [("kept", "passthrough", list(FEATURES.columns))]
    return ColumnTransformer(parts, **settings).set_output(transform="pandas")


def test_prefixed_names_are_answered_with_the_setting_that_helps():
    with pytest.raises(PolicyError, match="verbose_feature_names_out=False"):
        make_pipeline(transformer(), model()).fit(FEATURES, TABLE["readmitted"])


def test_names_without_a_prefix_are_found():
    plain = transformer(verbose_feature_names_out=False)
    pipeline = make_pipeline(plain, model()).fit(FEATURES, TABLE["readmitted"])
    assert list(pipeline[-1].feature_names_in_) == [f.name for f in POLICY.features]


def test_what_fit_takes_beside_rows_is_routed_through_a_pipeline():
    charged = []
    estimator = model()
    with sklearn.config_context(enable_metadata_routing=True):
        estimator.set_fit_request(public_rows=True, charge=True)
        pipeline = make_pipeline(FunctionTransformer(), estimator)
        pipeline.fit(
            FEATURES, TABLE["readmitted"], charge=charged.append, public_rows=TABLE
        )
    assert charged == [estimator.certificate_]


def test_the_encoder_writes_the_kind_of_table_that_is_asked_for():
    encoder = PolicyEncoder(POLICY).set_output(transform="pandas")
    found = encoder.fit(FEATURES).transform(FEATURES)
    assert isinstance(found, pd.DataFrame)
    assert list(found.columns) == encoder.get_feature_names_out().tolist()
