"""The base of all variants: one training step, one evaluation, one set of hyper-parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal, NamedTuple

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins import Precision
from torch import Tensor, nn

from lit_ios.batches import PathBatch, TrainBatch
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.functional import PolicyLoss, margin, policy_loss, stop_probability, stops
from lit_ios.metrics import BalancedThreshold, path_metrics
from lit_ios.modules.flat import FlatParts
from lit_ios.modules.outputs import PathOutput
from lit_ios.modules.terms import TermMeans
from lit_ios.modules.views import View
from lit_ios.networks import Activation, Normalisation, StoppingNetwork
from lit_ios.recognition import Known
from lit_ios.sampling.states import state_names

Part = Literal["dynamics", "q", "gain"]
Updates = Literal["joint", "alternating"]
Margin = Literal["zero", "validated"]


class StoppingModule(pl.LightningModule):
    """Learns Q(s, stop) and Q(s, continue) from stopped paths.

    A variant declares its `parts` and gives one loss for each, `<part>_loss`; training, evaluation
    and checkpoints are here and nowhere else.

    Args:
        feature_names: names of the observed features, in their order.
        lags: how many earlier rows are part of the state.
        include_time: whether the time since the path began is part of the state.
        hidden: layer sizes of the trunk, and of the gain network.
        activation: activation between layers.
        normalisation: normalisation before each activation.
        gamma: discount factor γ.
        epsilon: temperature ε of the soft policy at the first epoch.
        learning_rate: Adam's learning rate, the same for every part.
        learning_rate_decay: factor on the learning rates after each epoch.
        policy_weight: weight κ of the policy objective E11, which trains what balanced accuracy
            measures along whole paths; above 0 it needs `data.init_args.batch_by: paths`.
        members: number of networks trained together, each from its own weights and on its own
            bootstrap sample of the training paths; the majority decides.
        bootstrap: whether several members see bootstrap samples, or all the same paths; with
            `data.init_args.folds` each sees all but a fold.
        margin: `zero` stops where Q(s, stop) ≥ Q(s, continue); `validated` chooses after each epoch
            the margin of the highest balanced accuracy on the validation paths, and the best
            epoch is the best with its own.
        gradient_clip: largest norm of each part's gradient, of each member for itself; null for no
            limit.
        updates: `joint` back-propagates all parts' losses at once; `alternating` builds each
            part's loss after the part before it has stepped (dynamics, Q, gain).
    """

    parts: ClassVar[tuple[Part, ...]] = ("q",)

    def __init__(
        self,
        feature_names: list[str],
        lags: int = 0,
        include_time: bool = True,
        hidden: list[int] = [64, 64],  # noqa: B006 (jsonargparse shows it; never mutated)
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        members: int = 1,
        bootstrap: bool = True,
        margin: Margin = "zero",
        gamma: float = 0.99,
        epsilon: float = 0.1,
        policy_weight: float = 0.0,
        learning_rate: float = 0.01,
        learning_rate_decay: float = 0.99,
        gradient_clip: float | None = None,
        updates: Updates = "joint",
    ) -> None:
        super().__init__()
        check_number("members", members, above=0)
        check_number("gamma", gamma, above=0, at_most=1)
        check_number("epsilon", epsilon, above=0)
        check_number("policy_weight", policy_weight, at_least=0)
        check_number("learning_rate", learning_rate, above=0)
        check_number("learning_rate_decay", learning_rate_decay, above=0, at_most=1)
        check_number("gradient_clip", 1.0 if gradient_clip is None else gradient_clip, above=0)
        check_choice("updates", updates, Updates)
        check_choice("margin", margin, Margin)
        self.save_hyperparameters()
        self.automatic_optimization = False
        self.members, self.gamma, self.updates = members, gamma, updates
        self.policy_weight, self.bootstrap = policy_weight, bootstrap
        self.learning_rate, self.learning_rate_decay = learning_rate, learning_rate_decay
        self.gradient_clip = gradient_clip
        self.state_names = state_names(tuple(feature_names), lags, include_time)
        self.state_dim = len(self.state_names)
        self.network = self.build_network(hidden, activation, normalisation)
        self._register_policy_buffers(epsilon)
        self.val_metrics = path_metrics("val/")
        self.test_metrics = path_metrics("test/", frontier=True)
        self.val_threshold = BalancedThreshold() if margin == "validated" else None
        self._val_margins: list[tuple[Tensor, PathBatch]] = []
        self._terms = TermMeans()
        self._known_paths: dict[str, Known] = {}

    drawn: Tensor | None  # (K, P + 1) how often each member sees each training path
    held_out: Tensor | None  # (K, P) which validation paths each member was not trained on
    epsilon: Tensor
    confidence: Tensor
    threshold: Tensor
    time_step: Tensor  # usual time between two rows of a path
    state_mean: Tensor
    state_scale: Tensor

    def _register_policy_buffers(self, epsilon: float) -> None:
        """What a checkpoint must carry beside the weights to be the whole policy."""
        self.register_buffer("epsilon", torch.tensor(epsilon))
        self.register_buffer("confidence", torch.tensor(1.0))
        self.register_buffer("threshold", torch.tensor(0.0, dtype=torch.float64))
        self.register_buffer("drawn", None, persistent=False)
        self.register_buffer("held_out", None, persistent=False)
        # each process has its own paths: DDP must not give all of them those of the first
        self._ddp_params_and_buffers_to_ignore = ["drawn", "held_out"]
        self.register_buffer("time_step", torch.tensor(1.0, dtype=torch.float64))
        self.register_buffer("state_mean", torch.zeros(self.state_dim, dtype=torch.float64))
        self.register_buffer("state_scale", torch.ones(self.state_dim, dtype=torch.float64))

    # What a variant may override -------------------------------------------------------------

    @property
    def input_dim(self) -> int:
        """Number of coordinates Q takes."""
        return self.state_dim

    def build_network(
        self, hidden: list[int], activation: Activation, normalisation: Normalisation
    ) -> StoppingNetwork:
        """Make the network that gives Q."""
        return StoppingNetwork(self.input_dim, hidden, activation, normalisation, self.members)

    def view(self, batch: TrainBatch) -> View:
        """Look at a batch under the current weights."""
        return View(self, batch)

    def q_loss(self, view: Any) -> NamedTuple:
        """Return the loss of Q and its terms."""
        raise NotImplementedError

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps."""
        yield from self.network.trunk.parameters()
        yield from self.network.q_head.parameters()

    def evaluate(
        self, state: Tensor, step: Tensor, first_row: Tensor, gains: bool = False
    ) -> PathOutput:
        """Judge all rows of whole paths, given in standardised states.

        Args:
            state: (M, D).
            step: (M,) t of each row.
            first_row: (M,) where the row's path begins.
            gains: also say g(s), where that takes more than the margin does.
        """
        q = self.network(state)
        return PathOutput(q, margin(q))

    # Training ----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Take over the training statistics: they are part of the policy."""
        datamodule = getattr(self.trainer, "datamodule", None)
        if stage == "fit" and datamodule is not None:
            mean, scale = datamodule.statistics
            self.state_mean.copy_(torch.as_tensor(mean))
            self.state_scale.copy_(torch.as_tensor(scale))
            self.time_step.fill_(datamodule.time_step)
            self._known_paths = datamodule.marks()
            if self.members > 1 and self.bootstrap and datamodule.folds is None:
                copies = datamodule.bootstrap_copies(self.members)
                self.drawn = torch.from_numpy(copies).to(self.device)
        if stage in ("fit", "validate") and datamodule is not None:
            held_out = datamodule.held_out(self.members)
            if held_out is not None:
                self.held_out = torch.from_numpy(held_out).to(self.device)
                seen = (~self.held_out).to(self.epsilon.dtype)
                self.drawn = torch.nn.functional.pad(seen, (0, 1), value=1.0)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say what the weights are of, so that a policy can be made of the file alone."""
        checkpoint["lit_ios"] = {"class": type(self).__name__, "paths": self._known_paths}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what is known of the paths it was trained and chosen on."""
        self._known_paths = checkpoint.get("lit_ios", {}).get("paths", {})

    def on_train_start(self) -> None:
        """Refuse to go on with a checkpoint of other data: its scale is part of the policy."""
        if self.val_threshold is None:
            self.threshold.zero_()  # also after a checkpoint was calibrated
        datamodule = getattr(self.trainer, "datamodule", None)
        if datamodule is None:
            return
        mean, scale = (torch.as_tensor(x, device=self.device) for x in datamodule.statistics)
        if not (torch.allclose(mean, self.state_mean) and torch.allclose(scale, self.state_scale)):
            raise UserError(
                "the checkpoint was trained on other data: its means "
                f"{self.state_mean.tolist()} are not those of the training paths {mean.tolist()}"
            )

    def configure_optimizers(self) -> Any:
        """One Adam and one exponential schedule per part."""
        configured = []
        self._flat = FlatParts([list(self.part_parameters(part)) for part in self.parts])
        for piece in self._flat.pieces:
            optimizer = torch.optim.Adam([piece], lr=self.learning_rate, fused=True)
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, self.learning_rate_decay)
            configured.append({"optimizer": optimizer, "lr_scheduler": schedule})
        return configured

    def training_step(self, batch: list[TrainBatch], batch_idx: int) -> None:
        """Update every part once for each batch of a chunk; the only training step there is."""
        wrapped = self._as_list(self.optimizers())
        self._flat.collect()
        if self._needs_wrapping():
            for one in batch:
                self._learn(one, wrapped, self.manual_backward)
            return
        # Lightning's hooks around each backward pass and optimizer step take as long as a quarter
        # of the step: one batch of a chunk goes through them, so that the call is counted
        self._learn(batch[0], wrapped, self.manual_backward)
        plain = [optimizer.optimizer for optimizer in wrapped]
        if self.updates == "joint" and self.gradient_clip is None:
            plain = [self._flat.together(plain)]
        for one in batch[1:]:
            self._learn(one, plain, Tensor.backward)

    def _needs_wrapping(self) -> bool:
        """Say whether each backward pass must go through the strategy: DDP, or mixed precision."""
        trainer = self.trainer
        return trainer.world_size > 1 or type(trainer.precision_plugin) is not Precision

    def _learn(
        self, batch: TrainBatch, optimizers: list[Any], backward: Callable[[Tensor], Any]
    ) -> None:
        """Update every part once."""
        records: dict[str, Any] = {}
        if self.updates == "joint":
            view = self.view(batch)
            losses = [self._part_loss(part, view, records) for part in self.parts]
            self._update(sum(losses[1:], losses[0]), optimizers, backward)
        else:
            for part, optimizer in zip(self.parts, optimizers, strict=True):
                loss = self._part_loss(part, self.view(batch), records)
                self._update(loss, [optimizer], backward)
        self._terms.add(records)

    def _part_loss(self, part: Part, view: View, records: dict[str, Any]) -> Tensor:
        """Return the loss of a part, and keep the record of its terms."""
        records[part] = self._loss(part, view)
        loss: Tensor = records[part][0]
        if part == "q" and self.policy_weight > 0:
            records["policy"] = self._policy_loss(view)
            loss = loss + self.policy_weight * records["policy"].total
        return loss

    def _policy_loss(self, view: View) -> PolicyLoss:
        batch = view.batch
        if batch.first_row is None:
            raise UserError("policy_weight needs whole paths: set data.init_args.batch_by to paths")
        weight = 1 - batch.synthetic  # as M1 counts: every row, also where no transition is known
        if self.drawn is not None:
            weight = weight * self.drawn[:, batch.path]
        return policy_loss(
            margin(view.q), batch.action, batch.first_row, weight, epsilon=self.epsilon
        )

    def _loss(self, part: Part, view: View) -> Any:
        return getattr(self, f"{part}_loss")(view)

    def _update(
        self, loss: Tensor, optimizers: list[Any], backward: Callable[[Tensor], Any]
    ) -> None:
        self._flat.gradient.zero_()
        backward(loss if loss.ndim == 0 else loss.sum())
        for optimizer in optimizers:
            if self.gradient_clip is not None:
                (piece,) = optimizer.param_groups[0]["params"]
                self._flat.clip(piece, self.gradient_clip, self.members)
            optimizer.step()

    def on_train_epoch_end(self) -> None:
        """Log the epoch's mean losses and learning rates, then let the rates decay."""
        values = self._terms.means(self.trainer.strategy.reduce)
        for name, value in values.items():
            if not math.isfinite(value):
                raise UserError(
                    f"training diverged in epoch {self.current_epoch}: {name} is {value}; "
                    "a smaller learning_rate or gradient_clip may help"
                )
        for part, schedule in zip(self.parts, self._as_list(self.lr_schedulers()), strict=True):
            values[f"schedule/learning_rate_{part}"] = schedule.get_last_lr()[0]
            schedule.step()
        self._log_metrics({name: torch.tensor(value) for name, value in values.items()})

    def _log_metrics(self, values: dict[str, Tensor]) -> None:
        """Log values that are the same on all processes, once an epoch."""
        if self.trainer.state.fn != "fit" or self.trainer.sanity_checking:
            self.log_dict(values)
            return
        # while training, self.log would take as long as a step for every few of them
        self.trainer.callback_metrics.update(values)
        for logger in self.loggers:
            logger.log_metrics(
                {name: float(value) for name, value in values.items()}
                | {"epoch": self.current_epoch},
                step=self.global_step,
            )

    @staticmethod
    def _as_list(value: Any) -> list[Any]:
        """Undo Lightning's unpacking of a list of one."""
        return value if isinstance(value, list) else [value]

    # Evaluation --------------------------------------------------------------------------------

    def standardise(self, state: Tensor) -> Tensor:
        """Bring raw states to the scale of training; (M, D) → float32."""
        return ((state - self.state_mean) / self.state_scale).to(self.epsilon.dtype)

    def forward(self, batch: PathBatch, gains: bool = False) -> PathOutput:
        """Judge all rows of whole paths given in raw units, as a deployed policy does."""
        state = self.standardise(batch.state)
        return self.evaluate(state, batch.step, batch.first_row, gains).vote()

    def validation_step(self, batch: PathBatch, batch_idx: int) -> None:
        """Count this batch's paths, or keep their margins until the threshold is chosen."""
        values = self(batch).margin if self.held_out is None else self._held_out_margin(batch)
        if self._chooses_threshold():
            self.val_threshold.update(values, batch)  # type: ignore[union-attr]
            self._val_margins.append((values, batch))
        else:
            self.val_metrics.update(values, batch, self.threshold)

    def _held_out_margin(self, batch: PathBatch) -> Tensor:
        """Return the median margin of the members that were not trained on a row's path."""
        state = self.standardise(batch.state)
        margins = self.evaluate(state, batch.step, batch.first_row).margin  # (K, M)
        assert self.held_out is not None
        trained_on = ~self.held_out[:, batch.number[batch.path]]
        return margins.masked_fill(trained_on, torch.nan).nanmedian(0).values

    def test_step(self, batch: PathBatch, batch_idx: int) -> None:
        """Count this batch's paths."""
        self.test_metrics.update(self(batch).margin, batch, self.threshold)

    def _chooses_threshold(self) -> bool:
        return self.val_threshold is not None and self.trainer.state.fn == "fit"

    def on_validation_epoch_end(self) -> None:
        """Log M1–M4, at a threshold chosen now if that is asked for."""
        chosen = {}
        if self._chooses_threshold():
            assert self.val_threshold is not None
            self.threshold.copy_(self.val_threshold.compute())
            self.val_threshold.reset()
            for values, batch in self._val_margins:
                self.val_metrics.update(values, batch, self.threshold)
            self._val_margins.clear()
            chosen = {"val/threshold": self.threshold.clone()}
        self._log_metrics(self.val_metrics.compute() | chosen)
        self.val_metrics.reset()

    def on_test_epoch_end(self) -> None:
        """Log M1–M5."""
        self.log_dict(self.test_metrics.compute())
        self.test_metrics.reset()

    def predict_step(self, batch: PathBatch, batch_idx: int) -> dict[str, Tensor]:
        """Return one column per quantity, one row per row of the batch's paths."""
        output = self(batch, gains=True)
        columns = {
            "path": batch.number[batch.path],
            "time": batch.time,
            "margin": output.margin,
            "stop_probability": stop_probability(output.margin, self.epsilon),
            "stop": stops(output.margin, self.threshold).int(),
            "stop_gain": output.q[:, 0],
        }
        if output.gain is not None:
            columns["continuation_gain"] = output.gain
        if output.spread is not None:
            columns["margin_spread"] = output.spread
        return columns
