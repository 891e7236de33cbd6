"""A data set of your own: a file format that no reader knows.

A data module names its raw columns and deals its paths out; all the rest (scaling, memory, batches,
export) follows. Here: tyres of trucks, a JSON object per line, until a driver had them changed.

    python examples/own_data_set.py
"""

import json
from pathlib import Path

import numpy as np
import pytorch_lightning as pl

from datamodules import Splits, TrajectoryDataModule
from lit_ios import StoppingPolicy
from lit_ios.modules import IQS
from lit_ios.sampling import split_paths
from lit_ios.testing import check_data
from lit_ios.trajectories import Trajectory, TrajectorySet


class TyreData(TrajectoryDataModule):
    """Tyres, read from a file with a JSON object per line.

    Args:
        file: to read.
        **kwargs: see TrajectoryDataModule.
    """

    name = "tyres"
    columns = ("tread", "pressure")

    def __init__(self, *, file: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.file = file

    def read_splits(self) -> Splits:
        """Read the paths; deal them out to training, validation and test, the same at each seed."""
        paths = []
        for line in Path(self.file).read_text().splitlines():
            tyre = json.loads(line)
            rows, km = np.column_stack([tyre["tread"], tyre["pressure"]]), np.array(tyre["km"])
            paths.append(Trajectory(rows, km, stopped=tyre["changed"], name=tyre["tyre"]))
        every = TrajectorySet.from_paths(paths, self.columns)
        return Splits(*split_paths(every, (0.5, 0.2, 0.3), self.random(purpose=0)))


def write_tyres(file, tyres=120):
    """Write tyres that are changed when little tread is left; one in five is still in use."""
    rng, lines = np.random.default_rng(0), []
    for number in range(tyres):
        tread = 8 - np.cumsum(rng.exponential(0.3, 60))
        end = int(np.argmax(tread < 2 + rng.normal(0, 0.1))) + 1
        changed = bool(rng.random() < 0.8)
        end = end if changed else int(rng.integers(2, end))
        km = np.cumsum(rng.uniform(900, 1100, end))
        pressure = 8 + rng.normal(0, 0.2, end)
        columns = {"tread": tread[:end], "pressure": pressure, "km": km}
        known = {name: values.tolist() for name, values in columns.items()}
        lines.append(json.dumps({"tyre": f"t{number}", "changed": changed} | known))
    Path(file).write_text("\n".join(lines))


if __name__ == "__main__":
    write_tyres("tyres.jsonl")
    check_data(TyreData(file="tyres.jsonl"))  # what training, streams and export rely on
    data = TyreData(file="tyres.jsonl", oversampling="bootstrap")
    model = IQS.for_data(data, margin="validated")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=12, accelerator="cpu", num_sanity_val_steps=0, **quiet)
    trainer.fit(model, data)
    (found,) = trainer.test(model, data, verbose=False)
    print(f"balanced accuracy {found['test/balanced_accuracy']:.2f}")
    trainer.save_checkpoint("tyres.ckpt")
    stream = StoppingPolicy.load("tyres.ckpt").stream()
    for km, tread in [(0, 7.8), (9_000, 5.1), (18_000, 2.3), (20_000, 1.7)]:
        stops = stream.step({"tread": tread, "pressure": 8.0}, time=km).stop
        print(f"{tread} mm after {km} km:", "change it" if stops else "drive on")
