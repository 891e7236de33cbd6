"""Shared by tests of the command line: no figures unless asked for, settings as files."""

import pytest
import yaml

from callbacks import StoppingFigures


@pytest.fixture
def with_figures():
    """Draw the figures of the run, too."""


@pytest.fixture(autouse=True)
def no_figures(request, monkeypatch):
    """Draw none where a test is not about them: they take most of the time of a short run."""
    if "with_figures" not in request.fixturenames:
        monkeypatch.setattr(StoppingFigures, "on_test_end", lambda *_: None)


@pytest.fixture
def settings_file(tmp_path):
    """Return a function that writes settings to a file and gives back the option that names it."""

    def write(settings, name="own.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(settings))
        return f"--config={tmp_path / name}"

    return write
