"""Solver options change the model, never its price; wrong words are refused."""

import math

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.training import Output, Solver, Update
from corrdp.training._solver import Direction, Iterates
from linear_model_examples import example_frame, model_of


@pytest.mark.parametrize(
    "solver",
    [
        Solver(update="adam", step_size=0.05),
        Solver(step_rule="paper"),
        Solver(step_size=0.5),
        Solver(output="last"),
        Solver(output="random"),
        Solver(ridge=0.01),
        Solver(ball_radius=1.0),
        Solver(box_radius=0.5),
    ],
)
def test_every_option_trains_at_the_same_price(solver):
    frame = example_frame()
    plain = model_of().fit(frame)
    model = model_of(solver=solver).fit(frame)
    assert model.certificate_ == plain.certificate_
    assert not np.array_equal(model.coef_, plain.coef_)
    assert model.score(frame, frame.rich) > 0.7  # a constant is right in 58 of 100


def test_options_survive_saving(tmp_path):
    solver = Solver(update="adam", step_size=0.05, box_radius=2.0, output="last")
    assert Solver.from_json(solver.to_json()) == solver
    model = model_of(solver=solver).fit(example_frame())
    model.save(tmp_path / "model")
    assert type(model).load(tmp_path / "model").solver == solver


def test_projections_hold():
    rng = np.random.default_rng(0)
    coef = rng.normal(size=9)
    ball = Solver(ball_radius=0.3).projected(coef)
    assert np.linalg.norm(ball[:-1]) == pytest.approx(0.3)
    box = Solver(box_radius=0.2).projected(coef)
    assert np.abs(box[:-1]).max() <= 0.2
    assert ball[-1] == box[-1] == coef[-1]
    np.testing.assert_array_equal(Solver().projected(coef), coef)


def test_iterates_are_far_from_underflow():
    """Whatever step size, ball or box somebody chooses."""
    coef = np.array([1e-160, -1e-310, np.nan, 0.5, 1e-200])
    solvers = Solver(), Solver(ball_radius=1e-310), Solver(box_radius=5e-324)
    for solver in solvers:
        sizes = np.abs(solver.projected(coef))
        assert ((sizes == 0) | (sizes >= 1e-160)).all()
    np.testing.assert_array_equal(Solver().projected(coef), [0, 0, 0, 0.5, 0])


def test_ridge_shrinks():
    frame = example_frame()
    free = model_of().fit(frame)
    held = model_of(solver=Solver(ridge=0.1)).fit(frame)
    assert np.linalg.norm(held.coef_) < np.linalg.norm(free.coef_)


def test_momentum_of_a_constant_gradient_tends_to_it():
    direction = Direction(Update.MOMENTUM, 0.9, 2)
    gradient = np.array([1.0, -2.0])
    for _ in range(200):
        last = direction.of(gradient)
    np.testing.assert_allclose(last, gradient, rtol=1e-6)


def test_adam_of_a_constant_gradient_is_its_sign():
    direction = Direction(Update.ADAM, 0.9, 2)
    np.testing.assert_allclose(direction.of(np.array([3.0, -0.1])), [1, -1], rtol=1e-6)


@pytest.mark.parametrize("output", list(Output))
def test_outputs(output):
    rng = np.random.default_rng(4)
    drawn = int(np.random.default_rng(4).integers(10))
    iterates = Iterates(output, 10, rng, 0.5)
    for step in range(10):
        iterates.add(step, np.array([float(step)]))
    wanted = {Output.AVERAGE: 7.0, Output.LAST: 9.0, Output.RANDOM: float(drawn)}
    assert iterates.result()[0] == wanted[output]


@pytest.mark.parametrize(
    "wrong",
    [
        {"update": "newton"},
        {"output": "best"},
        {"step_rule": "line search"},
        {"ridge": -1.0},
        {"ball_radius": 0.0},
        {"step_size": math.nan},
    ],
)
def test_unknown_options_are_refused(wrong):
    with pytest.raises(CorrDPError, match="must be"):
        Solver(**wrong)
