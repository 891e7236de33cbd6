"""A required lead: metrics count by it, and training can learn from stops moved earlier."""

import numpy as np
import pytest

from datamodules import ChangePointData


def test_lead_reaches_the_paths_that_are_judged_and_the_record():
    data = ChangePointData(problem="CP1", paths=20, test_paths=10, lead=3.0)
    assert next(iter(data.val_dataloader())).lead == 3.0
    assert next(iter(data.test_dataloader())).lead == 3.0
    assert data.first_paths("val")[0].lead == 3.0
    assert data.prepare_for().lead == 3.0


@pytest.mark.parametrize("folds", [None, 2])
def test_stop_lead_moves_the_stops_of_training_paths_only(folds):
    plain = ChangePointData(problem="CP1", paths=20, test_paths=10, folds=folds)
    moved = ChangePointData(problem="CP1", paths=20, test_paths=10, folds=folds, stop_lead=3.0)
    moved.prepare_for(members=folds or 1)
    before, after = plain.training_paths, moved.training_paths
    assert (after.lengths == np.maximum(before.lengths - 3, 1)).all()
    assert (after.stopped == before.stopped).all()
    assert (moved.splits.val.lengths == plain.splits.val.lengths).all()
    assert (moved.splits.test.lengths == plain.splits.test.lengths).all()
    batch = next(iter(moved.train_batches()))
    assert float((batch.action == 0).sum()) > 0


def test_events_too_soon_for_the_lead_are_named():
    data = ChangePointData(problem="CP1", paths=20, test_paths=10, lead=1e4, stop_lead=1e4)
    with pytest.warns(UserWarning, match=r"sooner than lead \(10000\) .*: no stop catches them"):
        data.setup("fit")
    with pytest.warns(UserWarning, match="they stop at their first row"):
        data.setup("fit")
    with pytest.raises(ValueError, match="stop_lead"):
        ChangePointData(problem="CP1", stop_lead=-1.0)
