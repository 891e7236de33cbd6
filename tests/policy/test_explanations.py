"""What a margin is made of adds up, and is right where it can be known."""

import numpy as np
import pytest
import torch
from policies import SETTINGS, VARIANTS, make_policy, random_paths
from torch import nn

from lit_ios.batches import path_batch
from lit_ios.policy import StoppingPolicy
from lit_ios.rule import ColumnEncoder, StoppingRule
from lit_ios.rule.encoders import Origin


@pytest.mark.parametrize("settings", ["plain", "lags", "layer norm", "no time"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_shares_add_up_to_the_margin_above_that_of_the_average_state(variant, settings):
    policy = make_policy(variant, **SETTINGS[settings])
    path = max(random_paths(), key=len)
    found = policy.explain_row(path, len(path) - 1)
    total = found.average_margin + sum(found.shares.values())
    assert total == pytest.approx(found.margin, abs=1e-4 * abs(found.margin - found.average_margin))


def test_shares_of_a_linear_margin_are_weight_times_deviation():
    policy = make_policy("iqs")
    rule = policy.rule
    rule.head.trunk = nn.Sequential(nn.Identity())
    rule.head.q = nn.Linear(3, 2).double()
    raw = np.array([1.5, -2.0, 4.0])
    stream = policy.stream()
    stream.step([0.0, 0.0], 10.0)
    found = policy.explain(raw[:2], stream, time=14.0)
    weight = (rule.head.q.weight[0] - rule.head.q.weight[1]).detach().numpy()
    scaled = (raw - rule.scaler.mean.numpy()) / rule.scaler.scale.numpy()
    assert list(found.shares) == ["a", "b", "time"]
    assert np.allclose(list(found.shares.values()), weight * scaled)
    assert found.values == pytest.approx({"a": 1.5, "b": -2.0, "time": 4.0})


@pytest.mark.parametrize("variant", ["model_based_iqs", "do_iqs"])
def test_gains_are_those_of_the_whole_path(variant):
    policy, paths = make_policy(variant), random_paths()
    with torch.no_grad():
        output = policy.rule.scan(path_batch(paths), details=True)
    for i, path in enumerate(paths):
        row = len(path) - 1
        found = policy.explain_row(path, row)
        at = paths.offsets[i] + row
        assert found.margin == pytest.approx(float(output.margin[at]), abs=1e-9)
        assert found.stop_gain == pytest.approx(float(output.stop_gain[at]), abs=1e-9)
        assert found.continuation_gain == pytest.approx(
            float(output.continuation_gain[at]), abs=1e-9
        )


@pytest.mark.parametrize(
    "settings",
    [{"members": 5, "activation": "relu"}, {"members": 4, "normalisation": "layer"},
     {"activation": "relu", "hidden": [64, 64]}],
)  # fmt: skip
def test_what_kinks_leave_over_is_small_and_told(settings):
    policy = make_policy("do_iqs_lb", **settings)
    path = max(random_paths(), key=len)
    found = policy.explain_row(path, len(path) - 1)
    difference = found.margin - found.average_margin
    assert found.residual == pytest.approx(difference - sum(found.shares.values()))
    assert abs(found.residual) < 3e-4 * abs(difference)


def test_members_are_explained_together():
    policy = make_policy("do_iqs_lb", members=3)
    path = max(random_paths(), key=len)
    found = policy.explain_row(path, len(path) - 1)
    stream = policy.stream()
    for x, time in zip(path.states, path.times, strict=True):
        margin = stream.step(x, time).margin
    assert found.margin == pytest.approx(margin)


def test_explaining_does_not_advance_the_stream():
    policy = make_policy("do_iqs_lb")
    stream = policy.stream()
    stream.step([0.0, 1.0])
    before = stream.state()
    policy.explain([1.0, 1.0], stream)
    assert stream.state() == before


def test_figure_shows_the_largest_shares(tmp_path):
    found = make_policy("do_iqs_lb", lags=2).explain([1.0, -1.0])
    figure = found.figure(most=3)
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert len(labels) == 4
    assert labels[-1].endswith("others")
    assert sum(bar.get_width() for bar in figure.axes[0].patches) == pytest.approx(
        sum(found.shares.values())
    )


def test_a_feature_called_time_has_a_share_of_its_own():
    policy = make_policy("iqs", names=("x", "time"))
    found = policy.explain([1.0, 2.0], time=3.0)
    assert list(found.shares) == ["x", "time", "time since the start"]
    difference = found.margin - found.average_margin - found.residual
    assert sum(found.shares.values()) == pytest.approx(difference)


def text_policy(missing="error", **settings):
    """Return a policy of one number and one text column, with and without gaps."""
    policy = make_policy("iqs", names=("heat", "site"), lags=1, **settings)
    made = {
        "columns": ["heat", "site"], "categories": {"site": ["harbour", "north", "south"]},
        "missing": missing,
    }  # fmt: skip
    if missing == "impute":
        made |= {"fill": {"heat": 60.0, "site": 0.0}, "flagged": ["heat"]}
    encoder = ColumnEncoder(**made)
    spec = policy.rule.spec | {"encoder": encoder.spec, "static": []}
    width = 2 * len(encoder.feature_names) + 1
    spec["head"]["init_args"] = spec["head"].get("init_args", {})
    torch.manual_seed(5)
    rule = StoppingRule(**spec).double()
    rule.scaler.mean.copy_(torch.randn(width, dtype=torch.double))
    return StoppingPolicy(rule)


def test_the_categories_of_a_column_have_one_share_together():
    policy = text_policy()
    stream = policy.stream()
    stream.step({"heat": 50.0, "site": "north"})
    row = {"heat": 71.0, "site": "south"}
    found = policy.explain(row, stream)
    assert list(found.shares) == ["heat", "site", "heat[-1]", "site[-1]", "time"]
    assert (found.values["site"], found.values["site[-1]"]) == ("south", "north")
    assert found.label("site") == "site = south"
    assert found.label("heat") == "heat = 71"
    total = found.average_margin + sum(found.shares.values()) + found.residual
    assert total == pytest.approx(found.margin)


def test_the_share_of_a_column_is_the_sum_of_those_of_its_categories(monkeypatch):
    policy = text_policy()
    row = {"heat": 71.0, "site": "south"}
    together = policy.explain(row).shares
    monkeypatch.setattr(
        ColumnEncoder, "origins", property(lambda e: tuple(map(Origin, e.feature_names)))
    )
    alone = policy.explain(row).shares
    assert len(alone) == 9
    assert together["site"] == pytest.approx(
        sum(alone[f"site={name}"] for name in ("harbour", "north", "south"))
    )


def test_a_gap_belongs_to_its_column():
    policy = text_policy("impute")
    found = policy.explain({"heat": float("nan"), "site": "north"})
    assert list(found.shares) == ["heat", "site", "heat[-1]", "site[-1]", "time"]
    assert found.values["heat"] == "missing"
    assert policy.explain({"heat": 70.0, "site": "north"}).values["heat"] == 70.0


def test_a_text_column_called_time_keeps_its_share():
    encoder = ColumnEncoder(["time"], {"time": ["day", "night"]})
    policy = make_policy("iqs", names=("x",))
    rule = StoppingRule(**policy.rule.spec | {"encoder": encoder.spec}).double()
    found = StoppingPolicy(rule).explain({"time": "night"}, time=3.0)
    assert list(found.shares) == ["time", "time since the start"]
    assert found.values == {"time": "night", "time since the start": 0.0}
