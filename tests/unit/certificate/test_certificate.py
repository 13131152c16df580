import copy
import json
import math

import numpy as np
import pytest

from corrdp._json import digest
from corrdp.accounting import (
    WHOLE_RECORD,
    ApproximateEvent,
    GaussianEvent,
    Group,
    NoisePlan,
    SensitivityTable,
    epsilon_within,
    gaussian_epsilon,
    plan_noise,
)
from corrdp.certificate import (
    Calibration,
    Certificate,
    Component,
    LeakageClaim,
    certify,
)
from corrdp.exceptions import (
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
    UnsupportedEventError,
)
from corrdp.policy import (
    BooleanDomain,
    Budget,
    Feature,
    Label,
    NumberDomain,
    Policy,
    class_columns,
    class_epsilon,
    neighbor_classes,
)
from corrdp.queries import plan_queries

POLICY = Policy.from_toml(
    """
target = "income"
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [17, 90]

[features.race]
role = "insensitive"
type = "category"
categories = ["a", "b", "c"]
leakage = 0.25

[features.region]
role = "insensitive"
type = "category"
categories = ["n", "s"]
leakage = 0.0

[label]
type = "boolean"
score = 0.0
"""
)
BUDGET = Budget(epsilon=1.0, delta=1e-6)
CLASSES = [c.name for c in neighbor_classes(POLICY)]


def noise_plan() -> NoisePlan:
    bounds = {
        "sensitive": [1.0, 0.3, 0.3],
        "insensitive:race": [0.2, 1.4, 0.2],
        "insensitive:region": [0.2, 0.2, 1.4],
        WHOLE_RECORD: [1.0, 1.4, 1.4],
    }
    table = SensitivityTable(
        groups=(Group("age", 1), Group("race", 3), Group("region", 2)),
        classes=tuple(bounds),
        bounds=np.array(list(bounds.values())),
    )
    allowed = {
        c.name: class_epsilon(
            c.distance, epsilon=BUDGET.epsilon, epsilon_cap=POLICY.epsilon_cap
        )
        if c.promised
        else math.inf
        for c in neighbor_classes(POLICY)
    }
    return plan_noise(table, allowed_epsilon=allowed, delta=BUDGET.delta, n_steps=10)


def issue(components=None, **arguments) -> Certificate:
    return certify(
        POLICY,
        components or [Component("training", plan=noise_plan())],
        budget=BUDGET,
        leakage=LeakageClaim.declared(POLICY),
        **arguments,
    )


def test_classes_with_one_limit_are_priced_by_their_own_events():
    known = {"race": 0.25, "region": 0.25}
    mus = dict(zip(CLASSES, (0.1, 0.2, 0.3, 0.4), strict=True))
    events = {name: (GaussianEvent(mu=mu),) for name, mu in mus.items()}
    claims = certify(
        POLICY,
        [Component("training", events=events)],
        budget=BUDGET,
        leakage=LeakageClaim.declared(POLICY, known),
    ).classes
    limits = {claims[f"insensitive:{name}"].allowed_epsilon for name in known}
    assert limits == {4.0}
    for name, mu in mus.items():
        assert claims[name].epsilon == gaussian_epsilon(mu=mu, delta=BUDGET.delta)


def test_classes_with_the_same_events_and_limit_are_priced_once(monkeypatch):
    priced = []

    def counting(events, **limits):
        priced.append((events, limits["allowed_epsilon"]))
        return epsilon_within(events, **limits)

    monkeypatch.setattr("corrdp.certificate._claims.epsilon_within", counting)
    cost = (GaussianEvent(mu=0.1),)
    components = [Component("training", events=dict.fromkeys(CLASSES, cost))]
    known = {"race": 0.25, "region": 0.25}
    certificate = certify(
        POLICY,
        components,
        budget=BUDGET,
        leakage=LeakageClaim.declared(POLICY, known),
    )
    assert len({claim.epsilon for claim in certificate.classes.values()}) == 1
    assert priced == [(cost, 1.0), (cost, 4.0), (cost, math.inf)]


def test_certificate_proves_the_budget_for_every_class():
    certificate = issue()
    assert list(certificate.classes) == CLASSES
    assert certificate.epsilon <= BUDGET.epsilon
    assert certificate.epsilon == pytest.approx(1.0, rel=1e-6)
    race = certificate.classes["insensitive:race"]
    assert race.allowed_epsilon == 4.0
    assert race.distance == 0.25
    region = certificate.classes["insensitive:region"]
    assert region.distance == POLICY.distance_floor
    assert region.allowed_epsilon == POLICY.epsilon_cap
    whole = certificate.classes[WHOLE_RECORD]
    assert not whole.promised
    assert whole.epsilon > 1.0


