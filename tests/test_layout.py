"""Who may import whom, and what importing costs."""

import subprocess
import sys

from repository import ROOT


def modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_importing_the_library_loads_neither_torch_nor_lightning():
    loaded = modules_loaded_by("import lit_ios")
    assert not {"torch", "pytorch_lightning", "matplotlib"} & loaded


def test_help_of_the_program_loads_neither_torch_nor_lightning():
    loaded = modules_loaded_by("import train; train.main(['--help'])")
    assert not {"torch", "pytorch_lightning"} & loaded


def test_the_library_imports_neither_datamodules_nor_callbacks():
    names = [path.stem for path in (ROOT / "lit_ios").iterdir() if path.stem[0] not in "_."]
    loaded = modules_loaded_by(";".join(f"import lit_ios.{name}" for name in names))
    assert {"lit_ios.cli", "lit_ios.modules", "lit_ios.plotting"} <= loaded
    assert not {"datamodules", "callbacks"} & loaded


def test_callbacks_and_datamodules_do_not_know_each_other():
    assert "datamodules" not in modules_loaded_by("import callbacks")
    assert "callbacks" not in modules_loaded_by("import datamodules")


def test_the_lower_layers_load_without_lightning():
    names = ["functional", "sampling", "plotting", "batches", "trajectories", "networks"]
    loaded = modules_loaded_by(";".join(f"import lit_ios.{name}" for name in names))
    assert "pytorch_lightning" not in loaded


def test_the_wheel_lists_every_package():
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed = set(settings["tool"]["setuptools"]["packages"])
    found = {
        str(file.parent.relative_to(ROOT)).replace("/", ".")
        for top in ("lit_ios", "datamodules", "callbacks")
        for file in (ROOT / top).rglob("__init__.py")
    }
    assert listed == found
