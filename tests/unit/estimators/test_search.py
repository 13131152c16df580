"""A private search: what it costs, what it releases, and what it refuses."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr
from sklearn.base import clone
from sklearn.model_selection import KFold

from corrdp import audit
from corrdp.accounting import (
    GaussianEvent,
    SelectedGaussianEvent,
    renyi_divergence,
)
from corrdp.estimators import (
    AdditiveClassifier,
    AllSensitive,
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    PrivateSearchCV,
)
from corrdp.estimators._linear_model import PrivateLinearModel
from corrdp.estimators._search import best_of_runs, drawn_candidates
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.leakage import estimate_leakage
from corrdp.ledger import Ledger
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.queries import answer_queries
from helpers.statistics import dkw_radius, ks_distance
from linear_model_examples import (
    example_frame,
    example_policy,
    regression_frame,
    regression_policy,
)

FRAME = example_frame(600)
FIVE = {"n_steps": [2, 3, 4, 5, 6]}
TWENTY = {"n_steps": list(range(2, 22))}


def search(grid=None, *, policy=None, estimator=LogisticRegression, **options):
    chosen = {"epsilon": 4.0, "delta": 1e-5, "random_state": 0} | options
    return PrivateSearchCV(
        estimator(policy or example_policy()), grid or FIVE, **chosen
    )


def mu_of(certificate, name):
    """Return what a plain fit costs a class."""
    events = [e for part in certificate.components for e in part.events_of(name)]
    assert all(isinstance(event, GaussianEvent) for event in events)
    return math.sqrt(sum(event.count * event.mu**2 for event in events))


def dearest_fits(made):
    """Return what fits of all candidates cost by their own certificates."""
    budget = made.plan_.fit_budget
    fits = [
        LogisticRegression(
            made.plan_.fit_policy,
            epsilon=budget.epsilon,
            delta=budget.delta,
            random_state=0,
            **settings,
        ).fit(example_frame(made.plan_.n_train))
        for settings in made.plan_.candidates
    ]
    return {
        name: [mu_of(fit.certificate_, name) for fit in fits]
        for name in made.certificate_.classes
    }


@pytest.mark.filterwarnings("ignore::corrdp.exceptions.UtilityWarning")
@pytest.mark.parametrize("cv", [None, 0.25])
def test_every_class_pays_for_the_dearest_fit_and_its_score(cv):
    made = search(cv=cv).fit(FRAME)
    score_mu = 1 / made.plan_.score_noise
    for name, mus in dearest_fits(made).items():
        (event,) = made.certificate_.components[0].events_of(name)
        assert isinstance(event, SelectedGaussianEvent)
        assert event.mean_runs == 5
        run = max(max(mus), score_mu) if cv else math.hypot(max(mus), score_mu)
        assert event.mu == pytest.approx(run, rel=1e-6)
        assert event.mu >= run
    assert made.certificate_.classes["sensitive"].epsilon <= 4.0
    assert made.certificate_.verify(made.best_estimator_.policy_)


@pytest.mark.filterwarnings("ignore::corrdp.exceptions.UtilityWarning")
def test_few_candidates_are_each_run_once_and_all_scores_are_paid():
    made = search({"n_steps": [3, 5]}).fit(FRAME)
    assert made.plan_.mean_runs is None
    score_mu = 1 / made.plan_.score_noise
    for name, mus in dearest_fits(made).items():
        (event,) = made.certificate_.components[0].events_of(name)
        assert isinstance(event, GaussianEvent)
        expected = math.sqrt(sum(mu**2 + score_mu**2 for mu in mus))
        assert event.mu == pytest.approx(expected, rel=1e-6)
    scores = made.cv_results_["noisy_score"]
    assert made.best_score_ == max(scores)
    assert made.best_index_ == int(np.argmax(scores))


def test_twenty_candidates_leave_more_than_half_of_epsilon_to_each_fit():
    plan = search(TWENTY, epsilon=1.0).plan(4000)
    assert plan.mean_runs == 20
    assert plan.fit_budget.epsilon > 0.5
    assert plan.certificate.classes["sensitive"].epsilon <= 1.0
    fixed = search(TWENTY, epsilon=1.0, runs="all").plan(4000)
    assert fixed.fit_budget.epsilon < 0.25
    assert "random: 20 on average" in plan.to_text()
    assert "sensitive: epsilon 0.99" in plan.to_text()
    assert "fixed: each of 20" in fixed.to_text()
    assert plan.to_json()["runs"] == "random"
    assert plan.chance_of_each == pytest.approx(0.5128, abs=1e-4)


def test_the_price_is_stated_before_a_row_is_read(capsys):
    made = search(verbose=1)

    def look(certificate):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        made.fit(FRAME, charge=look)
    assert made.plan(600).to_text() in capsys.readouterr().out
    made.fit(FRAME)  # nothing was spent by a charge that was refused


def test_runs_are_geometric_and_candidates_uniform():
    generator = np.random.default_rng(0)
    drawn = [drawn_candidates(5.0, 4, generator) for _ in range(4000)]
    numbers = np.array([len(runs) for runs in drawn])

    def geometric(points):
        return 1 - 0.8 ** np.floor(np.maximum(points, 0))

    radius = dkw_radius(numbers.size, false_alarm_probability=1e-9)
    assert ks_distance(numbers, geometric) < radius
    candidates = np.concatenate(drawn)
    radius = dkw_radius(candidates.size, false_alarm_probability=1e-9)
    assert (
        ks_distance(candidates, lambda x: np.clip(np.floor(x) + 1, 0, 4) / 4) < radius
    )


def test_the_released_run_has_the_law_of_the_proof():
    scores = np.array([[3.0, 1.0, 3.0], [2.0, 0.0, 4.0]])  # of two candidates, tied
    chances = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    generator = np.random.default_rng(1)

    def one_run(candidate):
        outcome = generator.choice(3, p=chances[candidate])
        return scores[candidate, outcome], outcome

    mean_runs, n_searches = 3.0, 8000
    counts = np.zeros((2, 3))
    for _ in range(n_searches):
        indices = drawn_candidates(mean_runs, 2, generator)
        index, score, outcome = best_of_runs(one_run, indices)
        assert score == scores[index, outcome]
        counts[index, outcome] += 1
    law, stop = chances / 2, 1 / mean_runs

    def generated(share):
        return stop * share / (1 - (1 - stop) * share)

    radius = math.sqrt(math.log(2 * 6 / 1e-9) / (2 * n_searches))  # Hoeffding
    for index in np.ndindex(2, 3):
        tied = law[scores == scores[index]].sum()
        worse = law[scores < scores[index]].sum()
        mass = (generated(worse + tied) - generated(worse)) * law[index] / tied
        assert abs(counts[index] / n_searches - mass) < radius


def test_scores_have_the_noise_that_is_paid_for():
    rows = FRAME.iloc[:40]
    made = search(cv=None)
    plan = made.plan(600)
    model = search().fit(FRAME).best_estimator_
    exact = float((model.predict(rows) == rows.rich).sum())
    generator = np.random.default_rng(2)
    noise = [
        made._score(plan, model, (rows, rows.rich), generator) - exact
        for _ in range(300)
    ]
    distance = ks_distance(np.array(noise) / plan.score_noise, ndtr)
    assert distance < dkw_radius(300, false_alarm_probability=1e-9)


@pytest.mark.parametrize("scoring", ["accuracy", "neg_log_loss"])
def test_one_row_moves_a_score_by_one_at_most_and_some_row_by_one(scoring):
    made = search(scoring=scoring)
    plan = replace(made.plan(600), score_noise=0.0)
    model = search(epsilon=100.0).fit(FRAME).best_estimator_
    base = FRAME.iloc[:3].reset_index(drop=True)
    totals = []
    for age in (0.0, 50.0, 100.0, 1e6):
        for rich in ("no", "yes"):
            changed = base.assign(age=[age, *base.age[1:]])
            changed["rich"] = [rich, *base.rich[1:]]
            rows = (changed, changed.rich)
            totals.append(made._score(plan, model, rows, np.random.default_rng()))
    assert max(totals) - min(totals) <= 1 + 1e-12
    assert max(totals) - min(totals) > 0.9


def test_the_winner_states_the_price_of_the_search_and_cannot_be_fitted_again(tmp_path):
    made = search()
    copy = clone(made)
    made.fit(FRAME)
    winner = made.best_estimator_
    assert winner.certificate_ == made.certificate_
    assert winner.certificate_.target_epsilon == 4.0
    assert made.plan_.fit_budget.epsilon < winner.certificate_.epsilon <= 4.0
    assert winner.n_steps == made.best_params_["n_steps"]
    for again in (made, copy, winner, clone(winner), made.estimator):
        if not isinstance(again, PrivateSearchCV):
            again.set_params(epsilon=4.0, delta=1e-5)
        else:
            again.estimator.set_params(epsilon=None)
        with pytest.raises(BudgetError, match="1 fit, epsilon 4"):
            again.fit(FRAME)
    with pytest.raises(CorrDPError, match="best of a private search"):
        audit(winner)
    winner.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    assert loaded.certificate_ == made.certificate_
    assert np.array_equal(loaded.predict(FRAME), made.predict(FRAME))
    assert made.predict_proba(FRAME).shape == (600, 2)


def test_nothing_of_other_runs_is_kept():
    made = search().fit(FRAME)
    assert sorted(name for name in vars(made) if name.endswith("_")) == [
        "best_estimator_",
        "best_index_",
        "best_params_",
        "best_score_",
        "certificate_",
        "plan_",
    ]
    assert not hasattr(made, "cv_results_")


def ledger_of(tmp_path, policy, epsilon=8.0):
    budget = Budget(epsilon=epsilon, delta=1e-4)
    return Ledger.create(tmp_path / "rows.ledger", policy, budget=budget)


def charges(ledger):
    return [entry for entry in ledger.entries() if entry["kind"] == "charge"]


def test_search_evaluation_and_queries_share_one_account(tmp_path):
    policy = example_policy()
    ledger = ledger_of(tmp_path, policy)
    made = search(policy=policy, ledger=ledger, epsilon=1.0).fit(FRAME)
    (event,) = made.certificate_.components[0].events["sensitive"]

    def spent(name):
        return ledger.remaining()[name].to_json()["cost_spent"]

    after_search = spent("sensitive")
    order = ledger.remaining()["sensitive"].account.order
    assert after_search == pytest.approx(renyi_divergence(event, order), rel=1e-9)
    made.best_estimator_.evaluate(FRAME, epsilon=0.5, delta=1e-6, random_state=0)
    after_evaluation = spent("sensitive")
    assert after_search < after_evaluation
    answer_queries(FRAME, policy, ["mean(age)"], epsilon=0.5, ledger=ledger)
    assert after_evaluation < spent("sensitive")
    assert charges(ledger)[0]["purpose"].startswith("search over 5")
    assert len(charges(ledger)) == 3
    with pytest.raises(BudgetError):
        search(policy=policy, ledger=ledger, epsilon=8.0).fit(FRAME)
    assert len(charges(ledger)) == 3


def test_an_interrupted_search_is_paid_and_releases_nothing(tmp_path, monkeypatch):
    policy = example_policy()
    ledger = ledger_of(tmp_path, policy, epsilon=9.0)
    fits = []
    honest = PrivateLinearModel.fit_in_search

    def interrupted(self, *arguments):
        fits.append(self)
        if len(fits) == 2:
            raise KeyboardInterrupt
        honest(self, *arguments)

    monkeypatch.setattr(PrivateLinearModel, "fit_in_search", interrupted)
    made = search(policy=policy, ledger=ledger, epsilon=1.0, random_state=1)
    unpaid = search(policy=policy, random_state=1)
    with pytest.raises(KeyboardInterrupt):
        made.fit(FRAME)
    assert len(charges(ledger)) == 1
    assert not [name for name in vars(made) if name.endswith("_")]
    fits.clear()
    with pytest.raises(KeyboardInterrupt):
        unpaid.fit(FRAME)
    with pytest.raises(BudgetError, match="1 fit, epsilon 4"):
        unpaid.fit(FRAME)


def test_a_fit_that_costs_more_than_was_charged_stops_the_search(monkeypatch):
    made = search()
    plan = made.plan(600)
    cheaper = {name: 0.99 * mu for name, mu in plan.fit_mu.items()}
    monkeypatch.setattr(
        PrivateSearchCV, "plan", lambda self, n: replace(plan, fit_mu=cheaper)
    )
    with pytest.raises(GuaranteeVoidError, match="more than the search was charged"):
        made.fit(FRAME)
    assert not hasattr(made, "best_estimator_")


def test_a_cap_of_the_policy_binds_the_whole_search():
    policy = example_policy(epsilon_cap=5.0)
    made = search(policy=policy, epsilon=2.0).fit(FRAME)
    claims = made.certificate_.classes
    assert claims["insensitive:sex"].allowed_epsilon == 5.0
    assert claims["insensitive:sex"].epsilon <= 5.0
    assert made.plan_.fit_policy.epsilon_cap < 5.0
    assert made.best_estimator_.policy_.epsilon_cap == 5.0
    assert made.certificate_.verify(made.best_estimator_.policy_)


def test_seeds_repeat_a_search_and_are_stamped():
    first, second = (search().fit(FRAME) for _ in range(2))
    assert first.best_score_ == second.best_score_
    assert first.best_estimator_.coef_.tolist() == second.best_estimator_.coef_.tolist()
    assert first.certificate_.replayable_noise
    fresh = search(random_state=None).fit(FRAME)
    assert not fresh.certificate_.replayable_noise
    assert fresh.best_score_ != first.best_score_


def test_other_estimators_are_searched_too():
    numbers = search(
        estimator=LinearRegression, policy=regression_policy(), cv=0.3, epsilon=8.0
    ).fit(regression_frame())
    assert -0.2 < numbers.best_score_ < 0.1
    additive = search(estimator=AdditiveClassifier, epsilon=8.0).fit(FRAME)
    assert additive.certificate_.verify(additive.best_estimator_.policy_)
    labels_apart = search().fit(FRAME[["age", "sex", "city"]], FRAME.rich)
    assert labels_apart.best_params_["n_steps"] in FIVE["n_steps"]


REFUSED = {
    "no budget": ({"epsilon": None}, BudgetError, "never inherited"),
    "pure": ({"delta": 0.0}, BudgetError, "positive delta"),
    "promise in the grid": ({"grid": {"epsilon": [1.0]}}, CorrDPError, "promise"),
    "unknown setting": ({"grid": {"depth": [1]}}, CorrDPError, "'depth'"),
    "folds": ({"cv": 5}, CorrDPError, "k - 1"),
    "splitter": ({"cv": KFold(5)}, CorrDPError, "k - 1"),
    "all held out": ({"cv": 1.0}, CorrDPError, "part of the rows"),
    "other score": ({"scoring": "roc_auc"}, CorrDPError, "scoring"),
    "runs in words": ({"runs": "some"}, CorrDPError, "'all'"),
    "no run": ({"runs": 0.5}, CorrDPError, "runs"),
    "all to the score": ({"score_share": 1.0}, BudgetError, "share below 1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_searches_that_cannot_be_priced_are_refused(name):
    options, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        search(**options).fit(FRAME)


ESTIMATORS = {
    "its own budget": (
        LogisticRegression(example_policy(), epsilon=1.0),
        BudgetError,
        "that of the search",
    ),
    "several fits": (
        LogisticRegression(example_policy(), fits=3),
        BudgetError,
        "counts its fits",
    ),
    "leakage to buy": (
        LogisticRegression(example_policy(), leakage="auto"),
        BudgetError,
        "every run",
    ),
    "seed": (
        LogisticRegression(example_policy(), random_state=0),
        GuaranteeVoidError,
        "noise of its own",
    ),
    "samples": (
        LogisticRegression(example_policy(), sampling_rate=0.1),
        CorrDPError,
        "full batches",
    ),
    "no policy": (LogisticRegression(AllSensitive(0, 1)), PolicyError, "Policy"),
    "network": (MLPClassifier(example_policy()), CorrDPError, "MLPClassifier"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_that_cannot_be_searched_are_refused(name):
    estimator, error, words = ESTIMATORS[name]
    with pytest.raises(error, match=words):
        PrivateSearchCV(estimator, FIVE, epsilon=1.0, delta=1e-5).plan(600)


def test_a_leakage_table_of_private_rows_is_refused():
    from corrdp import estimate_leakage

    known = example_policy()
    age = replace(known.feature("age"), domain=NumberDomain(0, 100, bins=2))
    policy = replace(known, features=(age, *known.features[1:]))
    table = estimate_leakage(
        FRAME, policy, source="private", epsilon=1.0, delta=1e-6, random_state=0
    )
    estimator = LogisticRegression(policy, leakage=table)
    with pytest.raises(BudgetError, match="leakage table"):
        PrivateSearchCV(estimator, FIVE, epsilon=1.0, delta=1e-5).plan(600)


@pytest.mark.parametrize(
    ("relation", "chances"),
    [
        ("one_insensitive", [0.6, 0.3, 0.0995, 0.0005]),  # the last levels are joined
        ("all_insensitive", [0.4, 0.3, 0.2, 0.1]),
    ],
)
def test_a_leakage_table_of_public_rows_serves_a_cap_that_binds(relation, chances):
    """The policy of a fit has another cap than the one that the table is of."""
    generator = np.random.default_rng(0)
    n_rows = 4000
    frame = pd.DataFrame(
        {
            "s": generator.choice(["v0", "v1"], n_rows),
            "u": generator.choice(list("abcd"), n_rows, p=chances),
            "y": generator.random(n_rows) < 0.5,
        }
    )
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
            Feature("u", "insensitive", CategoryDomain(tuple("abcd"))),
        ),
        Label("y", BooleanDomain(), 0.0),
        relation=relation,
        epsilon_cap=4.0,
    )
    table = estimate_leakage(frame, policy, source="public", join_levels=True)
    made = PrivateSearchCV(
        LogisticRegression(policy, leakage=table), FIVE, epsilon=4.0, delta=1e-5
    ).fit(frame)
    assert made.plan_.fit_policy.epsilon_cap < policy.epsilon_cap
    claim = made.best_estimator_.certificate_.leakage
    assert claim == table.claim(policy=table.policy_for(policy))
    made.certificate_.verify(made.best_estimator_.policy_)
    joined = table.policy_for(policy).feature("u").domain
    assert made.best_estimator_.policy_.feature("u").domain == joined
