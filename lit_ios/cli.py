"""The command line: LightningCLI with this project's links, run folders and final test."""

from __future__ import annotations

import json
import os
import re
from argparse import ArgumentError
from pathlib import Path
from typing import Any

import torch
import yaml
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import LightningDataModule, Trainer
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from callbacks.interruptions import Interruptions, last_checkpoint
from callbacks.run_folder import EpochLogger, SettingsWriter
from callbacks.trackers import send_results
from lit_ios.checkpoints import read_checkpoint
from lit_ios.checks import UserError, check_integer
from lit_ios.data_record import InputSettings
from lit_ios.files import explain_os_error, write_json
from lit_ios.found import class_paths, files_read, found_settings, refuse_links
from lit_ios.imports import check_import
from lit_ios.modules import StoppingModule
from lit_ios.program import jobs
from lit_ios.program.checkpoint_fit import (
    check_columns,
    check_fit,
    given_checkpoint,
    run_config,
)
from lit_ios.program.class_names import (
    allow_imports,
    check_class,
    known_classes,
    named_classes,
)
from lit_ios.program.mistakes import explain
from lit_ios.program.options import add_options, check_seed
from lit_ios.program.quiet import be_quiet
from lit_ios.program.trainers import (
    callbacks_of,
    check_trainer,
    choose_strategy,
    default_threads,
    explain_trainer_error,
    loggers_of,
    refused_by_trainer,
)
from lit_ios.recognition import calibration_note
from lit_ios.settings import Settings, gather_options, merge_settings, read_settings
from lit_ios.variants import check_one_class, settings_by_name, variant_name

COMMANDS = ("fit", "validate", "test", "predict")
_LOST = (
    "Connection (closed|reset)|gloo|NCCL|[Bb]roken pipe"  # how torch says that a process is gone
)
_DAMAGE = (  # what Lightning and torch raise over a state that training did not write
    AttributeError, ArithmeticError, AssertionError, LookupError, TypeError, ValueError,
)  # fmt: skip


