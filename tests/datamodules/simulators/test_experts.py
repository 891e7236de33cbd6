"""Backward induction against Monte Carlo, against another quadrature, and against itself moved."""

from functools import cache

import numpy as np
import pytest
from scipy.special import ive
from scipy.stats import ncx2

from datamodules.simulators.experts import (
    RadialGains,
    RadialRule,
    backward_induction,
    hindsight_stops,
    lsm,
)
from datamodules.simulators.quadrature import (
    chi_square_rule,
    inside_probability,
    normal_rule,
    transition_matrix,
)

DT, STEPS = 1 / 50, 50


@cache
def solve(problem: str, gamma: float, dim: int = 2) -> RadialRule:
    return backward_induction(RadialGains(problem, dim, DT), gamma, STEPS)


def running_gain(problem: str, radius: np.ndarray) -> np.ndarray:
    return np.where(radius < 1, 5, -400) / 50 if problem == "bmgG" else np.zeros_like(radius)


def play(rule: RadialRule, start: np.ndarray, t: int, paths: int, scale: float = 1.0) -> np.ndarray:
    """Realised discounted payoffs from (start, t) when the boundary is `scale` times the rule's."""
    rng = np.random.default_rng(7)
    states, payoff, alive = np.tile(start, (paths, 1)), np.zeros(paths), np.arange(paths)
    for k in range(t, STEPS + 1):
        radius = np.linalg.norm(states, axis=1)
        stop = rule.margin(states / scale, np.full(len(states), float(k))) >= 0
        stop |= k == STEPS
        gain = np.where(stop, radius**2, running_gain(rule.gains.problem, radius))
        payoff[alive] += rule.gamma ** (k - t) * gain
        alive, states = alive[~stop], states[~stop]
        noise = rng.standard_normal((paths, len(start)))  # the same for every scale
        states = states + np.sqrt(DT) * noise[alive]
    return payoff


@pytest.mark.parametrize(
    ("problem", "gamma", "dim", "radius", "t"),
    [
        ("bmG", 0.85, 2, 0.0, 0),
        ("bmG", 0.85, 2, 0.3, 20),
        ("bmG", 0.85, 2, 0.53, 45),
        ("bmG", 0.99, 2, 1.0, 25),
        ("bmgG", 0.99, 2, 0.0, 0),
        ("bmgG", 0.99, 2, 0.95, 30),
        ("bmgG", 0.99, 2, 0.99, 49),
        ("bmG", 0.85, 1, 0.1, 10),
        ("bmgG", 0.99, 3, 0.5, 20),
    ],
)
def test_continuation_value_equals_the_payoff_realised_by_the_rule(problem, gamma, dim, radius, t):
    rule = solve(problem, gamma, dim)
    payoff = play(rule, radius * np.eye(dim)[0], t, paths=30_000)
    value = rule.continuation(np.array([radius]), np.array([float(t)]))[0]
    assert value >= radius**2  # so that the rule goes on here and V = C
    assert abs(payoff.mean() - value) < 3.5 * payoff.std() / np.sqrt(30_000)


@pytest.mark.parametrize(("problem", "gamma"), [("bmG", 0.85), ("bmG", 0.99), ("bmgG", 0.99)])
@pytest.mark.parametrize("scale", [0.9, 1.1])
def test_a_moved_boundary_does_not_do_better(problem, gamma, scale):
    rule = solve(problem, gamma)
    gain = play(rule, np.zeros(2), 0, 15_000, scale) - play(rule, np.zeros(2), 0, 15_000)
    assert gain.mean() < 2 * gain.std() / np.sqrt(15_000)


@pytest.mark.parametrize(("problem", "gamma"), [("bmG", 0.85), ("bmG", 0.99), ("bmgG", 0.99)])
def test_continuation_value_equals_that_by_the_midpoint_rule_on_the_rice_density(problem, gamma):
    width = 0.005
    r = (np.arange(1200) + 0.5) * width
    kernel = np.exp(-((r - r[:, None]) ** 2) / (2 * DT)) * ive(0, r * r[:, None] / DT) * r / DT
    kernel *= width
    value, rule = r**2, solve(problem, gamma)
    for t in reversed(range(STEPS)):
        go_on = running_gain(problem, r) + gamma * kernel @ value
        ours, near = rule.continuation(r, np.full_like(r, t)), r < 3  # no paths past the end 6
        np.testing.assert_allclose(ours[near], go_on[near], atol=1e-3)
        value = np.maximum(r**2, go_on)


