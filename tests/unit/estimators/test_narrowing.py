"""Bounds that a small part of the budget finds: priced, narrow, and read alike."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from command_runner import run
from corrdp._names import NUMBER_COUNTS
from corrdp.accounting import gaussian_mu
from corrdp.certificate import Calibration
from corrdp.estimators import (
    LinearRegression,
    LogisticRegression,
    MLPClassifier,
    PrivateSearchCV,
)
from corrdp.estimators import _narrowing as narrowing
from corrdp.estimators._fitting import Promise
from corrdp.estimators._narrowing import SHARE, interval, plan_narrowing
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
    UtilityWarning,
)
from corrdp.leakage import estimate_leakage, release_number_counts, resolve_leakage
from corrdp.ledger import Ledger
from corrdp.mechanisms.noise import LARGEST_MU
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Replace,
    Slot,
    neighbor_classes,
)
from corrdp.training import CONSTANT

N_ROWS = 6000
BUDGET = Budget(epsilon=1.0, delta=1e-6)


def wide_policy():
    return Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1000)),
            Feature("t", "sensitive", NumberDomain(-500, 500, missing=Slot())),
            Feature("u", "insensitive", NumberDomain(0, 1000), leakage=0.2),
            Feature("full", "insensitive", NumberDomain(0, 1), leakage=0.2),
            Feature("known", "public", NumberDomain(0, 1000)),
            Feature("c", "insensitive", CategoryDomain(("a", "b")), leakage=0.2),
        ),
        Label("y", CategoryDomain(("0", "1")), 0.0),
    )


def wide_rows(n_rows=N_ROWS):
    rng = np.random.default_rng(0)
    u = 30 + 10 * rng.standard_normal(n_rows)
    score = (u - 30) / 10 + rng.logistic(size=n_rows)
    return pd.DataFrame(
        {
            "s": np.abs(20 * rng.standard_normal(n_rows)),
            "t": np.where(rng.random(n_rows) < 0.1, np.nan, 3.0),
            "u": u,
            "full": rng.random(n_rows),
            "known": 500 * rng.random(n_rows),
            "c": rng.choice(["a", "b"], n_rows),
            "y": np.where(score > 0, "1", "0"),
        }
    )


def planned(policy, n_rows=N_ROWS, budget=BUDGET):
    model = LogisticRegression(policy, epsilon=budget.epsilon, delta=budget.delta)
    leakage = resolve_leakage(
        policy, None, declared=policy, calibration=model.calibration
    )
    return plan_narrowing(
        Promise.of(policy, leakage), budget=budget, n_rows=n_rows
    ), leakage


def fitted(bounds="released", rows=None, **options):
    rows = wide_rows() if rows is None else rows
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0} | options
    return LogisticRegression(wide_policy(), bounds=bounds, **options).fit(rows)


def bounds_of(policy):
    return {
        feature.name: (feature.domain.lower, feature.domain.upper)
        for feature in policy.features
        if isinstance(feature.domain, NumberDomain)
    }


def test_counts_cost_every_class_its_share_and_no_more():
    plan, _ = planned(wide_policy())
    classes = {c.name: c for c in neighbor_classes(wide_policy())}
    for name, cost in plan.cost.items():
        moved = [f for f in classes[name].features if f in plan.noise_scale]
        exact = math.sqrt(sum(2.0 / plan.noise_scale[f] ** 2 for f in moved))
        assert cost == pytest.approx(exact, rel=1e-12)
    allowed = gaussian_mu(epsilon=1.0, delta=1e-6)
    assert plan.cost["sensitive"] == pytest.approx(math.sqrt(SHARE) * allowed, rel=1e-6)
    assert plan.cost["insensitive:c"] == 0.0


def test_the_fit_and_the_counts_keep_the_budget_together():
    model = fitted()
    certificate = model.certificate_
    names = [component.name for component in certificate.components]
    assert names[0] == "where numbers lie"
    assert certificate.epsilon <= 1.0
    certificate.verify()
    plan, _ = planned(wide_policy())
    assert model.plan_.spending.total_mu["sensitive"] ** 2 == pytest.approx(
        gaussian_mu(epsilon=1.0, delta=1e-6) ** 2 - plan.cost["sensitive"] ** 2,
        rel=1e-9,
    )


def test_wide_bounds_are_narrowed_and_full_ones_stay():
    model = fitted()
    read = bounds_of(model.policy_)
    assert any("were released" in told for told in model.certificate_.assumptions)
    assert read["u"][1] - read["u"][0] < 200
    assert read["full"] == (0, 1)
    assert read["known"] == (0, 500)  # public columns are counted without noise


def test_a_model_learns_more_between_narrower_bounds():
    rows = wide_rows()
    test = wide_rows(3000)
    scores = {
        bounds: np.mean(
            [
                fitted(bounds, rows, random_state=seed).score(test, test["y"])
                for seed in range(3)
            ]
        )
        for bounds in ("declared", "released")
    }
    assert scores["released"] > scores["declared"] + 0.02


def test_what_is_released_has_the_planned_noise():
    plan, _ = planned(wide_policy())
    rows = wide_rows(400)
    draws = np.array(
        [
            release_number_counts(
                rows,
                wide_policy(),
                plan.noise_scale,
                n_bins=plan.n_bins,
                random_state=seed,
            )["u"]
            for seed in range(60)
        ]
    )
    # Chi-squared of 60 draws of all bins: off by a tenth once in 1e9 or less.
    spread = draws.std(axis=0, ddof=1)
    measured = math.sqrt(float(np.mean(spread**2)))
    assert measured == pytest.approx(plan.noise_scale["u"], rel=0.1)


def test_the_plan_is_that_of_the_fit_and_a_saved_model_reads_rows_alike(tmp_path):
    model = fitted()
    again = LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="released"
    ).plan(N_ROWS)
    assert again.spending.total_mu == model.plan_.spending.total_mu
    assert again.n_steps == model.plan_.n_steps
    model.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    assert loaded.bounds == "released"
    assert bounds_of(loaded.policy_) == bounds_of(model.policy_)
    rows = wide_rows(50)
    assert np.array_equal(loaded.predict_proba(rows), model.predict_proba(rows))


def test_a_loaded_model_knows_what_was_declared(tmp_path):
    features = list(wide_policy().features)
    replaced = NumberDomain(0, 1000, missing=Replace(900.0))
    features[2] = Feature("u", "insensitive", replaced, leakage=0.2)
    policy = replace(wide_policy(), features=tuple(features))
    model = LogisticRegression(
        policy, epsilon=1.0, delta=1e-6, random_state=0, fits=2
    ).fit(wide_rows())
    model.save(tmp_path / "model")
    loaded = LogisticRegression.load(tmp_path / "model")
    assert loaded.policy_ == model.policy_
    assert loaded.policy.features == policy.features
    later = wide_rows().assign(u=lambda frame: frame["u"] + 500)
    lower, upper = bounds_of(loaded.fit(later).policy_)["u"]
    assert lower <= 530 <= upper  # not within what an earlier fit has found


@pytest.mark.parametrize("bounds", [(-4.1, -1.8), (-3.6, 6.3), (-2.6, 7.3), (0.1, 0.7)])
def test_the_last_edge_is_the_declared_one(bounds):
    policy = Policy(
        (Feature("s", "sensitive", NumberDomain(*bounds)),),
        Label("y", CategoryDomain(("0", "1")), 0.0),
    )
    rows = wide_rows()[["y"]].assign(s=bounds[1])
    model = LogisticRegression(policy, epsilon=1.0, delta=1e-6, random_state=0)
    model.fit(rows)
    assert model.policy_ != policy
    assert bounds_of(model.policy_)["s"][1] == bounds[1]
    assert model.policy_.is_within(policy)


def test_a_number_that_nobody_has_keeps_its_bounds():
    assert interval(np.zeros(8), 0.0, 0.0) == (0, 8)


def test_mere_noise_is_not_paid_for():
    plan, leakage = planned(wide_policy(), n_rows=100)
    assert plan is None
    model = LogisticRegression(wide_policy(), epsilon=1.0, delta=1e-6)
    declared = LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="declared"
    )
    assert model.plan(100).spending.total_mu == declared.plan(100).spending.total_mu
    assert leakage.spent == ()


def test_a_model_that_learns_labels_alone_pays_for_no_counts():
    levels = tuple(map(str, range(30)))
    names = [f"c{k}" for k in range(120)]
    policy = Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1000)),
            *(Feature(name, "sensitive", CategoryDomain(levels)) for name in names),
        ),
        Label("y", CategoryDomain(("0", "1")), 0.0),
    )
    n_rows = 1600
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({name: rng.choice(levels, n_rows) for name in names})
    rows["s"] = rng.random(n_rows)
    rows["y"] = rng.choice(["0", "1"], n_rows)
    leakage = resolve_leakage(
        policy, None, declared=policy, calibration=Calibration.CERTIFIED
    )
    assert (
        plan_narrowing(Promise.of(policy, leakage), budget=BUDGET, n_rows=n_rows)
        is not None
    )
    model = LogisticRegression(
        policy, epsilon=BUDGET.epsilon, delta=BUDGET.delta, random_state=1
    )
    plan, counted = model.plan_with_counts(n_rows)
    assert plan.noise == CONSTANT
    assert counted is None
    with pytest.warns(UtilityWarning, match="Labels alone are learned") as told:
        model.fit(rows, rows["y"])
    assert len(told) == 1
    assert model.policy_ == policy
    assert NUMBER_COUNTS not in [part.name for part in model.certificate_.components]


def test_so_little_noise_that_nothing_is_proved_of_it_is_not_drawn():
    proved, _ = planned(wide_policy(), budget=Budget(epsilon=1e5, delta=1e-6))
    assert max(proved.cost.values()) <= LARGEST_MU
    free, _ = planned(wide_policy(), budget=Budget(epsilon=1e6, delta=1e-6))
    assert list(free.noise_scale) == ["known"]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([0, 0, 1000, 0, 0, 0, 0, 0], (2, 3)),
        ([0, 0, 500, 490, 10, 0, 0, 0], (2, 4)),
        ([125] * 8, (0, 8)),
        ([1000, 0, 0, 0, 0, 0, 0, 0], (0, 1)),
        ([0, 0, 0, 0, 0, 0, 0, 1000], (7, 8)),
    ],
)
def test_the_shortest_interval_that_holds_nearly_all_rows(counts, expected):
    assert interval(np.array(counts, dtype=float), 1000, 1.0) == expected


def test_an_interval_that_noise_could_have_made_is_not_taken():
    counts = np.array([1000.0, 0, 0, 0, 0, 0, 0, 0])
    assert interval(counts, 1000, 51.0) == (0, 8)


@pytest.mark.parametrize(
    "options",
    [
        {"sampling_rate": 0.1},
        {"calibration": "theorem"},
        {"method": "nonprivate", "research": True},
    ],
)
def test_what_is_not_covered_is_refused_before_a_row_is_read(options):
    model = LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="released", **options
    )
    with pytest.raises(CorrDPError, match="bounds='released'"):
        model.fit(None, None)


@pytest.mark.parametrize(
    "options",
    [
        {"sampling_rate": 0.1, "n_steps": 2},
        {"calibration": "theorem", "n_steps": 2},
        {"method": "nonprivate", "research": True},
    ],
)
def test_by_default_bounds_stay_where_nothing_else_is_proved(options):
    model = fitted("auto", wide_rows(2000), **options)
    assert bounds_of(model.policy_)["u"] == (0, 1000)


def test_bounds_are_released_by_default_where_labels_are_categories():
    assert LogisticRegression().bounds == LinearRegression().bounds == "auto"
    same = fitted("auto"), fitted("released")
    assert same[0].policy_ == same[1].policy_
    assert np.array_equal(same[0].coef_, same[1].coef_)


def test_by_default_bounds_stay_where_labels_are_numbers():
    rows = wide_rows(2000).assign(y=lambda frame: frame["u"])
    policy = Policy(wide_policy().features, Label("y", NumberDomain(0, 1000), 0.0))
    model = LinearRegression(policy, epsilon=1.0, delta=1e-6, random_state=0).fit(rows)
    assert bounds_of(model.policy_) == bounds_of(policy)


def test_weaker_promises_count_what_they_leave_unprotected_without_noise():
    semi, corr = fitted("auto", method="semi"), fitted("auto")
    assert bounds_of(semi.policy_)["u"] != (0, 1000)
    assert bounds_of(corr.policy_)["u"] != (0, 1000)
    assert semi.certificate_.components[0].name == "where numbers lie"


def test_what_a_class_moves_is_not_counted_without_noise():
    with pytest.raises(GuaranteeVoidError, match="not public"):
        release_number_counts(
            wide_rows(50), wide_policy(), {"u": 0.0}, n_bins={"u": 16}
        )


def test_a_cell_that_is_refused_costs_nothing(monkeypatch):
    seen = []
    counting(monkeypatch, seen)
    rows = wide_rows()
    rows.loc[7, "c"] = "neither"
    model = released()
    with pytest.raises(PolicyError):
        model.fit(rows, charge=seen.append)
    assert seen == []
    model.fit(wide_rows())  # its own budget is there, too


def test_rows_that_came_or_went_meanwhile_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "rows.csv"
    wide_rows().to_csv(path, index=False)
    count = narrowing.release_number_counts

    def meanwhile(*arguments, **options):
        found = count(*arguments, **options)
        wide_rows(N_ROWS - 1).to_csv(path, index=False)
        return found

    monkeypatch.setattr(narrowing, "release_number_counts", meanwhile)
    with pytest.raises(CorrDPError, match="another number of rows"):
        released().fit(path)


def test_files_and_bought_distances_go_with_it(tmp_path):
    wide_rows().to_csv(tmp_path / "rows.csv", index=False)
    model = fitted("auto", tmp_path / "rows.csv")
    assert np.array_equal(model.coef_, fitted("auto").coef_)
    features = [
        replace(f, leakage=None, domain=replace(f.domain, bins=4))
        if isinstance(f.domain, NumberDomain)
        else replace(f, leakage=None)
        for f in without("known").features
    ]
    policy = replace(wide_policy(), features=tuple(features))
    bought = LogisticRegression(
        policy, epsilon=4.0, delta=1e-6, random_state=0, leakage="auto"
    ).fit(wide_rows())
    assert bounds_of(bought.policy_)["u"] != (0, 1000)
    assert bought.certificate_.epsilon <= 4.0
    bought.certificate_.verify()


def without(name):
    """Return the policy without one of its features."""
    features = wide_policy().features
    return replace(wide_policy(), features=tuple(f for f in features if f.name != name))


def released(**options):
    return LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="released", **options
    )


def counting(monkeypatch, seen):
    """Note when rows are counted."""
    count = narrowing.release_number_counts

    def noted(*arguments, **options):
        seen.append("counted")
        return count(*arguments, **options)

    monkeypatch.setattr(narrowing, "release_number_counts", noted)


def test_somebody_else_is_charged_once_for_all_of_it_before_a_row_is_counted(
    monkeypatch,
):
    seen = []
    counting(monkeypatch, seen)
    model = released().fit(wide_rows(), charge=seen.append)
    assert seen[1:] == ["counted"]
    paid = seen[0]
    for name, claim in model.certificate_.classes.items():
        assert paid.classes[name].epsilon == claim.epsilon
    assert paid.components == model.certificate_.components
    assert model.certificate_.verify(model.policy_)  # for the bounds that were found


def test_what_a_charge_refuses_is_not_counted(monkeypatch):
    seen = []
    counting(monkeypatch, seen)

    def refused(certificate):
        raise BudgetError("no")

    with pytest.raises(BudgetError, match="no"):
        released().fit(wide_rows(), charge=refused)
    assert seen == []


def test_a_ledger_is_charged_before_a_row_is_counted(monkeypatch, tmp_path):
    budget = Budget(epsilon=1.2, delta=1e-6)
    ledger = Ledger.create(tmp_path / "ledger.db", wide_policy(), budget=budget)
    seen = []
    counting(monkeypatch, seen)
    model = released(ledger=ledger).fit(wide_rows())
    assert bounds_of(model.policy_)["u"] != (0, 1000)
    assert [entry["kind"] for entry in ledger.entries()].count("charge") == 1
    with pytest.raises(BudgetError):
        released(ledger=ledger).fit(wide_rows())
    assert seen == ["counted"]


@pytest.mark.parametrize(
    ("bounds", "grid", "said"),
    [
        ("released", {"n_steps": [5]}, "does not pay for"),
        ("declared", {"bounds": ["declared", "released"]}, "that promise nothing"),
    ],
)
def test_a_search_does_not_release_bounds_that_its_price_leaves_out(bounds, grid, said):
    search = PrivateSearchCV(
        LogisticRegression(wide_policy(), bounds=bounds), grid, epsilon=1.0, delta=1e-6
    )
    with pytest.raises(CorrDPError, match=said):
        search.plan(N_ROWS)
    with pytest.raises(CorrDPError, match=said):
        search.fit(wide_rows())


def test_runs_of_a_search_read_numbers_between_declared_bounds():
    search = PrivateSearchCV(
        LogisticRegression(wide_policy()),
        {"n_steps": [5]},
        epsilon=1.0,
        delta=1e-6,
        random_state=0,
    ).fit(wide_rows())
    model = search.best_estimator_
    assert bounds_of(model.policy_) == bounds_of(wide_policy())
    assert [part.name for part in model.certificate_.components] == ["selection"]


@pytest.mark.torch
def test_a_line_in_the_place_of_a_network_reads_what_the_network_reads():
    model = MLPClassifier(wide_policy(), epsilon=0.3, delta=1e-6, random_state=0)
    rows = wide_rows()
    with pytest.warns(UtilityWarning, match="A linear model is trained instead"):
        model.fit(rows)
    assert model.policy_ == model.linear_.policy_
    assert np.allclose(model.predict_proba(rows), model.linear_.predict_proba(rows))


def test_a_fit_that_a_search_pays_for_counts_nothing():
    model = LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="released"
    )
    with pytest.raises(BudgetError, match="the budget is that of the search"):
        model.fit_in_search(wide_rows(), None, lambda certificate: None)
    model.epsilon = None
    with pytest.raises(BudgetError, match="does not pay for"):
        model.fit_in_search(wide_rows(), None, lambda certificate: None)


def test_a_fit_that_breaks_off_after_counting_has_been_paid_for(monkeypatch):
    model = LogisticRegression(
        wide_policy(), epsilon=1.0, delta=1e-6, bounds="released"
    )

    def broken(*arguments, **options):
        raise RuntimeError

    monkeypatch.setattr(narrowing, "release_number_counts", broken)
    with pytest.raises(RuntimeError):
        model.fit(wide_rows())
    with pytest.raises(BudgetError):
        model.fit(wide_rows())


def test_other_words_for_bounds_are_refused():
    model = LogisticRegression(wide_policy(), epsilon=1.0, delta=1e-6, bounds="tight")
    with pytest.raises(CorrDPError, match="bounds must be"):
        model.fit(wide_rows())


def test_numbers_as_labels_and_the_command(tmp_path):
    rows = wide_rows().assign(y=lambda frame: frame["u"])
    policy = Policy(wide_policy().features, Label("y", NumberDomain(0, 1000), 0.0))
    model = LinearRegression(
        policy, epsilon=1.0, delta=1e-6, random_state=0, bounds="released"
    ).fit(rows)
    assert bounds_of(model.policy_)["u"] != (0, 1000)
    wide_rows().to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(wide_policy().to_toml())
    common = (
        *("train", "data.csv", "--policy", "policy.toml", "--epsilon", 1),
        *("--delta", 1e-6, "--bounds", "released", "--seed", 0),
    )
    done = run(*common, "--model", "logistic", "--out", "model", cwd=tmp_path)
    assert done.code == 0
    again = LogisticRegression.load(tmp_path / "model")
    assert bounds_of(again.policy_)["u"] != (0, 1000)
    ledger = ("--ledger", "ledger.db", "--ledger-epsilon", 2, "--ledger-delta", 1e-5)
    paid = run(
        *(*common, "--model", "logistic", "--out", "paid", *ledger), cwd=tmp_path
    )
    assert paid.code == 0
    assert [e["kind"] for e in Ledger(tmp_path / "ledger.db").entries()][-1] == "charge"
    refused = run(*common, "--model", "mlp", "--out", "other", cwd=tmp_path)
    assert refused.code == 3
    assert "--bounds released" in refused.stderr


def test_a_narrowed_model_is_evaluated_with_the_leakage_of_what_was_declared(tmp_path):
    features = tuple(
        replace(
            feature,
            leakage=None,
            domain=replace(feature.domain, bins=4)
            if isinstance(feature.domain, NumberDomain)
            else feature.domain,
        )
        for feature in wide_policy().features
    )
    policy = replace(wide_policy(), features=features)
    wide_rows().to_csv(tmp_path / "d.csv", index=False)
    (tmp_path / "p.toml").write_text(policy.to_toml())
    paid = ("--ledger", "l.db")
    created = (*paid, "--ledger-epsilon", 20, "--ledger-delta", 1e-4)
    told = ("--leakage", "leak.json")
    given = ("d.csv", "--policy", "p.toml")
    for command in (
        (
            "leakage",
            *given,
            "--epsilon",
            2,
            "--delta",
            1e-06,
            "--out",
            "leak.json",
            *created,
        ),
        (
            "train",
            *given,
            *told,
            "--model",
            "logistic",
            "--out",
            "m",
            *paid,
            "--epsilon",
            4,
            "--delta",
            1e-06,
            "--seed",
            0,
        ),
        ("evaluate", "m", "d.csv", *told, *paid, "--epsilon", 0.5),
    ):
        done = run(*command, cwd=tmp_path)
        assert done.code == 0, done.stderr
    model = LogisticRegression.load(tmp_path / "m")
    assert bounds_of(model.policy_)["known"] == (0, 500)


def test_rows_per_level_between_declared_bounds_give_no_means_between_others():
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("a", "b"))),
            Feature("u", "insensitive", NumberDomain(0, 1000, bins=8)),
            Feature("c", "insensitive", CategoryDomain(("a", "b"))),
        ),
        Label("y", CategoryDomain(("0", "1")), 0.0),
    )
    rows = wide_rows(20_000)
    rows["s"] = np.where(rows["s"] > 10, "a", "b")
    table = estimate_leakage(
        rows, policy, epsilon=1.0, delta=1e-6, random_state=0, join_levels=False
    )
    model = LogisticRegression(
        policy, epsilon=4.0, delta=1e-6, leakage=table, random_state=0
    ).set_params(bounds="declared")
    assert "u" in model.plan(20_000).spending.known_means
    model.set_params(bounds="released")
    known = model.plan(20_000).spending.known_means
    assert "u" not in known
    assert "c" in known
    model.fit(rows)
    read = bounds_of(model.policy_)["u"]
    assert read[1] - read[0] < 500


def test_what_replaces_a_missing_value_is_cut_as_the_value_would_be():
    features = list(wide_policy().features)
    replaced = NumberDomain(0, 1000, missing=Replace(900.0))
    features[2] = Feature("u", "insensitive", replaced, leakage=0.2)
    policy = Policy(tuple(features), wide_policy().label)
    rows = wide_rows()
    rows.loc[::200, "u"] = np.nan
    model = LogisticRegression(
        policy, epsilon=1.0, delta=1e-6, random_state=0, bounds="released"
    ).fit(rows)
    domain = model.policy_.feature("u").domain
    assert domain.upper < 900
    assert domain.missing == Replace(domain.upper)


def test_bins_that_floats_do_not_tell_apart_are_not_taken_for_bounds():
    far = 2.0**53  # whose next float is two away
    policy = Policy(
        (Feature("s", "sensitive", NumberDomain(far, far + 8)),),
        Label("y", CategoryDomain(("0", "1")), 0.0),
    )
    rows = wide_rows()[["y"]].assign(s=far)
    model = LogisticRegression(
        policy, epsilon=3.0, delta=1e-6, random_state=0, bounds="released"
    ).fit(rows)
    assert bounds_of(model.policy_)["s"] == (far, far + 8)


def test_a_number_that_many_rows_lack_is_narrowed_by_those_that_have_it():
    model = fitted(epsilon=10.0)  # a tenth of the rows lacks t, the others have 3
    lower, upper = bounds_of(model.policy_)["t"]
    assert lower <= 3.0 <= upper
    assert upper - lower <= 1000 / 32
