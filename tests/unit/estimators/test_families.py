"""An estimator's budget is that of its whole family of clones and copies."""

import copy
import pickle
from fractions import Fraction

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.estimators._family import Family, share_of
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import Budget
from linear_model_examples import (
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)

FRAME = example_frame(600)


def family(**options):
    return model_of(**{"n_steps": 5, "epsilon": 8.0, "delta": 1e-3} | options)


def copies():
    """Every way in which one estimator becomes two."""

    def by_pipeline(model):
        return clone(make_pipeline(model))[-1]

    def by_parameters(model):
        return model.set_params(n_steps=6)

    def by_file(model, path):
        joblib.dump(model, path)
        return joblib.load(path)

    return {
        "itself": lambda model, path: model,
        "clone": lambda model, path: clone(model),
        "clone of a clone": lambda model, path: clone(clone(model)),
        "copy": lambda model, path: copy.copy(model),
        "deepcopy": lambda model, path: copy.deepcopy(model),
        "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
        "joblib": by_file,
        "pipeline": lambda model, path: by_pipeline(model),
        "set_params": lambda model, path: by_parameters(model),
    }


@pytest.mark.parametrize("way", list(copies()))
@pytest.mark.parametrize("when", ["before the fit", "after the fit"])
def test_the_second_fit_of_a_family_raises(way, when, tmp_path):
    first = family()
    if when == "before the fit":
        second = copies()[way](first, tmp_path / "model")
        first.fit(FRAME)
    else:
        second = copies()[way](first.fit(FRAME), tmp_path / "model")
    other_rows = example_frame(500, seed=1)
    with pytest.raises(BudgetError, match=r"1 fit, epsilon 8, delta 0\.001"):
        second.fit(other_rows)


def test_a_new_estimator_is_a_new_family():
    family().fit(FRAME)
    family().fit(FRAME)


def test_the_message_says_what_was_spent_and_the_remedies():
    model = family(fits=2).fit(FRAME).fit(FRAME)
    with pytest.raises(BudgetError) as caught:
        model.fit(FRAME)
    message = str(caught.value)
    assert "2 fits, epsilon 8, delta 0.001" in message
    assert "would add epsilon 4, delta 0.0005" in message
    lines = message.splitlines()[1:]
    for line, word in zip(
        lines, ["fits=", "ledger=", "disjoint=True", "research=True"], strict=True
    ):
        assert word in line


def test_nothing_is_read_before_the_refusal():
    class Untouchable:
        def __getattr__(self, name):
            raise AssertionError(f"{name} was read")

    model = family().fit(FRAME)
    with pytest.raises(BudgetError):
        model.fit(Untouchable())


# --- scikit-learn's own loops


def test_grid_search_is_refused():
    search = GridSearchCV(family(), {"n_steps": [4, 5]}, cv=3, error_score="raise")
    with pytest.raises(BudgetError, match="fits="):
        search.fit(FRAME, FRAME.rich)


def test_grid_search_that_swallows_errors_raises_at_its_refit():
    search = GridSearchCV(family(), {"n_steps": [4, 5]}, cv=3)
    with (
        pytest.warns(FitFailedWarning, match="clones and copies"),
        pytest.warns(UserWarning, match="non-finite"),
        pytest.raises(BudgetError),
    ):
        search.fit(FRAME, FRAME.rich)


def test_cross_validation_is_refused():
    with pytest.raises(BudgetError):
        cross_val_score(family(), FRAME, FRAME.rich, cv=3, error_score="raise")


def test_a_pipeline_belongs_to_the_family():
    pipeline = make_pipeline(FunctionTransformer(), family())
    pipeline.fit(FRAME, FRAME.rich)
    with pytest.raises(BudgetError):
        clone(pipeline).fit(FRAME, FRAME.rich)


def test_threads_share_the_record():
    shared = family()
    outcomes = joblib.Parallel(n_jobs=4, prefer="threads")(
        joblib.delayed(outcome)(clone(shared)) for _ in range(4)
    )
    assert outcomes.count("fitted") == 1