class StoppingCLI(LightningCLI):
    """Links data to model, puts runs into runs/<data>/<variant>/version_N, tests after fitting."""

    checkpoint: Path | None = None  # the file given as --ckpt_path
    command = "fit"  # that is carried out
    program = "lit-ios"  # as the user calls it

    @classmethod
    def run(cls, args: list[str], default_config: Path) -> StoppingCLI:
        """Parse and carry out a command line, starting from the settings in `default_config`."""
        be_quiet()
        files, others = gather_options(args, "--config", "-c")
        allowed, others = gather_options(others, "--allow")
        allow_imports(allowed)
        if not others or others[0] not in COMMANDS:
            raise UserError(f"the first word must be one of {', '.join(COMMANDS)}; see --help")
        if any(word.startswith("--data.init_args.seed") for word in others):
            raise UserError("data.init_args.seed follows --seed_everything: give that instead")
        for seed in gather_options(others, "--seed_everything")[0]:
            check_seed(seed)
        by_name: list[str] = []
        for role in ("data", "model"):
            named, others = settings_by_name(others, role)
            check_one_class(role, named, files)
            by_name += named
        files = [*by_name, *files]  # what --config says goes on top of what a name stands for
        cls.checkpoint = given_checkpoint(others)
        if cls.checkpoint is None and others[0] != "fit" and "--help" not in others:
            raise UserError(
                f"{others[0]} needs a checkpoint: {others[0]} RUN, a run folder or a checkpoint"
            )
        given = files or any(word.startswith("--data") for word in others)
        if cls.checkpoint is not None and not run_config(cls.checkpoint) and not given:
            raise UserError(
                f"--ckpt_path: no config.yaml of its run lies beside {cls.checkpoint}: say "
                "what it is of, --config configs/data/….yaml --config configs/model/….yaml"
            )
        layers = [read_settings(default_config), *cls._found(others), *map(read_settings, files)]
        return cls.carry_out(merge_settings(layers), others)

    @classmethod
    def _found(cls, words: list[str]) -> list[Settings]:
        """Return what the checkpoint's run folder says of model and data, and say what is read.

        Its trained model is written to where a run goes on: no link may lead out of the folder.
        """
        configs = run_config(cls.checkpoint)
        if configs and words[0] == "fit":
            refuse_links(configs[0].parent)
        found = [found_settings(config) for config in configs]
        files = files_read(found[0]) if found else []
        if files and not any(word.startswith("--data") for word in words):
            print(f"data of the run: {', '.join(files)}")
        return found

    @classmethod
    def carry_out(cls, settings: Settings, others: list[str]) -> StoppingCLI:
        """Carry out a command, its first word, under settings and the options that follow it."""
        check_seed(settings.get("seed_everything"))
        for path in (*class_paths(settings), *named_classes(others)):
            check_import(path)
        check_class("model", settings, others, StoppingModule)
        check_class("data", settings, others, LightningDataModule)
        cls.command = others[0]
        return cls(
            model_class=StoppingModule,
            subclass_mode_model=True,
            args=[others[0], "--config", yaml.safe_dump(settings), *others[1:]],
            seed_everything_default=0,
            auto_configure_optimizers=False,
            save_config_callback=SettingsWriter,
            save_config_kwargs={"began": cls.began},
        )

    def _parse_ckpt_path(self) -> None:
        """Let settings and options win over the checkpoint's where the run's settings are known."""
        if not run_config(self.checkpoint):
            super()._parse_ckpt_path()

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Let mistakes be raised, to be explained; take no beginning of a name for the name."""
        parser = super().init_parser(**kwargs)
        parser.exit_on_error = parser.allow_abbrev = False
        return parser

    def subcommands(self) -> dict[str, set[str]]:  # type: ignore[override]
        """Return the command alone: a parser of each takes its time."""
        return {self.command: super().subcommands()[self.command]}

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Answer mistakes in one line, without quoting files."""
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            known = self._subcommand_parsers[args[0]]._option_string_actions
            raise explain(str(error), args[3:], known, known_classes()) from None

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our options, and link what the model must know of the data."""
        add_options(parser)
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)
        parser.link_arguments(
            "data", "model.init_args.inputs", compute_fn=self._inputs, apply_on="instantiate"
        )

    def _inputs(self, data: Any) -> InputSettings:
        """Return what states are made of; data for a checkpoint are read as it read its own."""
        if self.checkpoint is not None:
            data.read_as(read_checkpoint(self.checkpoint)["lit_ios"]["rule"])
        if self.subcommand == "predict":
            data.for_prediction()
        plain: InputSettings = data.inputs.plain()
        return plain

    def before_instantiate_classes(self) -> None:
        """Set the number of threads; leave the printing of results to RunSummary."""
        if self.subcommand in ("validate", "test"):
            self.config[self.subcommand]["verbose"] = False
        model, data = (self._get(self.config, role).init_args for role in ("model", "data"))
        threads = self._get(self.config, "threads")
        if threads is not None:
            check_integer("threads", threads, at_least=1, below=4096)
        work = data.get("batch_size", 1) * max(model.hidden, default=1) * model.members
        torch.set_num_threads(default_threads(work) if threads is None else threads)

    def instantiate_classes(self) -> None:
        """Make the objects; what one of them refuses is said without jsonargparse's wrapping."""
        try:
            super().instantiate_classes()
        except MisconfigurationException as error:  # of the trainer's own options
            raise refused_by_trainer(str(error).rstrip(".!")) from None
        except ValueError as error:
            if isinstance(error.__cause__, UserError):
                raise error.__cause__ from None
            reason = re.search(r"Errors:\n  - (.+)", str(error))
            if reason is None:
                raise
            raise UserError(reason[1]) from None

    def after_instantiate_classes(self) -> None:
        """Read data and checkpoint now: what is wrong is said before anything is written.

        Several processes read their shares when they know of each other.
        """
        if self.trainer.world_size == 1:
            self.datamodule.setup(self.subcommand)
        if self.checkpoint is not None:
            check_fit(self.checkpoint, self.model)
            if self.trainer.world_size == 1:
                check_columns(self.checkpoint, self.model, self.datamodule)
                self._say_if_calibrated_on_these()

    def _say_if_calibrated_on_these(self) -> None:
        """Say so if the paths that are measured chose the threshold."""
        part, what = {"validate": ("val", "validation"), "test": ("test", "test")}.get(
            str(self.subcommand), ("", "")
        )
        paths = getattr(getattr(self.datamodule, "splits", None), part, None) if part else None
        if paths is not None:
            assert self.checkpoint is not None
            note = calibration_note(paths, read_checkpoint(self.checkpoint)["lit_ios"], what)
            if note is not None:
                print(f"note: {note}")

    def _run_subcommand(self, subcommand: str) -> None:
        """Carry out the command; what the machine refuses is said in one sentence."""
        try:
            super()._run_subcommand(subcommand)
        except OSError as error:
            name = "a file" if error.filename is None else os.fsdecode(error.filename)
            raise UserError(f"{name}: {explain_os_error(error)}") from None
        except RuntimeError as error:
            if self.trainer.world_size > 1 and re.search(_LOST, str(error)):
                raise UserError(
                    f"another process of this run has ended, so this one does{self._hint()}"
                ) from None
            self._refuse_damaged(error)
            raise
        except _DAMAGE as error:
            self._refuse_damaged(error)
            raise

    def _refuse_damaged(self, error: Exception) -> None:
        """Say that a run cannot go on where its state is what was stumbled over."""
        callbacks: list[Callback] = getattr(self.trainer, "callbacks", [])
        began = any(c.went_well for c in callbacks if isinstance(c, Interruptions))
        if isinstance(error, UserError | UnicodeError) or self.checkpoint is None or began:
            return
        raise UserError(
            f"{self.subcommand} cannot go on from {self.checkpoint} ({type(error).__name__}): its "
            "state is damaged or another version's; take another copy of it, or train anew"
        ) from error

    def _hint(self) -> str:
        last = last_checkpoint(self.trainer)
        return (
            f": go on with  {self.go_on_with(last)}" if last is not None and last.is_file() else ""
        )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Choose run folder and strategy where the user has not."""
        config = self._get(self.config_init, "trainer")
        check_trainer(config)
        callbacks = callbacks_of(
            config, self._get(self.config, "output"), self._get(self.config, "safe_csv")
        )
        config["callbacks"] = [*callbacks, self._interruptions(config)]
        if config.get("logger") is False:
            self.save_config_callback = None  # there is no run folder to put it
            config["default_root_dir"] = self._get(self.config, "runs_dir")
        else:
            own = self._logger(variant_name(self.model, self.datamodule, callbacks))
            config["logger"] = [own, *loggers_of(config.get("logger"))]
        choose_strategy(config, self.model.updates)
        try:
            return super().instantiate_trainer(**kwargs)
        except (RuntimeError, ValueError) as error:
            known = explain_trainer_error(error, config.get("strategy"))
            if known is None:
                raise
            raise known from None

    def _interruptions(self, config: Any) -> Interruptions:
        """Let signals and the end of the time end training as schedulers expect."""
        limit, config["max_time"] = config.get("max_time"), None
        return Interruptions(
            limit, self.go_on_with, requeue=None if jobs.job() is None else jobs.requeue
        )

    @staticmethod
    def began(runs_dir: str, folder: Path) -> None:
        """Note that a run begins in this folder."""
        jobs.remember_run(runs_dir, folder)

    def go_on_with(self, last: Path) -> str:
        """Return the command that goes on with this run."""
        return f"{self.program} fit --ckpt_path {last}"

    def _logger(self, variant: str) -> EpochLogger:
        """Log to a new run folder, or to one that is there."""
        folder = self.run_folder()
        if folder is not None:
            return EpochLogger(folder.parent, "", version=folder.name, default_hp_metric=False)
        name = f"{self.datamodule.name}/{variant}"
        return EpochLogger(self._get(self.config, "runs_dir"), name, default_hp_metric=False)

    def run_folder(self) -> Path | None:
        """Return the folder to log to: that of a run that is resumed; None for a new one."""
        if self.subcommand == "fit" and run_config(self.checkpoint):
            assert self.checkpoint is not None
            return self.checkpoint.parent.parent
        return None

    def after_fit(self) -> None:
        """Test the best checkpoint."""
        best = getattr(self.trainer.checkpoint_callback, "best_model_path", "")
        if best:
            self.trainer.test(self.model, self.datamodule, ckpt_path=best, verbose=False)
            self.compare_with_baseline()
            self.write_report(Path(best))
            self._send_results(Path(best))
        else:
            print("No checkpoint was validated and kept: nothing to test.")

    def after_test(self) -> None:
        """Give the results to the trackers that take files."""
        self._send_results(self.checkpoint)

    after_validate = after_test

    def _send_results(self, checkpoint: Path | None) -> None:
        folder = getattr(self.trainer.logger, "log_dir", None)
        if folder is not None and self.trainer.is_global_zero:
            send_results(self.trainer.loggers, Path(folder), checkpoint)

    def write_report(self, checkpoint: Path) -> None:
        """Write report.html of the run, in the first process."""
        folder = getattr(self.trainer.logger, "log_dir", None)
        if folder is None or not self._get(self.config, "report"):
            return
        if self.trainer.is_global_zero:
            from lit_ios.program.reporting import report_run

            file = report_run(Path(folder), checkpoint, self.model.rule, self.datamodule)
            if file is not None:
                print(f"\n  report       {file}   (all of this and more on one page)")

    def compare_with_baseline(self) -> None:
        """Say what gradient boosting gets on the test paths, and add it to metrics.json."""
        if not self._get(self.config, "baseline") or self.trainer.world_size > 1:
            return
        from lit_ios.baseline import compare

        found = compare(self.datamodule, self.model.rule.eval())
        if found is None:
            return
        print(f"\n{found.sentence}")
        folder = getattr(self.trainer.logger, "log_dir", None)
        written = None if folder is None else Path(folder) / "metrics.json"
        if written is not None and written.is_file():
            metrics = json.loads(written.read_text()) | found.metrics()
            write_json(written, metrics)
            for logger in self.trainer.loggers[1:]:
                logger.log_metrics(found.metrics(), self.trainer.global_step)
