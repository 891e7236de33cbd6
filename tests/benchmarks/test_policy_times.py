"""What is timed of a deployed policy computes what the policy computes."""

import numpy as np
import pytest

from benchmarks import policy as deployed
from lit_ios import runtime

ROW = np.array([0.1, -0.2])


@pytest.fixture(scope="module", params=["iqs", "do_iqs_lb"])
def trained(request, tmp_path_factory):
    return deployed.trained(request.param, 1, tmp_path_factory.mktemp("runs"))


def test_exported_file_gives_the_margin_of_a_live_path(trained, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    file = trained.export(tmp_path / "policy.onnx")
    margin, *_ = deployed.session_run(file, ROW)()
    expected = trained.stream().step(ROW).margin
    assert margin == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert runtime.load(file).stream().step(ROW).margin == pytest.approx(margin[0])


def test_bare_pass_has_every_network_of_a_step(trained):
    """By the products of its layers: those of the head, and of the gains where there are any."""
    head = trained.rule.head
    networks = [(head.trunk[0], head.trunk[2], head.q)]
    memory = trained.rule.memory
    if memory.width:
        networks.append((memory.trunk[0], memory.trunk[2], memory.head))
    assert [
        [tuple(weight.shape) for weight, _ in layers] for layers in deployed.layers(trained)
    ] == [[(layer.in_features, layer.out_features) for layer in network] for network in networks]


def test_every_way_of_asking_is_timed(trained, tmp_path):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    found = deployed.latencies(trained, tmp_path, calls=50)
    assert list(found) == [
        "bare NumPy pass", "stream.step", "stream.step, without familiarity",
        "stream.step, with a forecast", "exported to ONNX, session.run",
        "exported to ONNX, stream.step", "stream_many, 1,000 paths",
    ]  # fmt: skip
    assert all(value > 0 for value in found.values())


def test_rates_are_of_all_rows_of_a_table(trained, monkeypatch):
    seconds = iter([0.5, 0.1, 0.2, 0.25] * 5)

    def take(way):
        way()
        return next(seconds)

    monkeypatch.setattr(deployed, "_seconds", take)
    rows = len(deployed.simulated(10).states)
    assert deployed.table_rates(trained, rows=400) == {
        "predict": 2 * rows, "paths": 10 * rows, "margins": 5 * rows, "decide": 4 * rows,
    }  # fmt: skip
