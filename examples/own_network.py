"""A network of your own: checked, trained, deployed.

A head takes the standardised state and what the rule remembers, and returns features; Q is linear
in them. Its class path and its plain arguments go into the checkpoint, so that the rule can be
loaded where this file can be imported and its package is trusted.

    python examples/own_network.py
"""

import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from datamodules import FatigueData
from lit_ios import StoppingPolicy
from lit_ios.modules import IQS
from lit_ios.rule import Head, join
from lit_ios.testing import check_head


class Waves(Head):
    """Sines and cosines of learnt combinations of the state, and the state itself.

    Args:
        state_dim: coordinates of the state, given by the rule.
        memory_dim: numbers that the rule remembers, given by the rule.
        waves: number of combinations.
    """

    def __init__(self, state_dim: int, memory_dim: int, waves: int = 16) -> None:
        inputs = state_dim + memory_dim
        super().__init__(2 * waves + inputs)  # the number of features
        self.turn = nn.Linear(inputs, waves)

    def features(self, state: Tensor, h: Tensor) -> Tensor:
        """Return the features of rows; (…, B, S), (…, B, C) → (…, B, width)."""
        x = join(state, h)
        angle = self.turn(x)
        return torch.cat([angle.sin(), angle.cos(), x], dim=-1)


def main():
    """Check the network, train with it, use the rule."""
    check_head("own_network.Waves", waves=8)  # shapes, gradients, members, export

    data = FatigueData(paths=80, test_paths=40, oversampling="bootstrap")
    head = {"class_path": "own_network.Waves", "init_args": {"waves": 8}}
    model = IQS.for_data(data, head=head, memory="accumulate")
    trainer = pl.Trainer(
        max_epochs=8, accelerator="cpu", num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(model, data)
    (found,) = trainer.test(model, data, verbose=False)
    print(f"balanced accuracy {found['test/balanced_accuracy']:.2f}")
    trainer.save_checkpoint("waves.ckpt")

    # Deployed: neither Lightning nor the data are needed, only this file.
    policy = StoppingPolicy.load("waves.ckpt", allow=["own_network"])
    stream = policy.stream()
    for load in (0.2, 0.9, 1.4, 2.0):
        decision = stream.step({"load": load})
        print(f"load {load}: margin {decision.margin:+.2f}, {'stop' if decision.stop else 'go on'}")
    print("written to", policy.export("waves.onnx"))


if __name__ == "__main__":
    main()
