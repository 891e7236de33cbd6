"""Exact expectations of a function of ‖s'‖, s' = s + √Δt·Z, for s at radius r.

With Z₁ along s and Z⊥ across it, ‖s'‖² = (r + √Δt·Z₁)² + Δt·‖Z⊥‖²: Gauss–Hermite in Z₁, where a
kink of the function needs many nodes, and few nodes for ‖Z⊥‖², a χ² with dim − 1 degrees.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.polynomial.hermite import hermgauss

from lit_ios.trajectories import FloatArray, IntArray

ALONG, ACROSS = 200, 12  # nodes
NORMAL_CDF = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0)), otypes=[float])


def transition_matrix(radii: FloatArray, dim: int, dt: float) -> FloatArray:
    """Return W with (W f)(r) = E[f(‖s'‖)], f linear between radii, constant past them; (M, M)."""
    along, p_along = normal_rule(ALONG)
    across, p_across = chi_square_rule(dim - 1, ACROSS)
    size = len(radii)
    shifted = (radii[:, None] + np.sqrt(dt) * along) ** 2  # (M, A)
    next_radii = np.sqrt(shifted[:, :, None] + dt * across)  # (M, A, B)
    probability = np.broadcast_to(p_along[:, None] * p_across, next_radii.shape)
    cell, weight = locate(radii, next_radii)
    flat = (np.arange(size)[:, None, None] * size + cell).ravel()
    upper = (probability * weight).ravel()
    lower = np.bincount(flat, probability.ravel() - upper, size**2)
    matrix = np.asarray(lower, dtype=np.float64)
    matrix[1:] += np.bincount(flat, upper, size**2)[:-1]  # cell + 1 is the next column
    return matrix.reshape(size, size)


def inside_probability(radii: FloatArray, ball: float, dim: int, dt: float) -> FloatArray:
    """P(‖s'‖ < ball) from each radius; (M,)."""
    across, p_across = chi_square_rule(dim - 1, ACROSS)
    half_chord = np.sqrt(np.maximum(ball**2 - dt * across, 0.0))  # (B,)
    ends = np.stack([half_chord, -half_chord]) - radii[:, None, None]  # (M, 2, B)
    upper, lower = np.moveaxis(NORMAL_CDF(ends / np.sqrt(dt)), 1, 0)
    return np.asarray((upper - lower) @ p_across)


def normal_rule(nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss–Hermite nodes and probabilities of N(0, 1), without those of no weight."""
    x, w = hermgauss(nodes)
    probability = w / np.sqrt(np.pi)
    kept = probability > 1e-16
    return np.sqrt(2.0) * x[kept], probability[kept]


def chi_square_rule(degrees: int, nodes: int) -> tuple[FloatArray, FloatArray]:
    """Gauss nodes and probabilities of χ² (Golub–Welsch for Laguerre's weight).

    With one degree these are the squared Gauss–Hermite nodes, two by two.
    """
    if degrees == 0:
        return np.zeros(1), np.ones(1)
    alpha, k = degrees / 2 - 1, np.arange(nodes)
    beside = np.sqrt(k[1:] * (k[1:] + alpha))
    jacobi = np.diag(2 * k + 1 + alpha) + np.diag(beside, 1) + np.diag(beside, -1)
    x, vectors = np.linalg.eigh(jacobi)
    return 2.0 * x, vectors[0] ** 2


def locate(radii: FloatArray, radius: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the grid cell of each radius and its place in it, 0 … 1; the rim's beyond the grid."""
    cell = np.clip(np.searchsorted(radii, radius, side="right") - 1, 0, len(radii) - 2)
    weight = (radius - radii[cell]) / (radii[cell + 1] - radii[cell])
    return cell, np.clip(weight, 0.0, 1.0)
