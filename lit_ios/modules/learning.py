"""How the parts of a module learn: one optimizer each, one training step for all variants."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Literal

import torch
from pytorch_lightning.plugins import Precision
from torch import Tensor, nn

from lit_ios.batches import TrainBatch
from lit_ios.checks import UserError
from lit_ios.functional import PolicyLoss, margin, policy_loss
from lit_ios.imports import Spec
from lit_ios.modules.compiled import Compile, CompiledStep, Steps, count_call
from lit_ios.modules.evaluation import Margin, RuleEvaluation
from lit_ios.modules.flat import FlatParts
from lit_ios.modules.optimizers import is_element_wise, make_optimizer, together
from lit_ios.modules.terms import TermMeans, Trouble, furthest_row, names_of, values_of
from lit_ios.modules.views import View

Part = Literal["dynamics", "q", "gain"]
Updates = Literal["joint", "alternating"]


class PartLearning(RuleEvaluation):
    """Steps every part by its own loss, `<part>_loss`."""

    parts: ClassVar[tuple[Part, ...]]
    members: int
    updates: Updates
    policy_weight: float
    gradient_clip: float | None
    learning_rate: float
    learning_rate_decay: float
    _optimizers: list[Spec]  # of each part

    def __init__(
        self,
        margin: Margin,
        metrics: dict[str, str] | None = None,
        compile: Compile = "never",
    ) -> None:
        super().__init__(margin, metrics)
        self.automatic_optimization = False
        self._terms = TermMeans()
        self._random: list[Tensor] | None = None  # of each process, where a run is resumed
        self._steps = Steps(compile)

    def view(self, batch: TrainBatch) -> View:
        """Look at a batch under the current weights."""
        raise NotImplementedError

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps."""
        raise NotImplementedError

    def configure_optimizers(self) -> Any:
        """One optimizer and one exponential schedule per part."""
        configured = []
        parameters = [list(self.part_parameters(part)) for part in self.parts]
        self._flat = FlatParts(parameters)
        for own, piece, spec in zip(parameters, self._flat.pieces, self._optimizers, strict=True):
            stepped = [piece] if is_element_wise(spec) else own
            optimizer = make_optimizer(spec, stepped, self.learning_rate)
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, self.learning_rate_decay)
            configured.append({"optimizer": optimizer, "lr_scheduler": schedule})
        return configured

    def on_train_batch_start(self, batch: list[TrainBatch], batch_idx: int) -> None:
        """Go on with the random numbers of the run that is resumed."""
        if self._random is not None:
            torch.set_rng_state(self._random[self.trainer.global_rank % len(self._random)])
            self._random = None

    def training_step(self, batch: list[TrainBatch], batch_idx: int) -> None:
        """Update every part once for each batch of a chunk; the only training step there is."""
        wrapped = self._as_list(self.optimizers())
        self._flat.collect()
        compiled = self._steps.choose(self, self._flat, wrapped, batch[0])
        if compiled is not None:
            self._learn_compiled(compiled, batch, wrapped)
            self._refuse_trouble(batch)
            return
        if self._needs_wrapping():
            for one in batch:
                self._learn(one, wrapped, self.manual_backward)
            self._refuse_trouble(batch)
            return
        # Lightning's hooks around each backward pass and optimizer step take as long as a quarter
        # of the step: one batch of a chunk goes through them, so that the call is counted
        self._learn(batch[0], wrapped, self.manual_backward)
        plain = [optimizer.optimizer for optimizer in wrapped]
        if self.updates == "joint" and len(batch) > 1:
            plain = together(plain)
        for one in batch[1:]:
            self._learn(one, plain, Tensor.backward)
        self._refuse_trouble(batch)

    def _learn_compiled(
        self, step: CompiledStep, chunk: list[TrainBatch], wrapped: list[Any]
    ) -> None:
        """Update every part once for each batch, by the compiled step where it takes the batch."""
        plain = [optimizer.optimizer for optimizer in wrapped]
        for one in chunk:
            if step.takes(one):
                self._terms.add(step(one), step.names)
            else:
                self._learn(one, plain, Tensor.backward)
        count_call(self.trainer, plain)

    def _refuse_trouble(self, chunk: list[TrainBatch]) -> None:
        """Refuse to go on after a loss or weights that are not finite; say where it came from."""
        before = self._terms.steps - len(chunk)  # steps before this chunk
        found = self._terms.find_trouble() or self._spoilt_weights(len(chunk) - 1)
        if found is None:
            return
        # what spoils the weights by its gradient is found in the loss of the next step
        steps = range(found.number, max(found.number - 2, -1), -1)
        path_of = getattr(self.trainer.train_dataloader, "path_of", None)

        def path_of_row(number: int, row: int) -> Any:
            return path_of(before + steps[number], row)  # type: ignore[misc]

        why = furthest_row([chunk[step] for step in steps], path_of and path_of_row)
        raise UserError(
            f"training diverged in epoch {self.current_epoch} in step {before + found.number + 1}: "
            f"{found.name} is {found.value} ({why}); the checkpoints of the epochs before are "
            "kept; a smaller learning_rate or gradient_clip may help"
        )

    def _spoilt_weights(self, number: int) -> Trouble | None:
        """Return the first part whose weights are not finite after a chunk's last step."""
        if math.isfinite(float(self._flat.weights.sum())):
            return None
        for part, piece in zip(self.parts, self._flat.pieces, strict=True):
            total = float(piece.detach().sum())
            if not math.isfinite(total):
                return Trouble(number, f"the sum of the weights of {part}", total)
        return None

    def _needs_wrapping(self) -> bool:
        """Say whether each backward pass must go through the strategy: DDP, or mixed precision."""
        trainer = self.trainer
        return trainer.world_size > 1 or type(trainer.precision_plugin) is not Precision

    def _learn(
        self, batch: TrainBatch, optimizers: list[Any], backward: Callable[[Tensor], Any]
    ) -> None:
        """Update every part once."""
        records: dict[str, Any] = {}
        for parts in self.rounds:
            own = optimizers if self.updates == "joint" else [optimizers[i] for i in parts]
            self._update(self.total(parts, batch, records), parts, own, backward)
        self._terms.add(values_of(records), names_of(records) if self._terms.begins else ())

    @property
    def rounds(self) -> list[list[int]]:
        """Numbers of the parts that are stepped together, one round after the other."""
        numbers = list(range(len(self.parts)))
        return [numbers] if self.updates == "joint" else [[number] for number in numbers]

    def total(self, parts: Iterable[int], batch: TrainBatch, records: dict[str, Any]) -> Tensor:
        """Return the sum of these parts' losses, and keep the records of their terms."""
        view = self.view(batch)
        losses = [self._part_loss(self.parts[number], view, records) for number in parts]
        total = sum(losses[1:], losses[0])
        return total if total.ndim == 0 else total.sum()  # over members

    def _part_loss(self, part: Part, view: View, records: dict[str, Any]) -> Tensor:
        """Return the loss of a part, and keep the record of its terms."""
        if part == "q":
            return self.q_total(view, records)
        records[part] = getattr(self, f"{part}_loss")(view)
        loss: Tensor = records[part][0]
        return loss

    def q_total(self, view: View, records: dict[str, Any]) -> Tensor:
        """Return the loss of Q with E11, where that is asked for, and keep their terms."""
        records["q"] = self.q_loss(view)
        loss: Tensor = records["q"][0]
        if self.policy_weight > 0:
            records["policy"] = self._policy_loss(view)
            loss = loss + self.policy_weight * records["policy"].total
        return loss

    def q_loss(self, view: Any) -> Any:
        """Return the loss of Q and its terms."""
        raise NotImplementedError

    def _policy_loss(self, view: View) -> PolicyLoss:
        batch = view.batch
        weight = 1 - batch.synthetic  # as M1 counts: every row, also where no transition is known
        weight = weight if batch.seen is None else weight * batch.seen
        return policy_loss(
            margin(view.q), batch.action, view.first_row, weight, epsilon=self.rule.epsilon
        )

    def _update(
        self,
        loss: Tensor,
        parts: Iterable[int],
        optimizers: list[Any],
        backward: Callable[[Tensor], Any],
    ) -> None:
        self._flat.gradient.zero_()
        backward(loss)
        if self.gradient_clip is not None:
            for part in parts:
                self._flat.clip(part, self.gradient_clip, self.members)
        for optimizer in optimizers:
            optimizer.step()

    def on_train_epoch_end(self) -> None:
        """Log the epoch's mean losses and learning rates, then let the rates decay."""
        values = self._terms.means(self.trainer.strategy.reduce)
        for part, schedule in zip(self.parts, self._as_list(self.lr_schedulers()), strict=True):
            values[f"schedule/learning_rate_{part}"] = schedule.get_last_lr()[0]
            schedule.step()
        self.log_once({name: torch.tensor(value) for name, value in values.items()})

    @staticmethod
    def _as_list(value: Any) -> list[Any]:
        """Undo Lightning's unpacking of a list of one."""
        return value if isinstance(value, list) else [value]


def random_states() -> list[Tensor]:
    """Return the state of the random numbers of each process."""
    own = torch.get_rng_state()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return [own]
    states: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(states, own)
    return states
