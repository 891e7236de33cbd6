"""The page about a run: what stands in it, that it needs no network and runs nothing."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from policy.policies import make_policy, random_paths

from lit_ios.carry import LAST, ROWS
from lit_ios.checks import UserError
from lit_ios.program import run
from lit_ios.report import RunFacts, write_report
from lit_ios.report.drawings import memory_added
from lit_ios.report.notes import notes
from lit_ios.report.settings import told_settings
from lit_ios.trajectories import Trajectory, TrajectorySet


class Page(HTMLParser):
    """What a browser would load or run, and the text."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.loaded, self.open = set(), [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset") and not value.startswith("#"):
                self.loaded.append(value)
            assert not name.startswith("on"), (tag, name)

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture
def facts(tmp_path):
    policy = make_policy()
    policy.save(tmp_path / "policy.ckpt")
    return RunFacts(tmp_path / "policy.ckpt", policy, random_paths(30))


def written(facts, tmp_path):
    write_report([facts], tmp_path / "report.html")
    return (tmp_path / "report.html").read_text()


def test_a_page_loads_nothing_from_elsewhere_and_runs_no_script(facts, tmp_path):
    page = Page(written(facts, tmp_path))
    assert all(place.startswith("data:image/png") for place in page.loaded)
    assert not page.tags & {"script", "iframe", "link", "object", "embed", "form"}
    assert "svg" in page.tags


def test_the_numbers_are_those_of_a_loop_over_the_paths(facts, tmp_path):
    margins, paths = facts.policy.margins(facts.paths), facts.paths
    missed = alarms = at_once = 0
    early = []
    for i, path in enumerate(paths):
        rows = margins[paths.offsets[i] : paths.offsets[i + 1]]
        stops = [t for t, m in enumerate(rows) if m >= facts.policy.threshold]
        at_once += stops[:1] == [0]
        if paths.stopped[i]:
            missed += not stops
            early += [path.times[-1] - path.times[stops[0]]] if stops else []
        else:
            alarms += bool(stops)
    events = int(paths.stopped.sum())
    text = " ".join(Page(written(facts, tmp_path)).text)
    assert f"events missed {missed / events:.1%} of {events}" in re.sub(r"\s+", " ", text)
    if events < len(paths):
        censored = len(paths) - events
        assert f"false alarms {alarms / censored:.1%} of {censored}" in re.sub(r"\s+", " ", text)
    assert f"stopped at once {at_once / len(paths):.1%}" in re.sub(r"\s+", " ", text)
    np.testing.assert_allclose(np.sort(facts.early[np.isfinite(facts.early)]), np.sort(early))


def test_names_of_paths_and_features_are_text(facts, tmp_path):
    hostile = "<script>alert(1)</script>"
    paths = facts.paths
    names = (hostile, *paths.names[1:])
    renamed = TrajectorySet(
        paths.states, paths.times, paths.offsets, paths.stopped, names, paths.feature_names
    )
    facts = RunFacts(facts.checkpoint, facts.policy, renamed, hostile)
    text = written(facts, tmp_path)
    assert hostile not in text
    assert not Page(text).tags & {"script"}


def test_odd_rules_are_named(facts):
    facts.policy.threshold = 1e9
    never = RunFacts(facts.checkpoint, facts.policy, facts.paths)
    assert any("stops none of these paths" in note for note in notes(never))
    facts.policy.threshold = -1e9
    always = RunFacts(facts.checkpoint, facts.policy, facts.paths)
    assert any("every path at its first row" in note for note in notes(always))


def test_paths_that_nobody_stopped_are_refused(facts):
    censored = TrajectorySet.from_paths(
        [Trajectory(np.zeros((3, facts.paths.states.shape[1])), stopped=False)]
    )
    with pytest.raises(UserError, match="none of these paths was stopped"):
        RunFacts(facts.checkpoint, facts.policy, censored)


def test_a_promise_stands_on_the_page(facts, tmp_path):
    facts.policy.calibrate(random_paths(40, seed=9), max_event_miss_rate=0.3)
    facts = RunFacts(facts.checkpoint, facts.policy, facts.paths)
    text = re.sub(r"\s+", " ", " ".join(Page(written(facts, tmp_path)).text))
    assert "Promised on 40 paths" in text
    assert facts.policy.calibration.words[0] in text