def test_transition_matrix_gives_the_moments_of_the_next_radius():
    radii = np.linspace(0, 8, 1601)
    for dim in (1, 2, 5):
        matrix = transition_matrix(radii, dim, DT)
        inner = radii < 6
        np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
        expected = radii**2 + dim * DT
        np.testing.assert_allclose((matrix @ radii**2)[inner], expected[inner], atol=1e-5)


def test_inside_probability_is_the_noncentral_chi_square_distribution():
    radii = np.linspace(0, 2, 41)
    for dim in (2, 3):
        exact = ncx2.cdf(1 / DT, dim, np.maximum(radii**2, 1e-12) / DT)
        np.testing.assert_allclose(inside_probability(radii, 1.0, dim, DT), exact, atol=1e-6)


def test_quadrature_rules_have_the_moments_of_their_laws():
    z, p = normal_rule(200)
    np.testing.assert_allclose([p.sum(), p @ z**2, p @ z**4, p @ z**8], [1, 1, 3, 105], rtol=1e-9)
    for degrees in (1, 3):
        x, p = chi_square_rule(degrees, 12)
        for k in (1, 2, 5):  # E χ^{2k} = n (n + 2) … (n + 2k − 2)
            moment = np.prod(degrees + 2 * np.arange(k))
            np.testing.assert_allclose(p @ x**k, moment, rtol=1e-9)


def test_no_discount_and_no_running_gain_never_stop_before_the_horizon():
    rule = solve("bmG", 1.0)  # ‖s‖² is a submartingale
    states = np.array([[0.0, 0.0], [1.0, 0.5], [30.0, 0.0]])
    assert (rule.margin(states, np.array([0.0, 25.0, 49.0])) < 0).all()


def test_the_last_decision_is_the_one_step_rule():
    rule = solve("bmG", 0.85)  # r² ≥ γ(r² + 2Δt)  ⟺  r ≥ √(2γΔt / (1 − γ))
    edge = np.sqrt(2 * 0.85 * DT / 0.15)
    margin = rule.margin(np.array([[0.9999 * edge, 0.0], [0.0, 1.0001 * edge]]), np.full(2, 49.0))
    assert margin[0] < 0 < margin[1]


@pytest.mark.parametrize(
    ("problem", "gamma", "dim"), [("bmG", 0.85, 2), ("bmgG", 0.99, 2), ("bmG", 0.85, 4)]
)
def test_lsm_agrees_with_backward_induction_on_most_rows(problem, gamma, dim):
    exact = solve(problem, gamma, dim)
    regressed = lsm(RadialGains(problem, dim, DT), gamma, STEPS)
    rng = np.random.default_rng(3)
    states = np.cumsum(np.sqrt(DT) * rng.standard_normal((500, STEPS, dim)), axis=1).reshape(
        -1, dim
    )
    times = np.tile(np.arange(0.0, STEPS), 500)
    agree = (exact.margin(states, times) >= 0) == (regressed.margin(states, times) >= 0)
    assert agree.mean() > 0.97


def test_hindsight_equals_a_loop_over_each_path():
    rng = np.random.default_rng(5)
    stop_gain, gain, gamma = rng.random((40, 9)), 0.3 * rng.standard_normal((40, 9)), 0.9
    for i, stop in enumerate(hindsight_stops(stop_gain, gain, gamma)):
        best = [stop_gain[i, 8]]
        decisions = [True]
        for t in range(7, -1, -1):
            go_on = gain[i, t] + gamma * best[0]
            decisions.insert(0, stop_gain[i, t] >= go_on)
            best.insert(0, max(stop_gain[i, t], go_on))
        assert stop == decisions.index(True)
