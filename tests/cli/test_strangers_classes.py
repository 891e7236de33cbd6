"""Importing a module runs its code: settings name classes of trusted packages, or of allowed ones.

Each test writes a package of its own that leaves a trace when it is imported.
"""

import itertools
import json
import shutil
import sys
import warnings
from pathlib import Path

import pytest
import torch
import yaml
from repository import ROOT

import train
from lit_ios.checkpoints import write_checkpoint
from lit_ios.program import main
from lit_ios.settings import merge_settings, read_settings

NUMBER = itertools.count()

SOURCE = """
from pathlib import Path
Path({trace!r}).touch()  # the import was noticed

import torch
from imblearn.over_sampling import RandomOverSampler
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import TensorBoardLogger

from datamodules import ChangePointData
from lit_ios.modules import IQS
from lit_ios.rule import ColumnEncoder, Head, join

class {name}Model(IQS):
    pass

class {name}Data(ChangePointData):
    pass

class {name}Callback(Callback):
    pass

class {name}Logger(TensorBoardLogger):
    pass

class {name}Head(Head):
    def __init__(self, state_dim, memory_dim, width=7):
        super().__init__(width)
        self.layer = torch.nn.Linear(state_dim + memory_dim, width)

    def features(self, state, h):
        return self.layer(join(state, h)).tanh()

class {name}Optimizer(torch.optim.SGD):
    pass

class {name}Sampler(RandomOverSampler):
    made = []

    def fit_resample(self, *rows, **others):
        self.made.append(len(rows))
        return super().fit_resample(*rows, **others)

class {name}Encoder(ColumnEncoder):
    pass
"""


class Stranger:
    """A package in a folder, and the classes in it that settings can name."""

    def __init__(self, folder):
        self.package = f"stranger{next(NUMBER)}"
        self.trace = folder / "imported"
        name = self.package.capitalize()  # two classes of one name would be confused
        (folder / self.package).mkdir()
        (folder / self.package / "__init__.py").write_text("")
        source = SOURCE.format(trace=str(self.trace), name=name)
        (folder / self.package / "parts.py").write_text(source)
        self.prefix = f"{self.package}.parts.{name}"

    def settings(self, role):
        """Return settings that name a class of the package in a role."""
        path = f"{self.prefix}{role.capitalize()}"
        data = {"problem": "CP1", "paths": 40, "test_paths": 10}
        logger = {"save_dir": str(self.trace.parent / "logged")}
        return {
            "model": {"model": {"class_path": path}},
            "data": {"data": {"class_path": path, "init_args": data}},
            "callback": {"trainer": {"callbacks+": [{"class_path": path}]}},
            "logger": {"trainer": {"logger": {"class_path": path, "init_args": logger}}},
            "head": {"model": {"init_args": {"head": {"class_path": path}}}},
            "optimizer": {"model": {"init_args": {"optimizer": {"class_path": path}}}},
            "sampler": {"data": {"init_args": {"oversampling": {"class_path": path}}}},
            "encoder": {"data": {"init_args": {"encoder": {"class_path": path}}}},
        }[role]

    def cls(self, role):
        """Return the class of a role, of the package as it was imported."""
        name = f"{self.prefix}{role.capitalize()}".rpartition(".")[2]
        return getattr(sys.modules[f"{self.package}.parts"], name)

    @property
    def is_imported(self):
        return self.trace.exists() or f"{self.package}.parts" in sys.modules


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return Stranger(tmp_path)


ROLES = ["model", "data", "callback", "logger", "head", "optimizer", "sampler", "encoder"]
BESIDE_A_CHECKPOINT = ROLES[:-1]  # which names its encoder itself
SMALL = (
    f"--config={ROOT}/configs/data/CP1.yaml", f"--config={ROOT}/configs/model/iqs.yaml",
    "--data.init_args.paths=40", "--data.init_args.test_paths=10", "--trainer.max_epochs=1",
)  # fmt: skip


def run_quietly(*words):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train.main([str(word) for word in words])