def test_certificate_survives_its_file(tmp_path):
    certificate = issue(replayable_noise=True)
    path = tmp_path / "certificate.json"
    path.write_text(certificate.to_json())
    again = Certificate.from_file(path)
    assert again == certificate
    assert hash(again) == hash(certificate)
    assert again != "something else"
    assert again.verify(POLICY)


def test_two_components_are_composed():
    mu = 0.05
    events = {name: (GaussianEvent(mu=mu),) for name in (WHOLE_RECORD, "sensitive")}
    alone = issue(calibration=Calibration.THEOREM)
    both = issue(
        [
            Component("training", plan=noise_plan()),
            Component("leakage", events=events),
        ],
        calibration=Calibration.THEOREM,
    )
    for name in CLASSES:
        assert both.classes[name].epsilon > alone.classes[name].epsilon
    assert both.verify(POLICY)


def test_class_that_a_component_does_not_price_pays_for_the_whole_record():
    events = {WHOLE_RECORD: (ApproximateEvent(epsilon=0.7, delta=1e-9),)}
    certificate = issue([Component("query", events=events)])
    assert {c.epsilon for c in certificate.classes.values()} == {
        certificate.classes[WHOLE_RECORD].epsilon
    }
    plan = noise_plan()
    other = NoisePlan(
        SensitivityTable((Group("all", 1),), (WHOLE_RECORD,), np.array([[1.0]])),
        np.array([100.0]),
        {WHOLE_RECORD: math.inf},
        BUDGET.delta,
    )
    certificate = issue([Component("small", plan=other)])
    assert certificate.classes["sensitive"].epsilon == other.epsilon(WHOLE_RECORD)
    assert plan.fits


def test_too_little_noise_is_refused():
    plan = noise_plan()
    less = NoisePlan(
        plan.table,
        plan.noise_scale * 0.99,
        plan.allowed_epsilon,
        plan.delta,
        plan.n_steps,
    )
    with pytest.raises(GuaranteeVoidError, match=r"the policy allows"):
        issue([Component("training", plan=less)])


def test_zero_noise_on_a_group_that_moves_is_refused_or_shown_as_infinite():
    plan = noise_plan()
    scale = plan.noise_scale.copy()
    scale[1] = 0.0
    semi = NoisePlan(plan.table, scale, plan.allowed_epsilon, plan.delta, plan.n_steps)
    component = Component("training", plan=semi)
    with pytest.raises(GuaranteeVoidError, match="has epsilon inf"):
        issue([component])
    certificate = issue([component], calibration=Calibration.THEOREM)
    assert certificate.epsilon == math.inf
    assert certificate.verify(POLICY)
    assert Certificate.from_json(certificate.to_json()) == certificate
    text = certificate.to_text()
    assert "not a proof" in text
    assert "asymptotic: Assumptions 3.1-3.4" in text.replace("\n", " ")
    assert "infinite" in text