def outcome(model):
    try:
        model.fit(FRAME)
    except BudgetError as error:
        return str(error)
    return "fitted"


# --- the four ways out


def test_a_declared_number_of_fits_shares_the_budget():
    model = family(fits=2)
    for _ in range(2):
        certificate = clone(model).fit(FRAME).certificate_
        assert certificate.epsilon <= 4.0
        assert certificate.delta <= 5e-4


def test_grid_search_with_a_declared_number_of_fits():
    grid = {"n_steps": [4, 5]}
    search = GridSearchCV(family(fits=7), grid, cv=3).fit(FRAME, FRAME.rich)
    certificate = search.best_estimator_.certificate_
    assert certificate.epsilon <= 8.0 / 7
    assert certificate.delta <= 1e-3 / 7
    assert certificate.verify(search.best_estimator_.policy_)
    with pytest.raises(BudgetError, match="7 fits"):
        search.best_estimator_.fit(FRAME)


@pytest.mark.parametrize("fits", [1, 3, 7, 49, 1000])
@pytest.mark.parametrize("total", [0.1, 1.0, 8.0, 1e-6])
def test_shares_never_exceed_the_whole(total, fits):
    share = share_of(total, fits)
    assert Fraction(share) * fits <= Fraction(total)
    assert share == pytest.approx(total / fits, rel=1e-15)


def test_the_cap_of_a_class_is_shared_as_well():
    policy = example_policy(epsilon_cap=10.0)
    model = family(policy=policy, fits=4).fit(FRAME)
    for claim in model.certificate_.classes.values():
        if claim.promised:
            assert claim.allowed_epsilon <= 10.0 / 4
    assert model.policy_.epsilon_cap == 2.5


def test_a_cap_that_one_fit_took_is_spent_although_the_budget_was_raised():
    """One fit leaves a class at the cap; half of a raised budget would come on top."""
    model = family(policy=example_policy(epsilon_cap=10.0), epsilon=4.0).fit(FRAME)
    first = model.certificate_
    assert first.classes["insensitive:sex"].allowed_epsilon == 10.0
    model.set_params(epsilon=8.0, delta=2e-3, fits=2)
    with pytest.raises(BudgetError, match=r"the cap 10 .* Spent: 10; .* would add 4"):
        model.fit(FRAME)
    assert model.certificate_ is first
    model.set_params(method="standard", delta=3e-3, fits=3)
    with pytest.raises(BudgetError, match="the cap 10"):
        model.fit(FRAME)


def test_a_raised_budget_is_there_where_no_class_has_more_than_epsilon():
    model = family(method="standard", epsilon=4.0).fit(FRAME)
    model.set_params(epsilon=8.0, delta=2e-3, fits=2).fit(FRAME)
    assert model.certificate_.target_epsilon == 4.0


@pytest.mark.parametrize("flag", ["disjoint", "research"])
@pytest.mark.parametrize("value", ["no", "False", 0, None, []])
def test_a_promise_is_declared_by_true_and_not_by_any_text(flag, value):
    with pytest.raises(CorrDPError, match=f"{flag} must be True or False"):
        family(**{flag: value}).fit(FRAME)


def test_flags_may_be_those_of_numpy():
    family(disjoint=np.bool_(True), research=np.bool_(False)).fit(FRAME)


def test_threads_that_copy_an_unused_estimator_at_once_share_one_record(monkeypatch):
    """One thread asks for the record while another is about to make it."""
    model, found = family(), []

    def interrupted(estimator):
        if not found:
            found.append(None)
            found.append(clone(model).family)
        return Family()

    monkeypatch.setattr("corrdp.estimators._private.new_family", interrupted)
    assert model.family is found[1]


