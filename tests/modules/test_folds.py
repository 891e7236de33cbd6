"""Members that leave out folds: no member is trained on a path it judges in validation."""

import numpy as np
import pytest
import torch

from lit_ios.sampling import folds_held_out

FOLDS = ["--model.init_args.members=6", "--data.init_args.folds=3"]


@pytest.mark.parametrize(("members", "folds"), [(4, 4), (6, 3), (6, 2)])
def test_every_path_is_left_out_by_equally_many_members(members, folds):
    stopped = np.random.default_rng(1).random(31) < 0.6
    held_out = folds_held_out(members, folds, stopped, np.random.default_rng(0))
    assert held_out.shape == (members, 31)
    assert (held_out.sum(0) == members // folds).all()
    for flag in (True, False):  # stops and censored paths by equal shares
        sizes = held_out[:, stopped == flag].sum(1)
        assert sizes.max() - sizes.min() <= 1


def test_paths_are_dealt_out_anew_for_further_members():
    held_out = folds_held_out(6, 3, np.ones(30, dtype=bool), np.random.default_rng(0))
    assert not any((held_out[k] == held_out[k + 3]).all() for k in range(3))


def test_training_and_validation_paths_are_all_that_are_not_tested(run_train):
    apart = run_train("fit", "--trainer.max_epochs=1", model="iqs").datamodule.splits
    joined = run_train("fit", "--trainer.max_epochs=1", *FOLDS, model="iqs").datamodule.splits
    assert joined.train.names == joined.val.names == apart.train.names + apart.val.names
    assert np.array_equal(
        joined.train.states, np.concatenate([apart.train.states, apart.val.states])
    )
    assert np.array_equal(joined.test.states, apart.test.states)


def test_synthetic_rows_of_all_folds_are_refused(run_train):
    with pytest.raises(SystemExit, match="folds cannot be used with oversampling: smote"):
        run_train("fit", *FOLDS, model="iqs_smote")


@pytest.mark.parametrize("model", ["iqs", "do_iqs_lb"])
def test_what_a_member_left_out_does_not_change_it(model, run_train):
    options = ["--trainer.max_epochs=1", "--model.init_args.updates=joint", *FOLDS]
    cli = run_train("fit", *options, model=model)
    module, batch = cli.model, next(iter(cli.datamodule.train_batches()))
    held_out = batch.seen[0] == 0
    assert held_out.any()
    assert not held_out.all()
    changed = batch._replace(state=torch.where(held_out[:, None], 9.0, batch.state))
    gradients = []
    for one in (batch, changed):
        module.zero_grad()
        view, records = module.view(one), {}
        sum(module._part_loss(part, view, records).sum() for part in module.parts).backward()
        gradients.append([p.grad.clone() for p in module.parameters() if p.grad is not None])
    for before, after in zip(*gradients, strict=True):
        torch.testing.assert_close(before[0], after[0])
    assert any(not torch.equal(b[1], a[1]) for b, a in zip(*gradients, strict=True))


def test_validation_asks_only_members_that_left_the_path_out(run_train):
    cli = run_train("fit", "--trainer.max_epochs=2", *FOLDS, model="do_iqs_lb")
    module = cli.model.eval()
    batch, _ = cli.datamodule.first_paths("val")
    held_out = cli.datamodule.held_out(6)
    with torch.no_grad():
        found = module(batch).margin
        q = module.rule.values(*module.rule.remember(batch))
    margins = q[..., 0] - q[..., 1]
    for row in range(0, len(found), 7):
        asked = margins[torch.from_numpy(held_out[:, batch.path[row]]), row]
        assert len(asked) == 2
        assert float(found[row]) == pytest.approx(float(asked.min()), abs=1e-6)


def test_members_must_be_a_multiple_of_the_folds(run_train):
    with pytest.raises(SystemExit, match=r"folds \(3\) must divide model.init_args.members \(1\)"):
        run_train("fit", "--data.init_args.folds=3", model="iqs")


def test_folds_are_the_same_when_a_checkpoint_is_validated(run_train):
    cli = run_train("fit", "--trainer.max_epochs=2", *FOLDS, model="iqs")
    checkpoints = cli.trainer.checkpoint_callback
    score = float(checkpoints.best_model_score)
    again = run_train(
        "validate", f"--ckpt_path={checkpoints.best_model_path}", data="", model="", small=False
    )
    assert float(again.trainer.callback_metrics["val/balanced_accuracy"]) == pytest.approx(score)