def reissued(document):
    """Return a document whose digest matches its changed content."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return rest | {"digest": digest(rest)}


def change_epsilon(document):
    document["classes"]["sensitive"]["epsilon"] /= 2


def change_allowed(document):
    document["classes"]["insensitive:race"]["allowed_epsilon"] *= 2


def change_noise(document):
    document["components"][0]["plan"]["noise_scale"][0] *= 0.9


def change_bounds(document):
    document["components"][0]["plan"]["table"]["bounds"][0][0] *= 1.1


def change_steps(document):
    document["components"][0]["plan"]["n_steps"] += 1


def change_distance_below_floor(document):
    claim = document["classes"]["insensitive:region"]
    claim["distance"] = 0.001


def change_delta(document):
    document["delta"] /= 10


def change_target(document):
    document["target_epsilon"] *= 2


@pytest.mark.parametrize(
    "change",
    [
        change_epsilon,
        change_allowed,
        change_noise,
        change_bounds,
        change_steps,
        change_distance_below_floor,
        change_delta,
        change_target,
    ],
)
def test_verification_catches_every_changed_number(change):
    document = copy.deepcopy(issue().to_dict())
    change(document)
    with pytest.raises(GuaranteeVoidError, match="digest"):
        Certificate.from_dict(document)
    forged = reissued(document)
    with pytest.raises(GuaranteeVoidError, match=r"stated as|states epsilon"):
        Certificate.from_dict(forged).verify()


def withdraw_promise(document):
    claim = document["classes"]["sensitive"]
    claim |= {"promised": False, "allowed_epsilon": "inf"}


def drop_whole_record(document):
    del document["classes"][WHOLE_RECORD]


def bring_sensitive_nearer(document):
    claim = document["classes"]["sensitive"]
    claim |= {"distance": 0.5, "allowed_epsilon": 2.0}


def bring_race_nearer(document):
    claim = document["classes"]["insensitive:race"]
    claim |= {"distance": 0.125, "allowed_epsilon": 8.0}


@pytest.mark.parametrize(
    "change",
    [withdraw_promise, drop_whole_record, bring_sensitive_nearer, bring_race_nearer],
)
def test_verification_without_a_policy_refuses_what_no_policy_promises(change):
    """Numbers that agree with each other are not enough."""
    document = copy.deepcopy(issue().to_dict())
    change(document)
    document["epsilon"] = max(
        claim["distance"] * claim["epsilon"]
        for claim in document["classes"].values()
        if claim["promised"]
    )
    forged = Certificate.from_dict(reissued(document))
    with pytest.raises(GuaranteeVoidError, match="Do not rely on this certificate"):
        forged.verify()


def test_a_label_may_be_nearer_than_the_block():
    """Its distance is its score; what the block leaks says nothing of it."""
    features = (
        Feature("age", "sensitive", NumberDomain(0, 100)),
        Feature("race", "insensitive", BooleanDomain()),
    )
    policy = Policy(
        features,
        Label("sick", BooleanDomain(), 0.25),
        relation="all_insensitive",
        block_leakage=0.5,
    )
    plan = plan_queries(policy, ["count() by race"], budget=BUDGET, n_rows=100)
    certificate = plan.certificate()
    assert certificate.classes["label"].distance == 0.25
    assert certificate.verify()
    assert certificate.verify(policy)


def test_verification_says_what_it_did_not_check():
    assert any("no policy given" in check for check in issue().verify())
    assert not any("no policy given" in check for check in issue().verify(POLICY))


def test_verification_catches_a_class_claimed_above_its_limit():
    document = issue(calibration=Calibration.CERTIFIED).to_dict()
    plan = document["components"][0]["plan"]
    plan["noise_scale"] = [scale * 0.9 for scale in plan["noise_scale"]]
    weaker = Component.from_json(document["components"][0])
    honest = issue([weaker], calibration=Calibration.THEOREM).to_dict()
    honest["calibration"] = "certified"
    with pytest.raises(GuaranteeVoidError, match="above its limit"):
        Certificate.from_dict(reissued(honest)).verify()


def test_verification_refuses_another_policy():
    with pytest.raises(GuaranteeVoidError, match="was issued for policy"):
        issue().verify(POLICY.with_leakage({"race": 0.3, "region": 0.0}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("relation", "all_insensitive"),
        ("conditioning", "definition"),
        ("distance_floor", 0.001),
        ("epsilon_cap", 20.0),
        ("label_protected", True),
    ],
)
def test_verification_refuses_terms_that_the_policy_does_not_declare(name, value):
    document = copy.deepcopy(issue().to_dict())
    document[name] = value
    if name == "epsilon_cap":
        document["classes"]["insensitive:region"]["allowed_epsilon"] = value
    forged = Certificate.from_dict(reissued(document))
    assert forged.verify()
    with pytest.raises(GuaranteeVoidError, match=f"states {name}="):
        forged.verify(POLICY)


def test_verification_refuses_classes_that_the_policy_does_not_have():
    document = copy.deepcopy(issue().to_dict())
    document["classes"]["insensitive:race"]["features"] = ["region"]
    with pytest.raises(GuaranteeVoidError, match="insensitive:race"):
        Certificate.from_dict(reissued(document)).verify(POLICY)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[]", "schema must be"),
        (json.dumps({"schema": "corrdp.certificate/99"}), "certificate/99"),
    ],
)
def test_foreign_files_are_refused(text, message):
    with pytest.raises(CorrDPError, match=message):
        Certificate.from_json(text)


def test_missing_and_unreadable_files_are_refused(tmp_path):
    with pytest.raises(CorrDPError, match="FileNotFoundError"):
        Certificate.from_file(tmp_path / "none.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CorrDPError, match="UnicodeDecodeError"):
        Certificate.from_file(tmp_path / "binary.json")


def test_components_need_a_plan_or_events_that_price_the_whole_record():
    with pytest.raises(CorrDPError, match="plan or events"):
        Component("empty")
    with pytest.raises(CorrDPError, match="not both"):
        Component(
            "two", plan=noise_plan(), events={WHOLE_RECORD: (GaussianEvent(mu=1.0),)}
        )
    with pytest.raises(UnsupportedEventError, match="does not price"):
        Component("partial", events={"sensitive": (GaussianEvent(mu=1.0),)})


def test_text_says_what_is_promised_and_what_is_not():
    text = " ".join(issue(replayable_noise=True).to_text().split())
    assert "Certified: correlation-aware differential privacy" in text
    assert "REPLAYABLE NOISE" in text
    assert "if one record changes in race" in text
    assert "a price, not a promise" in text
    assert "Label: not protected" in text
    assert "Leakage (declared, total variation): race 0.25, region 0." in text
    assert "may fail" not in text


def test_text_shows_the_failure_probability_beside_delta():
    certificate = certify(
        POLICY,
        [Component("training", plan=noise_plan())],
        budget=BUDGET,
        leakage=LeakageClaim("public", {"race": 0.25, "region": 0.0}, 1e-3),
    )
    assert "may fail with probability 0.001" in " ".join(certificate.to_text().split())


def test_protected_label_is_named():
    policy = Policy.from_dict(
        {**POLICY.to_dict(), "label": {**POLICY.to_dict()["label"], "score": 0.5}}
    )
    events = {WHOLE_RECORD: (GaussianEvent(mu=0.01),)}
    certificate = certify(
        policy,
        [Component("query", events=events)],
        budget=BUDGET,
        leakage=LeakageClaim.declared(policy),
    )
    assert certificate.label_protected
    text = " ".join(certificate.to_text().split())
    assert "race and the label" in text
    assert "changes in the label" in text
    assert "Label: protected" in text


def test_block_leakage_is_declared_and_verified():
    document = POLICY.to_dict() | {"relation": "all_insensitive", "block_leakage": 0.5}
    for feature in document["features"].values():
        feature.pop("leakage", None)
    policy = Policy.from_dict(document)
    certificate = certify(
        policy,
        [Component("query", events={WHOLE_RECORD: (GaussianEvent(mu=0.01),)})],
        budget=BUDGET,
        leakage=LeakageClaim.declared(policy),
    )
    assert certificate.classes["insensitive"].allowed_epsilon == 2.0
    assert certificate.verify(policy)


def test_leakage_of_single_features_does_not_stand_for_the_block():
    document = POLICY.to_dict() | {"relation": "all_insensitive", "block_leakage": 0.1}
    policy = Policy.from_dict(document)
    single = LeakageClaim.declared(policy, {"race": 0.9, "region": 0.9})
    with pytest.raises(PolicyError, match="one number for the block"):
        certify(
            policy,
            [Component("query", events={WHOLE_RECORD: (GaussianEvent(mu=0.01),)})],
            budget=BUDGET,
            leakage=single,
        )
    with pytest.raises(PolicyError, match="one number for the block"):
        plan_queries(
            policy, ["mean(age)"], budget=BUDGET, n_rows=100, leakage=single.values
        )


def test_policy_without_insensitive_features_needs_no_leakage():
    document = POLICY.to_dict()
    for name in ("race", "region"):
        document["features"][name] = {
            k: v for k, v in document["features"][name].items() if k != "leakage"
        } | {"role": "sensitive"}
    policy = Policy.from_dict(document)
    certificate = certify(
        policy,
        [Component("query", events={WHOLE_RECORD: (GaussianEvent(mu=0.01),)})],
        budget=BUDGET,
        leakage=LeakageClaim.declared(policy),
    )
    assert set(certificate.classes) == {"sensitive", WHOLE_RECORD}
    assert "no insensitive feature" in certificate.to_text()


def all_sensitive(policy):
    """Return the policy in which every feature is sensitive."""
    document = policy.to_dict()
    for feature in document["features"].values():
        feature.pop("leakage", None)
        feature["role"] = "sensitive"
    return Policy.from_dict(document)


def test_parts_of_another_policy_are_priced_by_columns_not_by_name():
    """What is called sensitive elsewhere may change more columns here."""
    cost = {
        "sensitive": (GaussianEvent(mu=0.01),),
        "insensitive:race": (GaussianEvent(mu=0.2),),
        "insensitive:region": (GaussianEvent(mu=0.2),),
        WHOLE_RECORD: (GaussianEvent(mu=0.5),),
    }
    policy = all_sensitive(POLICY)
    budget = Budget(epsilon=3.0, delta=1e-6)
    claim = LeakageClaim.declared(policy)
    part = Component("leakage", events=cost, scope=class_columns(POLICY))
    certificate = certify(policy, [part], budget=budget, leakage=claim)
    assert certificate.classes["sensitive"].epsilon == pytest.approx(
        gaussian_epsilon(mu=0.5, delta=1e-6)
    )
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert certificate.verify(policy)
    # Planted: without a scope the name alone decides, and understates.
    by_name = Component("leakage", events=cost)
    wrong = certify(policy, [by_name], budget=budget, leakage=claim)
    assert wrong.classes["sensitive"].epsilon < 0.1


def test_parts_are_kept_as_they_are_under_their_own_policy():
    part = Component("training", plan=noise_plan(), scope=class_columns(POLICY))
    assert part.restated(POLICY) is part
    assert issue([part]).classes == issue().classes
    again = Component.from_json(part.to_json())
    assert again.scope == part.scope


def test_fewer_protected_columns_pay_the_smallest_class_that_covers_them():
    cost = {
        "sensitive": (GaussianEvent(mu=0.1),),
        WHOLE_RECORD: (GaussianEvent(mu=0.5),),
    }
    document = POLICY.to_dict()
    for name in ("race", "region"):
        document["features"][name].pop("leakage")
        document["features"][name]["role"] = "public"
    part = Component("leakage", events=cost, scope=class_columns(POLICY))
    restated = part.restated(Policy.from_dict(document))
    assert restated.events["sensitive"] == cost["sensitive"]
    assert restated.events[WHOLE_RECORD] == cost["sensitive"]


def test_parts_that_do_not_cover_a_class_are_refused():
    document = POLICY.to_dict()
    document["label"]["score"] = 1.0
    events = {WHOLE_RECORD: (GaussianEvent(mu=0.1),)}
    part = Component("leakage", events=events, scope=class_columns(POLICY))
    with pytest.raises(GuaranteeVoidError, match="has no price"):
        part.restated(Policy.from_dict(document))


def test_a_certificate_speaks_of_a_release():
    with pytest.raises(CorrDPError, match="components is empty"):
        certify(POLICY, [], budget=BUDGET, leakage=LeakageClaim.declared(POLICY))


def test_the_metric_of_the_leakage_is_stated():
    claim = LeakageClaim("public", {"race": 0.25, "region": 0.0}, 0.0, "hellinger")
    certificate = certify(
        POLICY,
        [Component("training", plan=noise_plan())],
        budget=BUDGET,
        leakage=claim,
    )
    assert "hellinger" in certificate.to_text()
    assert Certificate.from_json(certificate.to_json()).leakage.metric == "hellinger"


def test_released_distances_are_said_to_be_chosen_by_the_release():
    values = {"race": 0.25, "region": 0.0}
    stated = {}
    for source in ("private", "public"):
        certificate = certify(
            POLICY,
            [Component("training", plan=noise_plan())],
            budget=BUDGET,
            leakage=LeakageClaim(source, values, 1e-3),
        )
        stated[source] = " ".join(certificate.assumptions)
    assert "budgets that this release chose" in stated["private"]
    assert "chose" not in stated["public"]


def test_the_epsilon_is_that_of_the_worst_class():
    certificate = issue()
    products = [
        claim.distance * claim.epsilon
        for claim in certificate.classes.values()
        if claim.promised
    ]
    assert certificate.epsilon == max(products) > min(products)


def test_the_noise_source_is_named_and_checked():
    certificate = issue()
    assert certificate.noise_source.startswith("ChaCha20")
    assert "Noise: ChaCha20" in certificate.to_text()
    assert any("ChaCha20" in check for check in certificate.verify())
    seeded = issue(replayable_noise=True)
    assert seeded.noise_source.startswith("PCG64 under a fixed seed")
    forged = certificate.to_dict() | {"noise_source": "MT19937"}
    with pytest.raises(GuaranteeVoidError, match="MT19937"):
        Certificate.from_dict(reissued(forged)).verify()


def test_a_research_certificate_is_stamped():
    stamped = issue(research=True)
    assert stamped.to_dict()["research"] is True
    assert "RESEARCH" in stamped.to_text()
    assert "RESEARCH" not in issue().to_text()
    assert Certificate.from_dict(stamped.to_dict()) == stamped != issue()


def test_files_of_earlier_versions_keep_their_digest():
    document = issue().to_dict()
    for later in ("noise_source", "research"):
        del document[later]
    document = reissued(document)
    certificate = Certificate.from_dict(document)
    assert certificate.to_dict() == document
    assert any("not recorded" in check for check in certificate.verify())
    assert "not recorded" in certificate.to_text()
