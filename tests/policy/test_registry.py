"""A policy as a model of MLflow decides as its checkpoint does."""

import sys

import numpy as np
import pandas as pd
import pytest
from policies import make_policy, random_paths

from lit_ios.checks import UserError
from lit_ios.registry import save_model


@pytest.mark.mlflow
def test_policy_of_the_registry_decides_as_the_checkpoint_does(tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="the extra mlflow is not installed")
    policy = make_policy(lags=1)
    policy.save(tmp_path / "policy.ckpt")
    save_model(tmp_path / "policy.ckpt", tmp_path / "model")
    address = f"sqlite:///{tmp_path}/mlflow.db"
    mlflow.set_tracking_uri(address)
    mlflow.set_registry_uri(address)
    try:
        mlflow.register_model(f"file://{tmp_path}/model", "when-to-stop")
        model = mlflow.pyfunc.load_model("models:/when-to-stop/1")
    finally:
        mlflow.set_tracking_uri(None)
        mlflow.set_registry_uri(None)
    paths = random_paths(5)
    frame = pd.DataFrame(paths.states, columns=["a", "b"])
    frame["unit"], frame["day"] = np.repeat(paths.names, paths.lengths), paths.times
    given = {"path": "unit", "time": "day"}
    pd.testing.assert_frame_equal(
        model.predict(frame, params=given), policy.predict(frame, **given)
    )
    with pytest.raises(UserError, match="is there already"):
        save_model(tmp_path / "policy.ckpt", tmp_path / "model")


def test_missing_mlflow_is_said_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(UserError, match=r"pip install 'lit-ios\[mlflow\]'"):
        save_model(tmp_path / "policy.ckpt", tmp_path / "model")
