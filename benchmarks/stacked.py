"""Cost of settings trained side by side over the cost of the same settings one by one.

    python -m benchmarks.stacked --settings 32 --epochs 3

CPU seconds of training and validation, one thread; both ways in turn, best of the repetitions.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from datamodules import ChangePointData, FatigueData
from lit_ios.modules import IQS
from lit_ios.program.quiet import be_quiet
from lit_ios.tune.stacked import Setting, stack

DATA: dict[str, Callable[..., Any]] = {
    "CP1": lambda **more: ChangePointData(problem="CP1", **more),
    "fatigue": FatigueData,
}


def main() -> None:
    """Measure and print a line of JSON for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--settings", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=list(DATA))
    parser.add_argument("--memory", nargs="+", default=["none", "gru"])
    parser.add_argument("--members", nargs="+", type=int, default=[2, 8])
    options = parser.parse_args()
    torch.set_num_threads(1)
    be_quiet()
    warnings.simplefilter("ignore")
    for data, memory, members in product(options.data, options.memory, options.members):
        case = {"data": data, "memory": memory, "members": members, "settings": options.settings}
        found = [measure(case, options.epochs) for _ in range(options.repeat)]
        stacked, alone = np.min(found, axis=0)
        print(json.dumps(case | {
            "stacked_seconds": round(stacked, 2), "one_by_one_seconds": round(alone, 2),
            "ratio": round(stacked / alone, 3),
            "ratios": [round(one[0] / one[1], 3) for one in found],
        }), flush=True)  # fmt: skip


def measure(case: dict[str, Any], epochs: int) -> tuple[float, float]:
    """Return CPU seconds side by side, and one by one."""
    rates = np.geomspace(0.001, 0.03, case["settings"])
    settings = [Setting(float(rate), 0.99, 0.1, 0.99, 1.0) for rate in rates]
    side_by_side = _seconds(stack(_model(case, settings[0]), settings, None), case, epochs)
    one_by_one = sum(_seconds(_model(case, one), case, epochs) for one in settings)
    return side_by_side, one_by_one


def _data(case: dict[str, Any]) -> Any:
    size = 512 if case["memory"] == "gru" else 128
    return DATA[case["data"]](folds=min(case["members"], 4), batch_size=size)


def _model(case: dict[str, Any], setting: Setting) -> IQS:
    torch.manual_seed(0)
    return IQS.for_data(
        _data(case), members=case["members"], memory=case["memory"], margin="validated",
        learning_rate=setting.learning_rate,
    )  # fmt: skip


def _seconds(model: IQS, case: dict[str, Any], epochs: int) -> float:
    data = _data(case)
    data.setup("fit")
    trainer = pl.Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    start = time.process_time()
    trainer.fit(model, data)
    return time.process_time() - start


if __name__ == "__main__":
    main()
