"""Who may import whom, and what importing costs."""

import ast
import importlib
import subprocess
import sys

import pytest
from repository import ROOT

from lit_ios import program

# what each part of the library may know, imports inside functions included
MAY_IMPORT = {
    "checks": set(),
    "files": {"checks"},
    "memory": set(),
    "small_files": set(),
    "seals": {"checks", "memory"},
    "carry": set(),
    "trajectories": {"checks"},
    "times": {"checks"},
    "imports": {"checks"},
    "formulas": set(),
    "yaml_text": set(),
    "settings": {"checks", "yaml_text"},
    "found": {"checks", "imports", "settings"},
    "variants": {"checks", "settings"},
    "recipe": {"checks", "settings", "trajectories", "variants"},
    "regions": {"trajectories"},
    "recognition": {"trajectories"},
    "batches": {"checks", "trajectories"},
    "readers": {"checks", "memory", "times", "trajectories"},
    "sampling": {"carry", "checks", "imports", "trajectories"},
    "functional": {"batches", "checks"},
    "promises": {"batches", "checks", "functional"},
    "rule": {"batches", "carry", "checks", "functional", "imports", "live", "trajectories"},
    "live": {"carry", "checks", "plotting", "times", "trajectories"},
    "runtime": {"carry", "checks", "live", "seals", "trajectories"},
    "data_record": {"carry", "imports", "recognition", "sampling", "times"},
    "records": {"checks", "data_record", "live", "times"},
    "checkpoints": {"checks", "files", "records", "seals"},
    "baseline": {"batches", "functional", "policy", "rule", "sampling", "trajectories"},
    "leaks": {"checks", "trajectories"},
    "metrics": {"batches", "checks", "functional", "imports"},
    "forecast_metrics": {"batches", "functional", "metrics"},
    "plotting": {"times", "trajectories"},
    "relevance": {"trajectories"},
    "inspect": {
        "checks", "files", "leaks", "plotting", "readers", "relevance", "times", "trajectories",
    },
    "modules": {
        "batches", "checkpoints", "checks", "data_record", "files", "functional", "imports",
        "metrics", "rule",
    },
    "rows": {"checks", "policy", "readers", "recognition", "times", "trajectories"},
    "folds": {"checks", "rows", "trajectories"},
    "policy": {
        "batches", "carry", "checkpoints", "checks", "data_record", "files", "formulas",
        "functional", "live", "plotting", "promises", "readers", "recognition", "rule", "seals",
        "times", "trajectories",
    },
    "registry": {"__version__", "checks", "policy"},
    "scale": {"checks", "files", "policy", "promises", "readers", "recognition"},
    "serve": {"carry", "checks", "live", "policy", "runtime", "times", "trajectories"},
}  # fmt: skip
ASSEMBLE = {  # may know everything
    "__init__", "__main__", "auto", "cli", "estimator", "fitting", "program", "report", "testing",
    "training", "tune",
}  # fmt: skip
DEPLOYED = (
    "batches", "carry", "checkpoints", "checks", "data_record", "files", "functional", "imports",
    "live", "policy", "promises", "readers", "recognition", "rule", "runtime", "seals",
    "times", "trajectories",
)  # fmt: skip
HEAVY = {"pytorch_lightning", "torchmetrics", "matplotlib", "sklearn", "imblearn", "pandas"}


def imported_by(file):
    """Return the modules a file imports anywhere in it, but for what only types need."""
    tree, found = ast.parse(file.read_text()), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files_of(name):
    place = ROOT / "lit_ios" / name
    return sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]


PARTS = sorted(
    path.stem for path in (ROOT / "lit_ios").iterdir() if path.suffix == ".py" or path.is_dir()
)


def test_every_part_of_the_library_has_its_place():
    assert {part for part in PARTS if part != "__pycache__"} == MAY_IMPORT.keys() | ASSEMBLE


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_a_part_imports_only_what_it_may_know(part):
    for file in files_of(part):
        for name in imported_by(file):
            words = name.split(".")
            assert words[0] not in ("datamodules", "callbacks", "train"), (file, name)
            if words[0] == "lit_ios" and len(words) > 1 and words[1] != part:
                assert words[1] in MAY_IMPORT[part], f"{file} imports {name}"


def test_datamodules_and_callbacks_do_not_know_each_other_nor_what_learns():
    for folder, forbidden in {
        "datamodules": ("callbacks", "lit_ios.modules", "lit_ios.policy", "lit_ios.cli"),
        "callbacks": ("datamodules", "lit_ios.modules", "lit_ios.cli"),
    }.items():
        for file in (ROOT / folder).rglob("*.py"):
            for name in imported_by(file):
                assert not name.startswith(forbidden), f"{file} imports {name}"


@pytest.mark.parametrize("part", DEPLOYED)
def test_what_deploys_imports_nothing_heavy(part):
    for file in files_of(part):
        heavy = {name for name in imported_by(file) if name.split(".")[0] in HEAVY}
        assert not heavy, f"{file} imports {heavy}"


