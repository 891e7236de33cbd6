"""The objectives of the three parts: Q (E3, E3′, cross-entropy), dynamics (E5), gain (E7).

Each returns a record whose first field, `total`, is minimised; the others are its terms. Means
are weighted by the rows' confidence (E4): Σ w·ℓ / Σ w.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from lit_ios.functional.divergences import Divergence, phi
from lit_ios.functional.values import (
    action_value,
    alive,
    discount,
    log_policy,
    recovered_reward,
    soft_value,
    sum_along_paths,
)

ValueTerm = Literal["expert", "initial", "literal", "discounted"]
DynamicsError = Literal["mse", "l1", "gaussian"]


class ClassifierLoss(NamedTuple):
    """Cross-entropy of the policy."""

    total: Tensor


class IQLoss(NamedTuple):
    """E3: total = reward + value."""

    total: Tensor
    reward: Tensor
    value: Tensor


class DynamicsLoss(NamedTuple):
    """E5: total = error + value_error."""

    total: Tensor
    error: Tensor
    value_error: Tensor


class GainLoss(NamedTuple):
    """E7."""

    total: Tensor


class PolicyLoss(NamedTuple):
    """E11: total = −½(stays + stops)."""

    total: Tensor
    stays: Tensor  # soft share of continue rows not stopped before or at them
    stops: Tensor  # soft share of stopped paths that are stopped in time


class SurvivalLoss(NamedTuple):
    """Total = share · likelihood + (1 − share) · event, and censored as it is."""

    total: Tensor
    likelihood: Tensor  # −log of the probability of stopping just when the expert did
    event: Tensor  # −log of the probability of stopping by then
    censored: Tensor  # −log of the probability of not stopping while observed


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Return Σ w·x / Σ w over the last axis, and 0 where no row has weight."""
    shares = weight / weight.sum(-1, keepdim=True).clamp_min(torch.finfo(weight.dtype).tiny)
    return torch.linalg.vecdot(values, shares)  # type: ignore[no-any-return]


def confidence_weight(synthetic: Tensor, confidence: Tensor | float) -> Tensor:
    """Return the weight of each row in every term of its loss.

    E4: w = 1 for expert rows, w = α_e for synthetic ones.
    """
    return torch.where(synthetic > 0, confidence, torch.ones_like(synthetic))


def cross_entropy_loss(
    q: Tensor, action: Tensor, weight: Tensor, epsilon: Tensor | float
) -> ClassifierLoss:
    """Return E_w[−log π(a|s)], the objective of the classifiers."""
    log_probability = action_value(log_policy(q, epsilon), action)
    return ClassifierLoss(weighted_mean(-log_probability, weight))


def iq_loss(
    q: Tensor,
    next_value: Tensor,
    action: Tensor,
    step: Tensor,
    synthetic: Tensor,
    weight: Tensor,
    *,
    epsilon: Tensor | float,
    gamma: float,
    divergence: Divergence = "chi2",
    alpha: float | None = None,
    value_term: ValueTerm = "expert",
    value: Tensor | None = None,
    stop_target: float | None = None,
) -> IQLoss:
    """Return the inverse soft-Q objective, minimised.

    E3: L_Q = E_w[−φ(r)] + E_w[V(s) − γ a V(s')] with r from E2; E3′ gives the second term.

    Args:
        q: (B, 2) Q(s, ·).
        next_value: (B,) V(s'), observed or predicted; never matters on stop rows.
        action: (B,) 0 stop, 1 continue.
        step: (B,) index t of the row in its path.
        synthetic: (B,) 1 for rows made by oversampling, else 0.
        weight: (B,) confidence w (E4).
        epsilon: temperature.
        gamma: discount.
        divergence: name of φ.
        alpha: weight of the χ² term, see `phi`.
        value_term: E3′: `expert` as above; `initial` (1−γ) E[V(s_0)] over the batch's first rows;
            `literal` the paper's (1−γ) in front of synthetic rows; `discounted` rows weighted γ^t,
            which telescopes to V(s_0) along a path (synthetic rows stand at t = 0).
        value: (B,) V(s), where it is known already.
        stop_target: regress the stop's value of stop rows towards this instead, as LS-IQ does with
            absorbing states: φ(r) = −(r − target)²/(4α) there, α 0.5 where it is None. For χ² and
            a target of 2α nothing changes but a constant.
    """
    reward = recovered_reward(action_value(q, action), action, next_value, gamma)
    value_of = phi(reward, divergence, alpha)
    if stop_target is not None:
        fixed = -(reward - stop_target).square() / (4 * (0.5 if alpha is None else alpha))
        value_of = torch.where(action > 0, value_of, fixed)
    reward_term = -weighted_mean(value_of, weight)
    value = soft_value(q, epsilon) if value is None else value
    difference = value - gamma * alive(next_value, action)
    if value_term == "expert":
        term = weighted_mean(difference, weight)
    elif value_term == "initial":
        first = weight * (step == 0) * (1 - synthetic)
        term = weighted_mean((1 - gamma) * value, first)
    elif value_term == "literal":
        term = weighted_mean(difference * (1 - gamma * synthetic), weight)
    elif value_term == "discounted":
        term = weighted_mean(difference, weight * discount(gamma, step, weight.dtype))
    else:
        raise ValueError(
            f"value_term must be one of expert, initial, literal, discounted, got {value_term!r}"
        )
    return IQLoss(reward_term + term, reward_term, term)


