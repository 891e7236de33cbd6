"""What a rule remembers of a quantity that nobody showed it, where a simulator knows it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lit_ios import plotting
from lit_ios.batches import path_batch
from lit_ios.trajectories import FloatArray, TrajectorySet


def hidden_figure(rule: Any, data: Any, shown: int = 3) -> Any:
    """Draw what is seen of some test paths, what is not, and what the rule remembers of it.

    The numbers a rule remembers mean what Q makes of them: drawn is the linear function of them and
    of the state that fits the hidden quantity of the training paths best.

    Args:
        rule: the learnt StoppingRule, in evaluation mode.
        data: a data module whose `hidden` is known.
        shown: number of paths.
    """
    train, test = data.splits.train, data.splits.test
    name, truth = data.hidden(test)
    fits = [_explained(rule, train, test, data, memory) for memory in (True, False)]
    (remembered, share), (_, alone) = fits
    with torch.inference_mode():
        first = rule.scan(_there(rule, data, test)).first_stop.cpu().numpy()
    panels = []
    for i in np.argsort(-test.lengths, kind="stable")[:: max(1, len(test) // shown)][:shown]:
        rows = slice(test.offsets[i], test.offsets[i + 1])
        stop = np.flatnonzero(first[rows])
        panels.append(
            plotting.HiddenPath(
                name=test.names[i],
                time=test.times[rows],
                seen=test.states[rows, 0],
                hidden=truth[rows],
                remembered=remembered[rows],
                stopped=bool(test.stopped[i]),
                policy_stop=int(stop[0]) if len(stop) else None,
            )
        )
    title = (
        f"what the rule remembers explains {share:.1%} of the {name} of all test paths, "
        f"{' and '.join([*test.feature_names[:2], 'time'])} alone {max(alone, 0):.0%}"
    )
    return plotting.hidden_along_paths(panels, test.feature_names[0], name, title)


def _there(rule: Any, data: Any, paths: TrajectorySet) -> Any:
    return data.transfer_batch_to_device(path_batch(paths), rule.threshold.device, 0)


def _known(rule: Any, data: Any, paths: TrajectorySet, memory: bool) -> FloatArray:
    """Return a one, the state, and what is remembered of all members, of each row; (N, …)."""
    with torch.inference_mode():
        state, h = (x.double().cpu() for x in rule.remember(_there(rule, data, paths)))
    columns = [np.ones((len(state), 1)), state.numpy()]
    if memory:
        columns.append(h.movedim(-2, 0).reshape(len(state), -1).numpy())
    return np.concatenate(columns, axis=1)


def _explained(
    rule: Any, train: TrajectorySet, test: TrajectorySet, data: Any, memory: bool
) -> tuple[FloatArray, float]:
    """Return what the rule knows of the hidden quantity on test rows, and R² of it."""
    weights = np.linalg.lstsq(_known(rule, data, train, memory), data.hidden(train)[1])[0]
    truth, guess = data.hidden(test)[1], _known(rule, data, test, memory) @ weights
    return guess, float(1 - np.var(truth - guess) / np.var(truth))