def test_declared_disjoint_fits_cost_as_much_as_one():
    model = family(disjoint=True)
    for part in (FRAME[:200], FRAME[200:400], FRAME[400:]):
        fitted = clone(model).fit(part)
        assert fitted.certificate_.epsilon == pytest.approx(8.0, rel=1e-6)
    with pytest.raises(BudgetError, match="3 fits, epsilon 8"):
        clone(model).set_params(disjoint=False).fit(FRAME)


def test_disjoint_must_be_declared_for_all_fits():
    model = family().fit(FRAME[:300])
    with pytest.raises(BudgetError):
        model.set_params(disjoint=True).fit(FRAME[300:])


@pytest.fixture
def ledger(tmp_path):
    budget = Budget(epsilon=30.0, delta=1e-2)
    return Ledger.create(tmp_path / "rows.ledger", example_policy(), budget=budget)


def paid(ledger):
    return [e for e in Ledger.open(ledger.path).entries() if e["kind"] == "charge"]


@pytest.mark.parametrize("as_path", [True, False])
def test_a_ledger_pays_for_every_fit_until_it_is_empty(ledger, as_path):
    model = family(ledger=ledger.path if as_path else ledger, epsilon=1.0)
    scores = cross_val_score(model, FRAME, FRAME.rich, cv=3, error_score="raise")
    assert len(paid(ledger)) == len(scores) == 3
    assert paid(ledger)[0]["purpose"] == "LogisticRegression, method corr"
    model.set_params(epsilon=20.0).fit(FRAME)
    with pytest.raises(BudgetError, match="left of"):
        model.fit(FRAME)


def test_what_a_ledger_refuses_is_not_spent_and_not_fitted(ledger):
    model = family(ledger=ledger, epsilon=100.0)
    with pytest.raises(BudgetError, match="left of"):
        model.fit(FRAME)
    assert model.family.n_fits == 0
    assert not hasattr(model, "policy_")
    assert paid(ledger) == []


def test_a_fit_that_a_ledger_paid_leaves_no_budget_for_one_without(ledger):
    model = family(ledger=ledger).fit(FRAME)
    with pytest.raises(BudgetError, match="1 fit"):
        model.set_params(ledger=None).fit(FRAME)


def test_whoever_charges_a_fit_pays_for_it():
    model, charged = family(), []
    for _ in range(3):
        model.fit(FRAME, charge=charged.append)
    assert charged[-1] == model.certificate_
    assert len(charged) == 3
    with pytest.raises(BudgetError, match="3 fits"):
        model.fit(FRAME)


def test_research_is_not_limited_but_remembered():
    model = family(research=True)
    cross_val_score(model, FRAME, FRAME.rich, cv=3)
    model.fit(FRAME)
    assert model.certificate_.research
    with pytest.raises(BudgetError, match="4 fits"):
        model.set_params(research=False).fit(FRAME)


def test_a_raised_epsilon_does_not_forget():
    model = family().fit(FRAME)
    with pytest.raises(BudgetError, match="1 fit, epsilon 8"):
        model.set_params(epsilon=9.0).fit(FRAME)


def test_a_record_that_cannot_be_shared_refuses(monkeypatch):
    model = family(fits=9)
    assert model.family.n_fits == 0
    monkeypatch.setattr("corrdp.estimators._family.os.getpid", lambda: -2)
    with pytest.raises(BudgetError, match="another process"):
        model.fit(FRAME)
    model.set_params(research=True).fit(FRAME)


# --- a saved model has spent its budget


def test_a_loaded_model_has_spent_its_budget(tmp_path):
    family().fit(FRAME).save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    with pytest.raises(BudgetError, match="1 fit, epsilon 8"):
        loaded.fit(FRAME)


@pytest.mark.parametrize("fits", [0, 1.5, -2])
def test_the_number_of_fits_is_a_count(fits):
    with pytest.raises(CorrDPError, match="fits must be"):
        family(fits=fits).fit(FRAME)


# --- a fit that raises


