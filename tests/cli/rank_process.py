"""train.py for tests of several processes: each saves what it holds at the end of training."""

import numpy as np
import pytorch_lightning as pl
import torch


def _plain(values: np.ndarray | None) -> torch.Tensor | None:
    return None if values is None else torch.from_numpy(values)


class HeldByEachRank(pl.Callback):
    """Writes rank0.pt, rank1.pt, … to the run folder: weights, and what is known of the data."""

    def on_train_end(self, trainer, pl_module):
        data = trainer.datamodule
        about = {
            "names": list(data.splits.train.names),
            "seen": _plain(data._seen),
            "judges": _plain(data._judges),
            "training": pl_module.record.training,
            "validation": pl_module.record.validation,
            "measured": float(trainer.callback_metrics["val/balanced_accuracy"]),
        }
        file = f"{trainer.logger.log_dir}/rank{trainer.global_rank}.pt"
        torch.save({"weights": pl_module.state_dict(), "about": about}, file)


if __name__ == "__main__":
    import rank_process  # noqa: F401 (settings name its class; they may, since it is imported)

    import train
    from callbacks import StoppingFigures

    StoppingFigures.on_test_end = lambda *_: None  # figures are not what is tested
    train.main()