def test_several_runs_are_compared_and_small(facts, tmp_path):
    other = make_policy("do_iqs_lb")
    other.save(tmp_path / "other.ckpt")
    second = RunFacts(tmp_path / "other.ckpt", other, facts.paths)
    write_report([facts, second], tmp_path / "both.html")
    text = (tmp_path / "both.html").read_text()
    assert {'id="run0"', 'id="run1"', 'href="#run1"'} <= set(
        re.findall(r'(?:id|href)="#?run\d"', text)
    )
    assert len(text) < 2_000_000


def test_what_was_promised_is_drawn_and_the_baseline_belongs_to_the_runs_own_paths(facts):
    facts.policy.calibrate(random_paths(40, seed=9), max_event_miss_rate=0.3)
    told = {f"test/baseline_balanced_accuracy{end}": 0.7 for end in ("", "_low", "_high")}
    facts.metrics = told
    assert facts.baseline["balanced_accuracy"].value == 0.7
    other = RunFacts(facts.checkpoint, facts.policy, facts.paths, "fresh.csv")
    other.metrics = told
    assert other.baseline == {}
    assert other.of.startswith("the paths of fresh.csv: 30")


def test_the_lead_over_the_baseline_is_told_of_the_rule_it_was_measured_with(facts):
    own = facts.measured["balanced_accuracy"].value
    names = {"": 0.1, "_low": 0.0, "_high": 0.2}
    told = {f"test/baseline_difference{end}": value for end, value in names.items()}
    facts.metrics = told | {"test/balanced_accuracy": own}
    assert facts.ahead == (0.1, 0.0, 0.2)
    facts.metrics = told | {"test/balanced_accuracy": own - 0.01}
    assert facts.ahead is None


@pytest.mark.parametrize("variant", ["do_iqs", "iqs"])
def test_what_memory_adds_is_the_margin_less_that_of_a_path_that_has_forgotten(variant):
    policy, paths = make_policy(variant, include_time=False), random_paths()
    found = memory_added(policy, paths)
    if variant == "iqs":
        assert found is None
        return
    margin = policy.margins(paths)
    for i, path in enumerate(paths):
        for row in range(len(path)):
            carry = policy.rule.init(1)  # whose memory is empty
            carry[0, ROWS], carry[0, LAST] = row, path.times[max(row - 1, 0)]
            columns = torch.from_numpy(path.states[None, row])
            forgotten = policy.rule.step(columns, torch.tensor([torch.nan]).double(), carry).margin
            at = paths.offsets[i] + row
            assert found[at] == pytest.approx(margin[at] - float(forgotten))
    assert np.abs(found).max() > 1e-3


def test_settings_that_are_told_are_those_that_somebody_chose():
    settings = {
        "seed_everything": 3,
        "model": {"class_path": "lit_ios.modules.IQS", "init_args": {"gamma": 0.5, "members": 1}},
        "data": {"class_path": "strangers.Data", "init_args": {"rows": 5, "other": None}},
        "trainer": {
            "max_epochs": 7, "devices": 1, "log_every_n_steps": 4,
            "callbacks": [{"class_path": "callbacks.EpsilonDecay", "init_args": {"x": 1}}],
        },
    }  # fmt: skip
    assert told_settings(settings) == [
        ("seed", "3"), ("model", "IQS"), ("model.gamma", "0.5"), ("data", "Data"),
        ("data.rows", "5"), ("trainer.max_epochs", "7"), ("callbacks", "EpsilonDecay"),
    ]  # fmt: skip
    assert told_settings({"model": 3, "trainer": [], "data": {"class_path": 1}}) == []


def test_stops_that_are_explained_are_of_different_kinds(facts):
    found = facts.typical_stops()
    assert found[0].kind == "An ordinary stop"
    assert len({one.path for one in found}) == len(found)
    for kind, path, row in found:
        assert facts.stop_rows[path] == row >= 0
        assert facts.paths.stopped[path] == (kind != "A false alarm")


def test_report_of_a_run_is_written_beside_it(run_train, tmp_path, capsys):
    cli = run_train("fit", "--trainer.max_epochs=1", data="radial", model="iqs")
    folder = cli.trainer.logger.log_dir
    run(["report", folder])
    text = (Path(folder) / "report.html").read_text()
    accuracy = float(torch.as_tensor(cli.trainer.callback_metrics["test/balanced_accuracy"]))
    assert f"<b>{accuracy:.3f}</b>" in text
    assert "validation accuracy" in text  # the curve
    assert "Q at one time" in text  # the heat map
    assert f"report  {folder}/report.html" in capsys.readouterr().out