def refusal(capsys, *words):
    """Return all that a command line says when it ends in an error."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run_quietly(*words)
    assert ended.value.code not in (0, None)
    said = ended.value.code if isinstance(ended.value.code, str) else ""
    return said + capsys.readouterr().err


def check_sentence(text, stranger):
    """It is one sentence that names the class and how to allow it."""
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, text
    assert lines[0].startswith("error: ")
    assert stranger.prefix in lines[0]
    assert f"--allow {stranger.package}" in lines[0]


def used_in(cli, role):
    """Return the classes of the objects that play a role in a run."""
    module = cli.model
    found = {
        "model": [module],
        "data": [cli.datamodule],
        "callback": cli.trainer.callbacks,
        "logger": cli.trainer.loggers,
        "head": [module.rule.head],
        "optimizer": cli.trainer.optimizers,
        "encoder": [cli.datamodule.encoder, module.rule.encoder],
    }
    return [type(each) for each in found[role]]


# Settings files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ROLES)
def test_module_that_settings_name_is_not_imported(role, stranger, settings_file, tmp_path, capsys):
    own = settings_file(stranger.settings(role))
    refusal(capsys, "fit", *SMALL, own, f"--runs_dir={tmp_path}/runs")
    assert not stranger.is_imported


@pytest.mark.parametrize("role", ROLES)
def test_settings_that_name_a_strangers_class_are_refused_in_one_sentence(
    role, stranger, settings_file, tmp_path, capsys
):
    own = settings_file(stranger.settings(role))
    said = refusal(capsys, "fit", *SMALL, own, f"--runs_dir={tmp_path}/runs")
    check_sentence(said, stranger)


@pytest.mark.parametrize("role", ROLES)
def test_class_is_refused_before_anything_is_written(
    role, stranger, settings_file, tmp_path, capsys
):
    own = settings_file(stranger.settings(role))
    refusal(capsys, "fit", *SMALL, own, f"--runs_dir={tmp_path}/runs")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("role", ROLES)
def test_strangers_class_is_used_where_its_package_is_allowed(
    role, stranger, settings_file, tmp_path
):
    own = settings_file(stranger.settings(role))
    allow = f"--allow={stranger.package}"
    cli = run_quietly("fit", *SMALL, own, allow, f"--runs_dir={tmp_path}/runs")
    cls = stranger.cls(role)
    if role == "sampler":
        assert len(cls.made) == 1
        assert len(cli.datamodule.synthetic_stops) > 0
    else:
        assert cls in used_in(cli, role)
    assert "test/balanced_accuracy" in cli.trainer.callback_metrics


@pytest.mark.parametrize("name", ["parts", "parts.Head", "torchvision"])
def test_allowing_another_package_does_not_help(name, stranger, settings_file, tmp_path, capsys):
    own = settings_file(stranger.settings("head"))
    said = refusal(capsys, "fit", *SMALL, own, "--allow", name, f"--runs_dir={tmp_path}/runs")
    assert not stranger.is_imported
    check_sentence(said, stranger)


def test_package_whose_name_begins_like_a_trusted_one_is_not_trusted(
    tmp_path, monkeypatch, settings_file, capsys
):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lit_ios_extra.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w').close()")
    own = settings_file({"model": {"init_args": {"head": "lit_ios_extra.Head"}}})
    said = refusal(capsys, "fit", *SMALL, own, f"--runs_dir={tmp_path}/runs")
    assert "--allow lit_ios_extra" in said
    assert not (tmp_path / "trace").exists()


def test_option_that_names_a_strangers_class_is_refused_like_a_file(stranger, tmp_path, capsys):
    option = f"--model.init_args.head={stranger.prefix}Head"
    said = refusal(capsys, "fit", *SMALL, option, f"--runs_dir={tmp_path}/runs")
    assert not stranger.is_imported
    check_sentence(said, stranger)


# A run's config.yaml ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a run of one epoch that names no stranger's class."""
    runs = tmp_path_factory.mktemp("strangers")
    cli = run_quietly("fit", *SMALL, f"--runs_dir={runs}")
    return Path(cli.trainer.log_dir)


@pytest.fixture
def tampered(finished, stranger, tmp_path):
    """Return a function that copies the run, its settings naming a stranger's class in a role."""

    def copy(role):
        folder = tmp_path / "given/to/me/version_0"
        shutil.copytree(finished, folder)
        settings = [read_settings(folder / "config.yaml"), stranger.settings(role)]
        (folder / "config.yaml").write_text(yaml.safe_dump(merge_settings(settings)))
        return folder

    return copy