def dynamics_loss(
    predicted: Tensor,
    observed: Tensor,
    action: Tensor,
    weight: Tensor,
    *,
    error: DynamicsError = "mse",
    log_variance: Tensor | None = None,
    predicted_value: Tensor | None = None,
    observed_value: Tensor | None = None,
) -> DynamicsLoss:
    """Return the one-step prediction error over continue rows.

    E5: mean over rows with a = 1 of |ŝ' − s'|², per coordinate. Stop rows, synthetic ones among
    them, have no successor and do not count.

    Args:
        predicted: (B, D) ŝ'.
        observed: (B, D) s'; anything on stop rows.
        action: (B,) 0 stop, 1 continue.
        weight: (B,) confidence.
        error: `mse`, `l1`, or `gaussian`, the negative log-likelihood with `log_variance`.
        log_variance: (B, D), for `gaussian`.
        predicted_value: (B,) V(ŝ'); with `observed_value`, adds the value-aware term.
        observed_value: (B,) V(s').
    """
    difference = alive(predicted - observed, action[..., None])
    if error == "mse":
        rows = difference.square().mean(-1)
    elif error == "l1":
        rows = difference.abs().mean(-1)
    elif error == "gaussian" and log_variance is not None:
        rows = 0.5 * (log_variance + difference.square() * (-log_variance).exp()).mean(-1)
    else:
        raise ValueError(
            f"error must be mse, l1, or gaussian with log_variance, got {error!r} "
            f"{'without' if log_variance is None else 'with'} log_variance"
        )
    error_term = weighted_mean(rows, weight * action)
    value_error = torch.zeros_like(error_term)
    if (predicted_value is None) != (observed_value is None):
        raise ValueError("the value-aware term needs both predicted_value and observed_value")
    if predicted_value is not None and observed_value is not None:
        value_difference = alive(predicted_value, action) - alive(observed_value, action)
        value_error = weighted_mean(value_difference.square(), weight * action)
    return DynamicsLoss(error_term + value_error, error_term, value_error)


def gain_loss(gain: Tensor, target: Tensor, action: Tensor, weight: Tensor) -> GainLoss:
    """Return the squared error of the gain network over continue rows.

    E7: L_g = E_w[(g_φ(s) − target)²] over rows with a = 1.
    """
    difference = alive(gain - target, action)
    return GainLoss(weighted_mean(difference.square(), weight * action))


def survival_loss(
    margin: Tensor,
    action: Tensor,
    step: Tensor,
    first_row: Tensor,
    weight: Tensor,
    *,
    epsilon: Tensor | float,
    share: float,
) -> SurvivalLoss:
    """Return the loss of deep recurrent survival analysis, a mean over paths.

    The hazard of a row is h_t = σ(m_t/ε), S_t = Π_{k≤t} (1 − h_k). A path stopped at τ costs
    −share · log(h_τ S_{τ−1}) − (1 − share) · log(1 − S_τ), a path censored at T −log S_T.

    Args:
        margin: (…, B) m(s) of whole paths, one below the other.
        action: (B,) 0 stop, 1 continue.
        step: (B,) t of the row in its path.
        first_row: (B,) where the row's path begins.
        weight: (…, B) how much the row's path counts.
        epsilon: temperature.
        share: of the likelihood of the event's time.
    """
    logit = margin / epsilon
    log_survival = sum_along_paths(-softplus(logit), first_row).to(margin.dtype)  # (…, B) log S_t
    last = (step.roll(-1) == 0).to(margin.dtype)  # of its path; the batch ends with a path
    stopped, censored = last * (1 - action), last * action
    likelihood = -(log_survival + logit)  # log h + log S_{t−1} = log S_t + log h − log(1 − h)
    event = -torch.log(-torch.expm1(log_survival.clamp_max(-1e-6)))
    terms = [
        weighted_mean(term, weight * rows)
        for term, rows in ((likelihood, stopped), (event, stopped), (-log_survival, censored))
    ]
    paths = (weight * last).sum(-1).clamp_min(1.0)
    shares = [(weight * rows).sum(-1) / paths for rows in (stopped, censored)]
    of_events = share * terms[0] + (1 - share) * terms[1]
    return SurvivalLoss(shares[0] * of_events + shares[1] * terms[2], *terms)


def policy_loss(
    margin: Tensor,
    action: Tensor,
    first_row: Tensor,
    weight: Tensor,
    *,
    epsilon: Tensor | float,
) -> PolicyLoss:
    """Return minus the soft balanced accuracy of the stopping rule along whole paths.

    E11: with p_t = σ(m_t/ε) and S_t = Π_{k≤t} (1 − p_k), −½(mean of S_t over continue rows + mean
    of 1 − S_τ over stopped paths). As ε → 0 it is minus M1.

    Args:
        margin: (…, B) m(s) of whole paths, one below the other.
        action: (B,) 0 stop, 1 continue.
        first_row: (B,) where the row's path begins.
        weight: (…, B) how much each row counts; 0 for those that count as neither.
        epsilon: temperature.
    """
    survival = sum_along_paths(-softplus(margin / epsilon), first_row).exp().to(margin.dtype)
    stays = weighted_mean(survival, weight * action)
    stops = weighted_mean(1 - survival, weight * (1 - action))
    return PolicyLoss(-0.5 * (stays + stops), stays, stops)
