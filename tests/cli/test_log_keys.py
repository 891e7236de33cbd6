"""The page of log keys has what runs log."""

import re

import pytest
from repository import ROOT
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PAGE = (ROOT / "docs/reference/log-keys.md").read_text()
LISTED = set(re.findall(r"`((?:train|val|test|schedule)/[\w/]+)`", PAGE))
LISTED |= {key.replace("val/", "test/") for key in LISTED}
LISTED |= {f"{key}{end}" for key in LISTED for end in ("_low", "_high")}
FOLDS = ("--model.init_args.members=2", "--data.init_args.folds=2")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("do_iqs_lb", ("--model.init_args.policy_weight=0.1",)),
        ("iqs_cs_smote", ()),
        ("oti", FOLDS),
    ],
)
def test_every_key_a_run_logs_is_on_the_page(model, options, run_train, tmp_path):
    run_train("fit", "--trainer.max_epochs=1", *options, data="radial", model=model)
    logged = set()
    for file in tmp_path.rglob("events.out*"):
        events = EventAccumulator(str(file))
        events.Reload()
        logged |= set(events.Tags()["scalars"])
    assert len(logged) > 20
    assert logged <= LISTED