def test_no_class_of_a_variant_is_asked_for_outside_its_own_file():
    variants = ("Classifier", "IQS", "ModelBasedIQS", "DOIQS")
    for folder in ("lit_ios", "datamodules", "callbacks"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
                    asked = ast.dump(node.args[1])
                    assert not any(f"'{name}'" in asked for name in variants), file


def modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_library_loads_neither_torch_nor_lightning():
    loaded = modules_loaded_by("import lit_ios")
    assert not {"torch", "pytorch_lightning", "matplotlib"} & loaded


def test_importing_the_policy_loads_torch_and_nothing_else_heavy():
    loaded = modules_loaded_by("from lit_ios import StoppingPolicy")
    assert "torch" in loaded
    assert not (HEAVY | {"scipy", "pyarrow"}) & loaded


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], *([c, "--help"] for c in program.start.COMMANDS)], ids=str
)
def test_help_of_the_program_loads_nothing_heavy(words):
    loaded = modules_loaded_by(f"import train; train.main({words})")
    assert not {"torch", "pyarrow", "pytorch_lightning", "matplotlib"} & loaded


def test_listing_runs_loads_no_torch(tmp_path):
    (tmp_path / "runs/a/b/version_0/checkpoints").mkdir(parents=True)
    loaded = modules_loaded_by(f"import train; train.main(['runs', {str(tmp_path)!r}])")
    assert not {"torch", "pyarrow", "pytorch_lightning"} & loaded


def test_training_begins_without_what_it_does_not_need():
    loaded = modules_loaded_by(
        "import sys, train\n"
        "from lit_ios.modules import StoppingModule\n"
        "StoppingModule.training_step = lambda *_: sys.exit()\n"
        "words = '--data.init_args.paths=20 --data.init_args.test_paths=5 --trainer.logger=false'\n"
        "try:\n"
        "    train.main(['fit', '--data=CP1', '--model=iqs', *words.split()])\n"
        "except SystemExit:\n"
        "    pass\n"
    )
    assert "pytorch_lightning" in loaded
    assert not {
        "imblearn", "sklearn", "pandas", "polars", "jinja2", "onnx", "onnxruntime", "optuna", "ray",
        "fastapi", "mlflow", "wandb",
    } & loaded  # fmt: skip


PUBLIC = {
    "lit_ios": [
        "PathFolds", "StoppingClassifier", "StoppingPolicy", "Trajectory", "TrajectoryError",
        "TrajectorySet", "__version__", "fit",
    ],
    "lit_ios.rule": [
        "AccumulateMemory", "ColumnEncoder", "ConditionEncoder", "Decisions", "Encoder",
        "GRUMemory", "GainMemory", "Head", "JoinedMemory", "MLPHead", "Memory", "NoMemory",
        "Scaler", "StoppingRule", "Window", "join", "load_rule", "memory_spec",
    ],
    "lit_ios.modules": [
        "Classifier", "DOIQS", "IQS", "ModelBasedIQS", "RecurrentSurvival", "StoppingModule",
        "View",
    ],
    "lit_ios.policy": [
        "Calibration", "Decision", "Decisions", "Explanation", "Forecast", "FrontierCurve",
        "Remaining", "StoppingPolicy", "Stream", "Streams",
    ],
    "lit_ios.program": ["main", "run"],
    "lit_ios.promises": [
        "AlarmsPerTime", "Balanced", "Cost", "FalseAlarms", "MissRate", "Promise", "Sweep",
    ],
    "lit_ios.live": [
        "Decision", "Decisions", "Forecast", "LiveRule", "Monitor", "Observations", "Remaining",
        "Stream", "Streams",
    ],
    "lit_ios.readers": [
        "Duplicates", "Missing", "TableError", "TableRoles", "Unknown", "read_columns",
        "read_paths",
    ],
    "datamodules": [
        "AzureData", "BoundaryExitData", "ChangePointData", "FatigueData", "GainStoppingData",
        "NamedRows", "Oversampling", "PathLoader", "PathsData", "SatisficingData", "Shard",
        "SimulatedData", "Splits", "TableData", "TrainLoader", "TrajectoryDataModule",
        "TurbofanData",
    ],
    "callbacks": [
        "ConfidenceDecay", "EpochProgressBar", "EpsilonDecay", "ExponentialSchedule",
        "Interruptions",
        "PredictionWriter", "RunCheckpoint", "RunSummary", "StoppingFigures",
    ],
}  # fmt: skip
CHECKS = [
    "CheckError", "check_data", "check_head", "check_memory", "check_module", "check_promise",
    "check_rule",
]  # fmt: skip


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names_are_these(module):
    found = importlib.import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    for name in PUBLIC[module]:
        assert not isinstance(getattr(found, name), type) or getattr(found, name).__doc__, name


def test_checks_for_users_own_classes_are_these():
    assert sorted(importlib.import_module("lit_ios.testing").__all__) == CHECKS


def test_the_wheel_lists_every_package():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(settings["tool"]["setuptools"]["packages"])
    found = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for top in ("lit_ios", "datamodules", "callbacks")
        for file in (ROOT / top).rglob("__init__.py")
    }
    assert listed == found | {"lit_ios.configs"}
