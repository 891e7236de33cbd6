"""The base of all variants: a rule, its settings, and what it takes over from the data."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import torch
from lightning_fabric.utilities.data import AttributeDict
from torch import Tensor, nn

from lit_ios.batches import TrainBatch
from lit_ios.checkpoints import describe, load_sealed
from lit_ios.checks import UserError, check_choice, check_number
from lit_ios.data_record import DataRecord, Inputs, InputSettings
from lit_ios.imports import Spec, as_spec, class_path
from lit_ios.modules.checkpointing import seal_checkpoints
from lit_ios.modules.compiled import Compile
from lit_ios.modules.evaluation import Margin
from lit_ios.modules.learning import Part, PartLearning, Updates, random_states
from lit_ios.modules.optimizers import optimizer_specs
from lit_ios.modules.terms import TermMeans
from lit_ios.modules.views import View
from lit_ios.rule import MLPHead, StoppingRule, memory_spec
from lit_ios.rule.layers import Activation, Normalisation


class StoppingModule(PartLearning):
    """Learns a rule, Q(s, stop) and Q(s, continue), from stopped paths.

    A variant declares its `parts` and gives one loss for each, `<part>_loss`. In Python,
    `IQS.for_data(data, …)` makes a model that fits a data module.

    Args:
        inputs: what a state is made of; a data module's `inputs.plain()`.
        hidden: layer sizes of the head, and of the gain network.
        activation: activation between layers.
        normalisation: normalisation before each activation.
        head: class path and arguments of a network of your own in place of these layers.
        memory: what Q knows of a path's past (E12): `none`, `accumulate` (sums along the path, with
            four decays), `gru` (16 gated recurrent units), or class path and arguments.
        gamma: discount factor γ.
        epsilon: temperature ε of the soft policy at the first epoch.
        learning_rate: of every part's optimizer.
        learning_rate_decay: factor on the learning rates after each epoch.
        optimizer: class path and arguments of an optimizer, for all parts or by part; null means
            Adam.
        policy_weight: weight κ of the policy objective E11, which trains what balanced accuracy
            measures along whole paths.
        members: number of networks trained together, each from its own weights and on its own
            bootstrap sample of the training paths; the lower median of their margins decides.
        bootstrap: whether several members see bootstrap samples, or all the same paths; with
            `data.init_args.folds` each sees all but a fold.
        margin: `zero` stops where Q(s, stop) ≥ Q(s, continue); `validated` chooses after each epoch
            the margin of the highest balanced accuracy on the validation paths, and the best
            epoch is the best with its own.
        gradient_clip: largest norm of each part's gradient, of each member for itself; null for no
            limit.
        updates: `joint` back-propagates all parts' losses at once; `alternating` builds each
            part's loss after the part before it has stepped (dynamics, Q, gain).
        metrics: class paths of metrics of your own by name, logged as val/<name> and test/<name>.
        compile: whether training steps are compiled: `never`; `build` compiles them once for all
            runs with the same settings, which takes some 20 s and a C++ compiler; `cached` takes
            what earlier runs have built. Compiled steps are several times faster, and their
            numbers repeat to the bit, but they are not those of other steps to the last digits.
    """

    parts: ClassVar[tuple[Part, ...]] = ("q",)
    confidence: Tensor

    def __init__(
        self,
        inputs: InputSettings,
        hidden: list[int] = [64, 64],  # noqa: B006 (jsonargparse shows it; never mutated)
        activation: Activation = "silu",
        normalisation: Normalisation = "none",
        head: str | dict[str, Any] | None = None,
        memory: str | dict[str, Any] | None = "none",
        members: int = 1,
        bootstrap: bool = True,
        margin: Margin = "zero",
        gamma: float = 0.99,
        epsilon: float = 0.1,
        policy_weight: float = 0.0,
        learning_rate: float = 0.01,
        learning_rate_decay: float = 0.99,
        optimizer: str | dict[str, dict[str, Any]] | dict[str, Any] | None = None,
        gradient_clip: float | None = None,
        updates: Updates = "joint",
        metrics: dict[str, str] | None = None,
        compile: Compile = "never",
    ) -> None:
        check_choice("compile", compile, Compile)
        check_choice("margin", margin, Margin)
        super().__init__(margin, metrics, compile)
        check_number("policy_weight", policy_weight, at_least=0)
        check_number("learning_rate", learning_rate, above=0)
        check_number("learning_rate_decay", learning_rate_decay, above=0, at_most=1)
        check_number("gradient_clip", 1.0 if gradient_clip is None else gradient_clip, above=0)
        check_choice("updates", updates, Updates)
        self.save_hyperparameters()
        self.members, self.bootstrap, self.updates = members, bootstrap, updates
        self.policy_weight, self.gradient_clip = policy_weight, gradient_clip
        self.learning_rate, self.learning_rate_decay = learning_rate, learning_rate_decay
        self.network_settings = {
            "hidden": list(hidden), "activation": activation, "normalisation": normalisation,
        }  # fmt: skip
        self.memory_spec = memory_spec(memory)
        own: Spec = {"class_path": class_path(MLPHead), "init_args": self.network_settings}
        self.rule = StoppingRule(
            **Inputs(**inputs).plain(),
            head=own if head is None else as_spec("head", head),
            members=members,
            gamma=gamma,
            epsilon=epsilon,
            **self.rule_settings(),
        )
        self.register_buffer("confidence", torch.tensor(1.0))  # in synthetic rows, E4
        self._optimizers = optimizer_specs(optimizer, self.parts)
        self.record: DataRecord | None = None

    @property
    def hparams_initial(self) -> AttributeDict:
        """Arguments it was made with, as loggers get them: without what others have put there."""
        given = super().hparams_initial
        return AttributeDict(
            {name: value for name, value in given.items() if name[0] != "_" and name != "inputs"}
        )

    @classmethod
    def for_data(cls, data: Any, **arguments: Any) -> Self:
        """Make a model that fits a data module; see the class for the arguments."""
        return cls(inputs=data.inputs.plain(), **arguments)

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls, checkpoint_path: str | Path, **kwargs: Any
    ) -> Self:
        """Read a module of a checkpoint whose checksum is right; arguments as Lightning's."""
        load_sealed(checkpoint_path)
        return super().load_from_checkpoint(checkpoint_path, **{"weights_only": True, **kwargs})

    # What a variant may override -------------------------------------------------------------

    def rule_settings(self) -> dict[str, Any]:
        """Return what this variant's rule has beside encoder and head: memory, dynamics."""
        return {"memory": self.memory_spec}

    def view(self, batch: TrainBatch) -> View:
        """Look at a batch under the current weights."""
        return View(self.rule, batch, self.confidence)

    def q_loss(self, view: Any) -> NamedTuple:
        """Return the loss of Q and its terms."""
        raise NotImplementedError

    @property
    def needs_paths(self) -> bool:
        """Whether batches must be of whole paths: for what is remembered, and for E11."""
        return self.rule.memory.width > 0 or self.policy_weight > 0

    def part_parameters(self, part: Part) -> Iterable[nn.Parameter]:
        """Return what the optimizer of `part` steps."""
        if part == "q":
            yield from self.rule.head.feature_parameters()
            yield from self.rule.head.value_parameters()
        yield from self.rule.memory.parameters_of(part)

    def take_over(self, record: DataRecord) -> None:
        """Take over what the rule must know of its training data; refuse what it cannot use."""
        if record.synthetic and self.rule.memory.width:
            raise UserError(
                f"{type(self).__name__} remembers a path's past, which SMOTE rows do not have, "
                "since they belong to no path: set data.init_args.oversampling to bootstrap or none"
            )
        self.rule.scaler.set(*record.statistics)
        self.rule.familiarity.set(record.usual)
        self.rule.time_step.fill_(record.time_step)
        self.record = record

    # Training ----------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Tell the data which members there are, and learn what the rule must know of them."""
        seal_checkpoints(self.trainer)
        data = getattr(self.trainer, "datamodule", None)
        if data is None or stage not in ("fit", "validate"):
            return
        if not hasattr(data, "prepare_for"):
            raise UserError(f"{type(data).__name__} must be a TrajectoryDataModule")
        record = self.prepare(data)
        if stage == "fit":
            self.take_over(record)

    def prepare(self, data: Any) -> DataRecord:
        """Let the data deal paths out to the members."""
        record: DataRecord = data.prepare_for(self.members, self.bootstrap, self.needs_paths)
        return record

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Say what the weights are of, so that a policy can be made of the file alone."""
        checkpoint["lit_ios"] = describe(self.rule, self.record, class_path(type(self)))
        checkpoint["lit_ios"]["choices"] = self.choices
        checkpoint["progress"] = {
            "terms": self._terms.state(), "random": random_states(), "steps": self._steps.by
        }  # fmt: skip

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Go on with what earlier epochs chose."""
        self.choices = list(checkpoint.get("lit_ios", {}).get("choices", []))
        progress = checkpoint.get("progress")
        if progress is not None:  # a policy that was saved has none
            self._terms = TermMeans(**progress["terms"])
            self._random = progress["random"]
            self._steps.before = progress.get("steps")

    def on_train_start(self) -> None:
        """Refuse to go on with a checkpoint of other data: its scale is part of the rule."""
        if self.val_threshold is None:
            self.rule.threshold.zero_()  # also after a checkpoint was calibrated
        if self.record is None:
            return
        own = (self.rule.scaler.mean, self.rule.scaler.scale)
        given = (torch.as_tensor(x, device=self.device) for x in self.record.statistics)
        if not all(torch.allclose(a, b) for a, b in zip(own, given, strict=True)):
            raise UserError(
                "the checkpoint was trained on other data: its means "
                f"{own[0].tolist()} are not those of the training paths "
                f"{self.record.statistics.mean.tolist()}"
            )
