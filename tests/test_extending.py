"""The worked examples of docs/extending.md run as they stand there, and what they made deploys."""

import re
import sys
import warnings

import pytest
import torch
import yaml
from repository import ROOT

from lit_ios import StoppingPolicy, runtime

PAGE = (ROOT / "docs/extending.md").read_text()
BLOCKS = re.findall(r"```(python|yaml)\n(.*?)```", PAGE, re.S)
FILES = {
    match[1]: text for _, text in BLOCKS if (match := re.match(r"# (\w+\.(?:py|yaml))\n", text))
}
PROGRAM = [text for kind, text in BLOCKS if kind == "python" and not text.startswith("# my_")]
EXPORTED = sorted(set(re.findall(r'policy\.export\("(\w+\.onnx)"\)', PAGE)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write the page's files and run its program in an empty folder."""
    place = tmp_path_factory.mktemp("extending")
    for name, text in FILES.items():
        (place / name).write_text(text)
    patch = pytest.MonkeyPatch()
    patch.chdir(place)
    patch.syspath_prepend(str(place))
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in PROGRAM:
            exec(compile(text, "docs/extending.md", "exec"), names)
    yield place
    patch.undo()
    for name in [name for name in sys.modules if name.startswith("my_")]:
        del sys.modules[name]


def test_page_has_an_example_of_each_kind():
    assert sorted(FILES) == [
        "my_data.py", "my_memory.py", "my_metric.py", "my_network.py", "my_network.yaml",
        "my_objective.py", "my_sampler.py",
    ]  # fmt: skip
    assert len(FILES["my_data.py"].splitlines()) <= 60
    assert len(EXPORTED) == 7


@pytest.mark.parametrize("file", EXPORTED)
def test_what_an_example_made_streams_and_runs_without_torch(file, folder):
    pytest.importorskip("onnxruntime", reason="ONNX is an extra")
    policy = StoppingPolicy.load(
        folder / file.replace(".onnx", ".ckpt"), allow=["my_network", "my_memory"]
    )
    exported = runtime.load(folder / file)
    one, other = policy.stream(), exported.stream()
    rows = [[0.1 * i for _ in policy.columns] for i in range(5)]
    for row in rows:
        expected, found = one.step(row), other.step(row)
        assert found.margin == pytest.approx(expected.margin, abs=1e-5)
        assert found.stop == expected.stop or abs(expected.margin - policy.threshold) < 1e-5


def test_checkpoint_with_a_strangers_network_is_not_loaded_unless_allowed(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "my_network")
    with pytest.raises(ValueError, match=r"Residual is not imported.*allow=\['my_network'\]"):
        StoppingPolicy.load(folder / "residual.ckpt")
    assert "my_network" not in sys.modules


def test_settings_file_of_the_page_trains(folder, run_train):
    cli = run_train(
        "fit", f"--config={folder}/my_network.yaml", "--allow=my_network", "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false",
    )  # fmt: skip
    assert type(cli.model.rule.head).__name__ == "Residual"
    assert yaml.safe_load(FILES["my_network.yaml"])["model"]["init_args"]["head"]["init_args"]
