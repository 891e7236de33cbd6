"""The margin chosen on validation paths after each epoch."""

import pytest
import torch

from lit_ios.batches import path_batch
from lit_ios.functional.frontier import balanced_margin
from lit_ios.metrics import BalancedThreshold


def test_threshold_over_batches_is_that_of_all_paths_at_once(paths):
    torch.manual_seed(0)
    margin = torch.randn(len(paths.states))
    metric = BalancedThreshold()
    for part in ([0, 1, 2], [3, 4], [5, 6, 7, 8]):
        rows = torch.cat([torch.arange(paths.offsets[i], paths.offsets[i + 1]) for i in part])
        metric.update(margin[rows], path_batch(paths.select(part)))
    assert metric.compute() == balanced_margin(margin, path_batch(paths))


def test_checkpoint_keeps_the_margin_of_its_epoch_and_tests_with_it(run_train):
    cli = run_train(
        "fit", "--trainer.max_epochs=4", "--model.init_args.margin=validated", model="iqs",
        data="CP3",
    )  # fmt: skip
    best = torch.load(cli.trainer.checkpoint_callback.best_model_path, weights_only=True)
    threshold = best["state_dict"]["rule.threshold"]
    assert cli.model.rule.threshold == threshold  # the tested one
    cli.model.load_state_dict(best["state_dict"])
    batch, _ = cli.datamodule.first_paths("val")
    with torch.no_grad():
        margin = cli.model.eval()(batch).margin
    assert float(threshold) == pytest.approx(float(balanced_margin(margin, batch)), abs=1e-6)
    score = float(cli.trainer.checkpoint_callback.best_model_score)
    stopped = margin >= threshold
    caught = torch.tensor([bool(stopped[batch.path == i].any()) for i in range(len(batch.stopped))])
    tpr = caught[batch.stopped].double().mean()
    reached = torch.stack([stopped[(batch.path == batch.path[i])][: batch.step[i] + 1].any()
                           for i in range(len(margin))])  # fmt: skip
    continues = torch.ones(len(margin), dtype=torch.bool)
    continues[batch.last_row[batch.stopped]] = False
    tnr = (~reached[continues]).double().mean()
    assert score == pytest.approx(float((tpr + tnr) / 2), abs=1e-6)


def test_validating_a_checkpoint_leaves_its_margin_alone(run_train):
    cli = run_train("fit", "--trainer.max_epochs=2", "--model.init_args.margin=validated")
    best = cli.trainer.checkpoint_callback.best_model_path
    validated = run_train("validate", f"--ckpt_path={best}", data="", model="", small=False)
    assert (
        validated.model.rule.threshold
        == torch.load(best, weights_only=True)["state_dict"]["rule.threshold"]
    )


def test_members_without_bootstrap_see_all_paths(run_train):
    options = ("--trainer.max_epochs=1", "--model.init_args.members=3")
    drawn = run_train("fit", *options)
    assert next(iter(drawn.datamodule.train_batches())).seen.shape[0] == 3
    cli = run_train("fit", *options, "--model.init_args.bootstrap=false")
    assert next(iter(cli.datamodule.train_batches())).seen is None
