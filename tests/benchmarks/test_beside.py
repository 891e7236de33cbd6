"""Another implementation is given the same paths and timed by what an epoch more takes."""

import json
import time

import numpy as np
import pytest

from benchmarks import beside
from datamodules import ChangePointData


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_the_other_gets_the_training_paths_and_settings():
    one = beside.task("do_iqs_lb", "CP1", seed=3, epochs=2)
    data = ChangePointData(problem="CP1", seed=3)
    data.setup("fit")
    paths = data.splits.train
    assert len(one.states) == len(one.times) == len(one.stopped) == len(paths)
    assert np.array_equal(np.concatenate(one.states), paths.states)
    assert [len(states) for states in one.states] == list(np.diff(paths.offsets))
    assert one.batch_size == data.batch_size


def test_what_is_done_once_does_not_count():
    def train(one):
        burn(0.3 + 0.05 * one.epochs)

    one = beside.Task("iqs", [], [], np.zeros(0), 4, 128, {})
    assert beside.theirs(train, one) == pytest.approx(0.05, rel=0.2)


def test_whole_epochs_are_put_beside_ours(monkeypatch, tmp_path, capsys):
    (tmp_path / "slow.py").write_text(
        "import time\n"
        "def train(task):\n"
        "    end = time.process_time() + 0.5 * task.epochs\n"
        "    while time.process_time() < end: pass\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(beside, "WAYS", {"eager": "never", "compiled": "never"})
    words = ["beside", "slow:train", "--variants=iqs", "--repeats=1", "--epochs=2"]
    monkeypatch.setattr("sys.argv", words)
    beside.main()
    found = json.loads(capsys.readouterr().out)
    assert found["theirs"] == pytest.approx(0.5, rel=0.1)
    assert found["times_eager"] == pytest.approx(found["theirs"] / found["eager"], abs=0.06)
    assert 0.001 < found["eager"] < 5


@pytest.mark.parametrize("name", ["no_such_module:train", "json:no_such", "math:pi"])
def test_a_wrong_name_is_said_in_a_sentence(name):
    with pytest.raises(SystemExit, match=f"error: {name}"):
        beside.find(name)
