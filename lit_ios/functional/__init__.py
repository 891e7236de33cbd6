"""One equation, one function: tensors in, tensors out, no state."""

from lit_ios.functional.divergences import Divergence, phi
from lit_ios.functional.gains import (
    GainTarget,
    RecoveredGains,
    cumulative_gain,
    gain_target,
    next_cumulative_gain,
    recovered_gains,
)
from lit_ios.functional.losses import (
    ClassifierLoss,
    DynamicsError,
    DynamicsLoss,
    GainLoss,
    IQLoss,
    ValueTerm,
    confidence_weight,
    cross_entropy_loss,
    dynamics_loss,
    gain_loss,
    iq_loss,
    weighted_mean,
)
from lit_ios.functional.stopping import NEVER, margin, stopping_time, stops
from lit_ios.functional.values import (
    action_value,
    alive,
    discount,
    log_policy,
    recovered_reward,
    soft_value,
    stop_probability,
)

__all__ = [
    "NEVER",
    "ClassifierLoss",
    "Divergence",
    "DynamicsError",
    "DynamicsLoss",
    "GainLoss",
    "GainTarget",
    "IQLoss",
    "RecoveredGains",
    "ValueTerm",
    "action_value",
    "alive",
    "confidence_weight",
    "cross_entropy_loss",
    "cumulative_gain",
    "discount",
    "dynamics_loss",
    "gain_loss",
    "gain_target",
    "iq_loss",
    "log_policy",
    "margin",
    "next_cumulative_gain",
    "phi",
    "recovered_gains",
    "recovered_reward",
    "soft_value",
    "stop_probability",
    "stopping_time",
    "stops",
    "weighted_mean",
]
