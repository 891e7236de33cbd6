"""Ablations, the discount experiment and rules of keeping an epoch: what is made of the runs."""

import numpy as np
import pytest
import torch

from benchmarks import ablations, discount, selection
from benchmarks.grid import Job
from lit_ios.batches import path_batch
from lit_ios.functional.frontier import balanced_margin


def rows_of(jobs, scores):
    return [
        {k: str(v) for k, v in job.row.items()} | {"balanced_accuracy": str(score)}
        for job, score in zip(jobs, scores, strict=True)
    ]


def test_ablations_are_compared_with_the_default_seed_by_seed():
    option = ablations.choices()["divergence"]["js"]
    jobs = [Job("CP3", "do_iqs_lb", seed, 5, o) for o in ((), (option,)) for seed in range(2)]
    table = list(ablations.markdown(rows_of(jobs, [0.8, 0.6, 0.9, 0.4]), ["CP3"]))
    assert "| default |  | 0.700 ± 0.28 |  |" in table
    assert "| divergence | js | 0.650 ± 0.71 | -0.050 |" in table


def test_numbers_of_training_paths_are_those_left_after_validation():
    options = ablations.choices()["training paths"]
    for count, option in options.items():
        paths = int(option.partition("=")[2])
        assert round(paths * (1 - ablations.VALIDATION_SHARE)) == int(count)


def test_discount_rows_are_told_apart_by_time_and_gamma():
    jobs = [
        Job("bmG", "do_iqs_lb", seed, 5, discount.options(gamma, time))
        for gamma in discount.LEARNER
        for time in discount.TIME
        for seed in range(2)
    ]
    found = discount.collect(rows_of(jobs, range(len(jobs))))
    assert len(found) == 2 * len(discount.LEARNER)
    assert found["true", 0.4] == [0.0, 1.0]
    assert found["false", 0.4] == [2.0, 3.0]
    axes = discount.draw(found).axes[0]
    assert {*discount.TIME.values()} < {text.get_text() for text in axes.get_legend().get_texts()}


def test_rules_of_keeping_an_epoch(paths):
    rng = np.random.default_rng(0)
    recorder = selection.Recorder()
    recorder.val = recorder.test = batch = path_batch(paths)
    epochs = [torch.from_numpy(rng.normal(size=len(paths.states))) for _ in range(12)]
    recorder.plain = [selection.Epoch(margin, margin) for margin in epochs]
    recorder.averaged = recorder.plain[::-1]
    found = selection.rules(recorder)
    zero = [selection.accuracy(margin, batch, 0.0) for margin in epochs]
    own = [selection.accuracy(m, batch, float(balanced_margin(m, batch))) for m in epochs]
    assert found["best epoch, margin 0"] == max(zero)
    assert found["best epoch with its own margin"] == max(own)
    assert found["last epoch, margin 0"] == zero[-1]
    assert found["last epoch, its own margin, averaged weights"] == own[0]
    mean = torch.stack(epochs[-10:]).mean(0)
    expected = selection.accuracy(mean, batch, float(balanced_margin(mean, batch)))
    assert found["mean margin of the last 10 epochs, its own margin"] == pytest.approx(expected)


def test_the_outlook_is_compared_with_what_it_changes_seed_by_seed():
    method, options, other, plain = ablations.OUTLOOK["… and 8 drawn successors"]
    given = [
        Job("CP3", name, seed, 5, tuple(words.split()))
        for name, words in ((method, options), (other, plain))
        for seed in range(2)
    ]
    table = list(ablations.outlook_markdown(rows_of(given, [0.8, 0.9, 0.7, 0.7]), ["CP3"]))
    (line,) = (line for line in table if line.startswith("| … and 8 drawn"))
    assert "0.700 → 0.850" in line
    assert "+0.150 ± 0.635" in line  # 12.706 · 0.05