@pytest.mark.parametrize("role", BESIDE_A_CHECKPOINT)
def test_module_that_the_settings_of_a_run_name_is_not_imported(
    role, tampered, stranger, tmp_path, capsys
):
    last = tampered(role) / "checkpoints/last.ckpt"
    refusal(capsys, "fit", f"--ckpt_path={last}", "--trainer.max_epochs=2")
    assert not stranger.is_imported


@pytest.mark.parametrize("role", BESIDE_A_CHECKPOINT)
def test_run_whose_settings_name_a_strangers_class_is_refused_in_one_sentence(
    role, tampered, stranger, tmp_path, capsys
):
    last = tampered(role) / "checkpoints/last.ckpt"
    said = refusal(capsys, "fit", f"--ckpt_path={last}", "--trainer.max_epochs=2")
    check_sentence(said, stranger)


@pytest.mark.parametrize("role", ["model", "data", "callback", "logger"])
def test_settings_of_a_run_may_name_a_class_of_an_allowed_package(
    role, tampered, stranger, tmp_path
):
    best = tampered(role) / "checkpoints/best.ckpt"
    allow = f"--allow={stranger.package}"
    cli = run_quietly("test", "--ckpt_path", best, allow, f"--runs_dir={tmp_path}/runs")
    assert stranger.cls(role) in used_in(cli, role)


def test_run_with_a_strangers_head_is_tested_again_where_it_is_allowed(
    stranger, settings_file, tmp_path
):
    own, allow = settings_file(stranger.settings("head")), f"--allow={stranger.package}"
    cli = run_quietly("fit", *SMALL, own, allow, f"--runs_dir={tmp_path}/runs")
    folder = Path(cli.trainer.log_dir)
    best = folder / "checkpoints/best.ckpt"
    again = run_quietly("test", "--ckpt_path", best, allow, f"--runs_dir={tmp_path}/runs")
    assert used_in(again, "head") == [stranger.cls("head")]
    before = json.loads((folder / "metrics.json").read_text())
    now = json.loads((Path(again.trainer.log_dir) / "metrics.json").read_text())
    assert now["test/balanced_accuracy"] == before["test/balanced_accuracy"]


def test_lit_ios_refuses_the_run_of_a_strangers_data_in_one_sentence(
    tampered, stranger, tmp_path, capsys
):
    best = tampered("data") / "checkpoints/best.ckpt"
    assert main(["frontier", str(best), "--output", str(tmp_path / "f.png")]) == 1
    check_sentence(capsys.readouterr().err, stranger)
    assert not stranger.is_imported
    assert not (tmp_path / "f.png").exists()


def test_lit_ios_reads_the_run_of_a_strangers_data_where_it_is_allowed(
    tampered, stranger, tmp_path
):
    best = tampered("data") / "checkpoints/best.ckpt"
    words = ["frontier", str(best), "--draws=2", "--output", str(tmp_path / "f.png")]
    assert main([*words, "--allow", stranger.package]) == 0
    assert stranger.is_imported


@pytest.mark.parametrize("part", ["encoder", "head"])
def test_checkpoint_that_names_a_strangers_class_is_refused_in_one_sentence(
    part, finished, stranger, tmp_path, capsys
):
    folder = tmp_path / "given/to/me/version_0"
    shutil.copytree(finished, folder)
    best = folder / "checkpoints/best.ckpt"
    content = torch.load(best, weights_only=True)
    content["lit_ios"]["rule"][part]["class_path"] = f"{stranger.prefix}{part.capitalize()}"
    write_checkpoint(content, best)
    if part == "encoder":  # train.py makes the head by the settings
        said = refusal(capsys, "test", "--ckpt_path", best, f"--runs_dir={tmp_path}/runs")
        check_sentence(said, stranger)
    capsys.readouterr()
    assert main(["export", str(best), str(tmp_path / "policy.onnx")]) == 1
    check_sentence(capsys.readouterr().err, stranger)
    assert not stranger.is_imported
