"""Two walks: all that is not sensitive first, at no cost to what is."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp.accounting import WHOLE_RECORD, step_mu
from corrdp.auditing import audit, descent_challenges, model_challenges
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.mechanisms import column_sum_sensitivity
from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    Descent,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    SampledBudget,
    Solver,
    default_plan,
    descend,
    descend_sampled,
    descend_together,
    plan_spending,
    prepare_rows,
    whole_record_spending,
)
from corrdp.training._budget_split import LAST_SHARE, head_start_parts
from corrdp.training._candidates import HeadStart, group_candidate, head_start_candidate

N_ROWS = 600


def policy_of(leakage=0.05, labels=("no", "yes"), score=0.0, public=False):
    features = [
        Feature("s", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
        Feature("t", ColumnRole.SENSITIVE, CategoryDomain(tuple("abc"))),
        *(
            Feature(f"u{i}", ColumnRole.INSENSITIVE, NumberDomain(0, 1), leakage)
            for i in range(3)
        ),
        Feature("v", ColumnRole.INSENSITIVE, CategoryDomain(tuple("pqr")), leakage),
    ]
    if public:
        features.append(Feature("w", ColumnRole.PUBLIC, NumberDomain(0, 1)))
    return Policy(tuple(features), Label("y", CategoryDomain(labels), score=score))


def frame_of(policy, seed=0, n_rows=N_ROWS):
    rng = np.random.default_rng(seed)
    columns = {
        f.name: rng.choice(list(f.domain.categories), n_rows)
        if isinstance(f.domain, CategoryDomain)
        else rng.random(n_rows)
        for f in policy.features
    }
    score = 3 * columns["u0"] - 2 * columns["u1"] + (columns["v"] == "p") - 0.5
    names = np.array(policy.label.domain.categories)
    columns["y"] = names[(score + rng.logistic(size=n_rows) > 0) * (len(names) - 1)]
    return pd.DataFrame(columns)


def facts_of(policy, epsilon=0.5, n_rows=N_ROWS):
    n_labels = len(policy.label.domain.categories)
    loss = LogisticLoss() if n_labels == 2 else MultinomialLoss(n_labels)
    spending = plan_spending(
        policy, neighbor_classes(policy), budget=Budget(epsilon=epsilon, delta=1e-6)
    )
    return PlanInputs(PolicyEncoder(policy).blocks_, spending, n_rows, loss)


def two_walks(policy, **options):
    both = head_start_candidate(
        group_candidate(facts_of(policy, **options), np.inf, joint=False)
    )
    assert both is not None
    return both.plan


def rows_of(policy, frame):
    codes = PolicyEncoder(policy).transform(frame.drop(columns="y"))
    y = np.array([policy.label.domain.categories.index(v) for v in frame["y"]])
    return codes, y if len(policy.label.domain.categories) > 2 else y.astype(float)


LABELS = [("no", "yes"), ("a", "b", "c")]


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("compiled", [False, True])
def test_no_bit_of_a_head_start_depends_on_sensitive_columns(labels, compiled):
    policy = policy_of(labels=labels, public=True)
    plan = two_walks(policy)
    first = replace(plan.head_start, n_steps=5)
    frame = frame_of(policy)
    other = frame_of(policy, seed=1)
    changed = frame.assign(s=other["s"], t=other["t"])
    seen = []
    for table in (frame, changed):
        codes, y = rows_of(policy, table)
        rows = prepare_rows(codes, y, first.layout, compiled=compiled)
        # The same means: they are paid for by everybody, and not looked at here.
        means = rows_of(policy, frame)[0]
        descent = Descent(means, rows, first, np.random.default_rng(0), y)
        while not descent.finished:
            descent.advance(*descent.exact_gradient())
            seen.append(descent.coef.copy())
    assert np.array_equal(seen[:5], seen[5:])
    assert np.any(seen[4] != 0)
    assert not seen[4][first.layout.held_columns].any()


@pytest.mark.parametrize("labels", LABELS)
def test_each_walk_moves_its_own_groups_alone(labels):
    policy = policy_of(labels=labels)
    plan = two_walks(policy).with_steps(10)
    codes, y = rows_of(policy, frame_of(policy))
    rows = prepare_rows(codes, y, plan.layout)
    descent = Descent(codes, rows, plan, np.random.default_rng(0), y)
    sensitive = np.append(plan.layout.sensitive_columns, False)
    path = []
    while not descent.finished:
        descent.advance(*descent.exact_gradient())
        path.append(descent.coef.copy())
    assert len(path) == 20
    assert not np.any([coef[sensitive] for coef in path[:10]])
    assert np.all(path[8][~sensitive][:-1] != 0)
    others = [coef[~sensitive][:-1] for coef in path[9:]]  # without the intercept
    assert all(np.array_equal(others[0], each) for each in others)
    assert np.all(path[-1][sensitive] != 0)
    steps = [step for step, *_ in descent.result().path]
    assert steps == sorted(steps)
    assert steps[-1] == 20


def test_what_walks_may_spend_adds_up_to_what_gradients_may():
    spending = facts_of(policy_of()).spending
    parts = head_start_parts(spending, {"s", "t"})
    for name, whole in spending.gradient_mu.items():
        squares = sum(part.gradient_mu[name] ** 2 for part in parts)
        assert squares == pytest.approx(whole**2, rel=1e-12)
        assert squares <= whole**2 * (1 + 1e-15)
    first, last = parts
    assert first.gradient_mu["sensitive"] == 0.0
    assert last.gradient_mu["sensitive"] == spending.gradient_mu["sensitive"]
    assert last.gradient_mu[WHOLE_RECORD] > last.gradient_mu["sensitive"]


def test_a_class_that_may_spend_next_to_everything_keeps_its_part():
    """Of squares 1e16 times as large as those of sensitive features."""
    policy = replace(policy_of(leakage=0.0), distance_floor=1e-12, epsilon_cap=1e6)
    spending = facts_of(policy, epsilon=1e-6).spending
    first, last = head_start_parts(spending, {"s", "t"})
    wanted = LAST_SHARE**0.5 * spending.gradient_mu["sensitive"]
    assert last.gradient_mu["insensitive:v"] == pytest.approx(wanted)
    assert first.gradient_mu["insensitive:v"] == spending.gradient_mu["insensitive:v"]
    assert two_walks(policy, epsilon=1e-6).noise_deviation > 0


@pytest.mark.parametrize("public", [False, True])
def test_the_certificate_holds_both_walks_and_stays_within_the_budget(public):
    policy = policy_of(public=public)
    model = LogisticRegression(policy, epsilon=0.5, delta=1e-6, random_state=0)
    model.set_params(bounds="declared")
    plan = model.plan(N_ROWS)
    assert plan.head_start is not None
    frame = frame_of(policy)
    model.fit(frame, frame["y"])
    names = [part.name for part in model.certificate_.components]
    assert names == ["column means", "first gradients", "gradients"]
    assert model.certificate_.verify()
    for claim in model.certificate_.classes.values():
        if claim.promised:
            assert claim.epsilon <= claim.allowed_epsilon * (1 + 1e-9)
            assert claim.epsilon >= 0.99 * claim.allowed_epsilon
    first = model.certificate_.components[1]
    assert all(event.mu == 0 for event in first.events_of("sensitive"))


@pytest.mark.parametrize("public", [False, True])
def test_both_walks_pay_for_means_what_their_noise_costs(public):
    plan = two_walks(policy_of(public=public))
    for spending in (walk.spending for walk in plan.walks):
        noise_scale, cost = spending.means_noise
        table = column_sum_sensitivity(spending.blocks, spending.classes)
        mu = step_mu(table.bounds, noise_scale).tolist()
        assert dict(zip(table.classes, mu, strict=True)) == pytest.approx(cost)
        assert all(cost[name] <= spending.means_mu[name] for name in cost)


def test_sensitive_weights_that_are_not_0_are_refused():
    plan = two_walks(policy_of()).head_start
    codes, y = rows_of(policy_of(), frame_of(policy_of()))
    descent = Descent(
        codes, prepare_rows(codes, y, plan.layout), plan, np.random.default_rng(0), y
    )
    descent.coef = descent.coef + 1e-9 * plan.layout.held_columns
    with pytest.raises(BudgetError, match="only infinite noise would do"):
        descent.advance(*descent.exact_gradient())


def test_without_classes_that_pay_a_head_start_has_no_noise():
    policy = policy_of()
    model = LogisticRegression(policy, epsilon=0.1, delta=1e-6, method="semi")
    plan = model.set_params(bounds="declared").plan(N_ROWS)
    assert plan.head_start is not None
    assert plan.head_start.noise_deviation == 0
    assert not plan.head_start.column_noise.any()
    codes, y = rows_of(policy, frame_of(policy))
    rows = prepare_rows(codes, y, plan.layout)
    models = [
        Descent(codes, rows, plan, np.random.default_rng(seed), y) for seed in (0, 1)
    ]
    first = []
    for descent in models:
        means = models[0]
        descent._means = means._means
        descent._begin(plan.head_start, np.zeros(plan.layout.n_columns))
        for _ in range(5):
            descent.advance(*descent.exact_gradient())
        first.append(descent.coef)
    assert np.array_equal(*first)


def _plan(policy=None, kind=LogisticRegression, **options):
    model = kind(policy or policy_of(), epsilon=0.5, delta=1e-6, **options)
    return model.plan(N_ROWS)


def test_small_distances_take_a_head_start():
    assert _plan().head_start is not None
    assert _plan(method="semi").head_start is not None
    assert _plan(policy_of(leakage=1.0)).head_start is None


@pytest.mark.parametrize(
    "options",
    [
        {"method": "standard"},
        {"n_steps": 100},
        {"solver": "svrg"},
        {"solver": Solver(ridge=0.1)},
        {"sampling_rate": 0.1},
        {"policy": policy_of(score=1.0)},
    ],
)
def test_other_walks_take_none(options):
    assert _plan(**options).head_start is None


def test_a_plan_says_what_either_walk_does():
    plan = two_walks(policy_of())
    first, last = (walk.spending.step_mu(walk.n_steps) for walk in plan.walks)
    lines = {
        line.split()[0]: line.split() for line in plan.to_text().split("\n") if line
    }
    for name, mu in plan.spending.total_mu.items():
        told = [f"{number:.4g}" for number in (mu, first[name], last[name])]
        assert lines[name][-3:] == told
    steps = sum(walk.n_steps for walk in plan.walks)
    assert f"{steps} steps over {N_ROWS} rows" in plan._repr_html_()


def test_two_walks_have_the_default_solver():
    plan = two_walks(policy_of())
    assert plan.with_solver(Solver()).head_start is plan.head_start
    with pytest.raises(CorrDPError, match="in_two_walks=False"):
        plan.with_solver(Solver(ridge=0.1))


def test_steps_on_samples_refuse_groups_whose_gradient_is_not_paid_for():
    plan = two_walks(policy_of())
    budget = SampledBudget(0.5, 2, 1.0, {"sensitive": 0.1})
    codes, y = rows_of(policy_of(), frame_of(policy_of()))
    for walk in plan.walks:
        with pytest.raises(GuaranteeVoidError, match="in_two_walks=False"):
            descend_sampled(codes, y, walk, budget, np.random.default_rng(0))


def test_numbers_take_none():
    policy = replace(policy_of(), label=Label("y", NumberDomain(0, 1), score=0.0))
    assert _plan(policy, LinearRegression).head_start is None


def test_labels_that_a_class_changes_leave_nothing_to_hold():
    facts = facts_of(policy_of(score=1.0))
    assert head_start_parts(facts.spending, {"s", "t"}) is None
    like = group_candidate(facts, np.inf, joint=False)
    assert head_start_candidate(like) is None


@pytest.mark.parametrize(
    "roles", [{ColumnRole.SENSITIVE}, {ColumnRole.INSENSITIVE, ColumnRole.PUBLIC}]
)
def test_a_head_start_takes_two_kinds_of_columns(roles):
    policy = policy_of(public=True)
    features = tuple(f for f in policy.features if f.role in roles)
    facts = facts_of(replace(policy, features=features))
    like = group_candidate(facts, np.inf, joint=False)
    assert head_start_candidate(like) is None
    plan = default_plan(facts, whole_record_spending(facts.spending))
    assert plan.head_start is None


def test_the_greater_part_of_the_columns_is_not_learned_last():
    names = ["s", "t", "u", "v"]
    for n_sensitive, is_taken in ((1, True), (2, False), (3, False)):
        roles = [ColumnRole.SENSITIVE] * n_sensitive
        roles += [ColumnRole.INSENSITIVE] * (len(names) - n_sensitive)
        features = tuple(
            Feature(name, role, NumberDomain(0, 1))
            if role is ColumnRole.SENSITIVE
            else Feature(name, role, NumberDomain(0, 1), 0.05)
            for name, role in zip(names, roles, strict=True)
        )
        policy = Policy(features, Label("y", CategoryDomain(("no", "yes")), score=0.0))
        like = group_candidate(facts_of(policy), np.inf, joint=False)
        assert (head_start_candidate(like) is not None) == is_taken


def test_no_more_is_predicted_the_smaller_distances_are():
    predicted = [
        _plan(policy_of(leakage=d)).prediction.compared for d in (0.01, 0.05, 0.3, 1.0)
    ]
    assert predicted == sorted(predicted)
    weaker = _plan(method="semi").prediction.compared
    assert weaker <= predicted[0]


def test_the_model_is_better_where_distances_are_small():
    policy = policy_of(leakage=0.02)
    codes, y = rows_of(policy, frame_of(policy))
    facts = facts_of(policy, epsilon=0.1, n_rows=600)
    ordinary = whole_record_spending(facts.spending)
    losses = []
    for in_two_walks in (True, False):
        plan = default_plan(facts, ordinary, in_two_walks=in_two_walks)
        assert (plan.head_start is not None) == in_two_walks
        found = [
            descend(codes, y, plan, np.random.default_rng(seed)) for seed in range(6)
        ]
        risks = [plan.loss.value(codes @ m.coef + m.intercept, y).mean() for m in found]
        losses.append(np.mean(risks))
    assert losses[0] < losses[1] - 0.02


def test_files_give_the_model_of_the_table_in_memory(tmp_path):
    policy = policy_of()
    frame = frame_of(policy)
    frame.to_parquet(tmp_path / "table.parquet")
    models = [
        LogisticRegression(policy, epsilon=0.5, delta=1e-6, random_state=3)
        for _ in range(2)
    ]
    models[0].fit(frame, frame["y"])
    models[1].fit(tmp_path / "table.parquet")
    assert "first gradients" in {p.name for p in models[0].certificate_.components}
    assert np.array_equal(models[0].coef_, models[1].coef_)


def test_audits_attack_both_walks():
    plan = two_walks(policy_of(), n_rows=60)
    targets = {c.target for c in descent_challenges(plan, delta=1e-6)}
    steps = "training steps, white box"
    assert targets == {steps, f"{steps}, head start"}


class TooQuiet(Descent):
    """Half the noise in a walk that holds certain groups."""

    quiet = "sensitive"

    def noisy_gradient(self, gradient):
        released, noise_scale = super().noisy_gradient(gradient)
        held = {group.name for group in self.layout.groups if group.held}
        if self.quiet in held:
            released = (released + np.where(self._held, 0.0, gradient)) / 2
        return released, noise_scale


class TooQuietAtLast(TooQuiet):
    quiet = "v"


class Leaking(Descent):
    """Held columns of the gradient leave as they are."""

    def noisy_gradient(self, gradient):
        released, noise_scale = super().noisy_gradient(gradient)
        return np.where(self._held, gradient, released), noise_scale


@pytest.mark.parametrize(
    ("descent", "where", "contradicted"),
    [
        (Descent, [], set()),
        (TooQuiet, [", head start"], {"insensitive:u0", "insensitive:v"}),
        (TooQuietAtLast, [""], {"sensitive"}),
        (Leaking, [", head start", ""], {"sensitive", "insensitive:u0"}),
    ],
)
def test_audits_contradict_a_descent_that_gives_away_more(descent, where, contradicted):
    plan = two_walks(policy_of(), n_rows=60, epsilon=3.0)
    report = audit(
        descent_challenges(plan, delta=1e-6, descent=descent), random_state=0
    )
    found = {(r.target, r.class_name) for r in report.violations}
    for walk in where:
        named = f"training steps, white box{walk}"
        assert contradicted <= {name for target, name in found if target == named}
    assert bool(found) == bool(contradicted)


def test_whole_models_are_attacked_by_records_that_either_walk_tells_apart():
    plan = two_walks(policy_of(), n_rows=60)
    for challenge in model_challenges(plan, delta=1e-6, n_steps=2):
        moved = challenge.first.codes[0] - challenge.second.codes[0]
        for block in plan.layout.blocks:
            if challenge.class_name == f"insensitive:{block.feature}":
                assert np.abs(moved[block.columns]).max() == 1.0
                own = block.columns
        if challenge.class_name == "sensitive":
            own = plan.layout.sensitive_columns
            assert np.abs(moved[own]).max() == 1.0
        if challenge.class_name != WHOLE_RECORD:
            moved[own] = 0.0
            assert not moved.any()


def test_a_candidate_is_told_apart_by_what_it_costs():
    both = head_start_candidate(
        group_candidate(facts_of(policy_of()), np.inf, joint=False)
    )
    assert isinstance(both, HeadStart)
    assert both.noiseless_error <= both.least_error
    assert both.least_error <= both.plan.prediction.compared * (1 + 1e-9)
    held = both.plan.layout.held_columns
    assert (both.plan.column_noise > 0).all()
    noise = both.first.plan.column_noise
    assert np.array_equal(both.plan.column_noise[held], noise[held])


def test_models_of_one_and_of_two_walks_are_trained_side_by_side():
    policy = policy_of()
    codes, y = rows_of(policy, frame_of(policy))
    both = two_walks(policy).with_steps(6)
    one = replace(default_plan(facts_of(policy), in_two_walks=False), n_steps=9)
    rows = prepare_rows(codes, y, both.layout)

    def models():
        return [
            Descent(codes, rows, plan, np.random.default_rng(seed), y)
            for seed, plan in enumerate((both, one, both))
        ]

    together, alone = models(), models()
    descend_together(together)
    for model in alone:
        while not model.finished:
            model.advance(*model.exact_gradient())
    for first, second in zip(together, alone, strict=True):
        assert np.array_equal(first.result().coef, second.result().coef)