def test_a_refused_fit_leaves_the_whole_earlier_fit():
    model = family().fit(FRAME)
    before = dict(vars(model))
    predicted = model.predict(FRAME)
    with pytest.raises(BudgetError):
        model.fit(example_frame(300, seed=5))
    assert vars(model) == before
    assert model.certificate_.verify(model.policy_)
    np.testing.assert_array_equal(model.predict(FRAME), predicted)


def test_a_fit_that_breaks_off_leaves_the_whole_earlier_fit(monkeypatch):
    model = LinearRegression(
        regression_policy(), epsilon=8.0, delta=1e-4, n_steps=5, fits=2
    ).fit(regression_frame())
    coef, certificate = model.coef_, model.certificate_

    def broken(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("corrdp.estimators._fitting._descended", broken)
    with pytest.raises(KeyboardInterrupt):
        model.fit(regression_frame())
    assert model.certificate_ is certificate
    np.testing.assert_array_equal(model.coef_, coef)
    assert model.family.n_fits == 2  # it was paid for


def test_a_first_fit_that_raises_leaves_nothing_fitted():
    model = family()
    with pytest.raises(CorrDPError):
        model.fit(FRAME, FRAME.rich[:-1])
    assert [name for name in vars(model) if name.endswith("_")] == []


def test_nothing_of_a_research_fit_outlives_it():
    model = family(research=True, disjoint=True).fit(FRAME[:300])
    assert model.n_clipped_rows_ == 0
    assert model.certificate_.research
    assert "RESEARCH" in model.certificate_.to_text()
    model.set_params(research=False).fit(FRAME[300:])
    assert not hasattr(model, "n_clipped_rows_")
    assert not model.certificate_.research
    assert "RESEARCH" not in model.certificate_.to_text()


# --- what a fit leaves

LISTED = {
    "certificate_", "classes_", "feature_names_in_", "hindsight_", "n_features_in_",
    "plan_", "planned_", "policy_", "_coef", "_deviation", "_encoder", "_family",
    "_intercept", "_kept", "_path",
}  # fmt: skip


def test_a_private_fit_sets_nothing_but_what_is_listed():
    model = family()
    before = set(vars(model))
    model.fit(FRAME)
    assert set(vars(model)) - before == LISTED


def test_two_fits_without_a_seed_differ():
    first, second = (family(random_state=None).fit(FRAME) for _ in range(2))
    assert not np.array_equal(first.coef_, second.coef_)
    seeded = [family(random_state=3).fit(FRAME).coef_ for _ in range(2)]
    np.testing.assert_array_equal(*seeded)


@pytest.mark.parametrize("fits", [1, 2, 3])
def test_a_model_from_a_file_has_the_fits_that_are_left(fits, tmp_path):
    """What a file says of its cap is that of one fit, as its parameters are of all."""
    model = family(fits=fits, method="corr").fit(FRAME)
    model.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    assert loaded.policy.epsilon_cap == pytest.approx(model.policy.epsilon_cap)
    assert loaded.policy.epsilon_cap <= model.policy.epsilon_cap
    for _ in range(fits - 1):
        loaded.fit(FRAME)
        assert loaded.certificate_.epsilon_cap <= model.certificate_.epsilon_cap
    with pytest.raises(BudgetError):
        loaded.fit(FRAME)


class WithOneMore(LogisticRegression):
    """As users derive: some parameters of the base, and one of their own."""

    def __init__(self, policy=None, *, epsilon=None, delta=None, note=""):
        super().__init__(policy, epsilon=epsilon, delta=delta, n_steps=5)
        self.note = note


def test_a_derived_class_with_parameters_of_its_own_is_a_family_as_well():
    model = WithOneMore(example_policy(), epsilon=8.0, delta=1e-3, note="mine")
    assert clone(model).note == "mine"
    clone(model).fit(FRAME)
    with pytest.raises(BudgetError, match="Spent: 1 fit"):
        model.fit(FRAME)
