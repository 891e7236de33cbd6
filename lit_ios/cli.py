"""The command line: LightningCLI with this project's links, run folders and final test."""

from __future__ import annotations

import json
import logging
import os
import re
import warnings
from argparse import ArgumentError
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import get_loader, set_loader, set_parsing_settings
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import LightningDataModule, Trainer
from pytorch_lightning.callbacks import Callback, ProgressBar
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.loggers import Logger

from callbacks.interruptions import Interruptions, last_checkpoint
from callbacks.run_folder import EpochLogger, SettingsWriter
from callbacks.trackers import send_results
from lit_ios.checkpoints import PREFIX, read_checkpoint
from lit_ios.checks import UserError, check_integer, nearest
from lit_ios.data_record import InputSettings
from lit_ios.files import explain_os_error, write_json
from lit_ios.found import CONFIG, class_paths, files_read, found_settings, refuse_links
from lit_ios.imports import TRUSTED, allow_packages, check_import
from lit_ios.metrics import MissingClassWarning
from lit_ios.modules import StoppingModule
from lit_ios.program import jobs
from lit_ios.program.mistakes import explain
from lit_ios.recognition import calibration_note
from lit_ios.rule.weights import impossible, other_kind
from lit_ios.settings import Settings, gather_options, merge_settings, read_settings
from lit_ios.variants import configs_folder, settings_by_name, variant_name
from lit_ios.yaml_text import check_yaml

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
            _check_seed(seed)
        for role in ("data", "model"):
            named, others = settings_by_name(others, role)
            files += named
        cls.checkpoint = _checkpoint(others)
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
        _check_seed(settings.get("seed_everything"))
        for path in (*class_paths(settings), *_named_classes(others)):
            check_import(path)
        _check_class("model", settings, others, StoppingModule)
        _check_class("data", settings, others, LightningDataModule)
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

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Answer mistakes in one line, without quoting files."""
        try:
            super().parse_arguments(parser, args)
        except ArgumentError as error:
            known = self._subcommand_parsers[args[0]]._option_string_actions
            bases: list[type] = [StoppingModule, LightningDataModule, Callback, Logger]
            classes = {cls.__name__: cls for base in bases for cls in _subclasses(base)}
            raise explain(str(error), args[3:], known, classes) from None

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our options, and link what the model must know of the data."""
        parser.add_argument(
            "--runs_dir", type=str, default="runs", help="Folder of the run folders."
        )
        parser.add_argument(
            "--threads",
            type=int | None,
            help="CPU threads of PyTorch (default: one, all cores for large networks). Two make "
            "8 small members a fifth faster, but many times slower when the machine is busy.",
        )
        parser.add_argument(
            "--output",
            type=str | None,
            help="predict: the .csv or .parquet file of decisions (default: in the run folder).",
        )
        parser.add_argument(
            "--safe_csv",
            type=bool,
            default=False,
            help="predict: mark text that a spreadsheet would take for a formula.",
        )
        parser.add_argument(
            "--baseline",
            type=bool,
            default=True,
            help="fit: end with what gradient boosting gets on the same paths.",
        )
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
            raise _refused_by_trainer(str(error).rstrip(".!")) from None
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
            _check_fit(self.checkpoint, self.model)
            if self.trainer.world_size == 1:
                _check_columns(self.checkpoint, self.model, self.datamodule)
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
        if config.get("precision") in ("16-true", "bf16-true"):
            raise UserError(f"precision {config['precision']} is too coarse to learn in: use mixed")
        if config.get("accelerator") == "mps":
            raise UserError("accelerator mps has no double precision, which scaling needs: use cpu")
        callbacks = config.get("callbacks") or []
        if config.get("enable_progress_bar") is False:
            callbacks = [c for c in callbacks if not isinstance(c, ProgressBar)]
        output = self._get(self.config, "output")
        for callback in callbacks:
            if output is not None and hasattr(callback, "output"):
                callback.output = output
            if self._get(self.config, "safe_csv") and hasattr(callback, "safe_csv"):
                callback.safe_csv = True
        config["callbacks"] = [*callbacks, self._interruptions(config)]
        if config.get("logger") is False:
            self.save_config_callback = None  # there is no run folder to put it
            config["default_root_dir"] = self._get(self.config, "runs_dir")
        else:
            own = self._logger(variant_name(self.model, self.datamodule, callbacks))
            config["logger"] = [own, *_loggers(config.get("logger"))]
        alternating = self.model.updates == "alternating"  # several backward passes in a step
        if config.get("strategy") == "auto" and self._several_processes(config):
            config["strategy"] = "ddp_find_unused_parameters_true" if alternating else "ddp"
        elif type(config.get("strategy")).__module__.startswith("ray."):
            _check_worker()
            if alternating:
                config["strategy"]._ddp_kwargs["find_unused_parameters"] = True
        try:
            return super().instantiate_trainer(**kwargs)
        except (RuntimeError, ValueError) as error:
            if "invalid strategy name" in str(error):
                ray = str(config.get("strategy")).startswith("ray")
                advice = "; Ray's are classes: fit … --on ray --workers N" if ray else ""
                raise UserError(
                    f"trainer.strategy: there is no strategy of this name{advice}"
                ) from None
            if "more than one stateful callback" not in str(error):
                raise
            raise UserError(
                "trainer.callbacks has two of one class with the same arguments: leave one out"
            ) from None

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

    @staticmethod
    def _several_processes(config: Any) -> bool:
        devices, accelerator = config.get("devices"), config.get("accelerator")
        if config.get("num_nodes", 1) > 1:
            return True
        if devices == "auto":
            return accelerator != "cpu" and torch.cuda.device_count() > 1
        return str(devices) != "1"

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


def _loggers(given: Any) -> list[Logger]:
    """Return the loggers that a user asks for, beside the run folder's own."""
    if given in (None, True):
        return []
    return [given] if isinstance(given, Logger) else list(given)


def _check_worker() -> None:
    """Refuse Ray's strategies outside of its workers."""
    import ray.train

    try:
        ray.train.get_context().get_world_size()
    except (RuntimeError, AttributeError):
        raise UserError(
            "trainer.strategy is one of Ray's workers, and this process is none: fit … --on ray "
            "--workers N"
        ) from None


def default_threads(work: int) -> int:
    """Choose the number of threads by the numbers in a layer: rows × width × members."""
    return 1 if work < 1_000_000 else os.cpu_count() or 1


def run_config(checkpoint: Path | None) -> list[Path]:
    """Return the settings of the run a checkpoint belongs to, if they lie beside it."""
    config = None if checkpoint is None else checkpoint.parent.parent / CONFIG
    return [config] if config is not None and config.is_file() else []


def _checkpoint(args: list[str]) -> Path | None:
    """Return the file given as --ckpt_path, if any."""
    words = [part for word in args for part in word.split("=", 1)]
    if "--ckpt_path" not in words[:-1]:
        return None
    checkpoint = Path(words[words.index("--ckpt_path") + 1])
    try:
        read_checkpoint(checkpoint)
    except UserError as error:
        raise UserError(f"--ckpt_path: {error}") from None
    return checkpoint.absolute()  # its run folder is two levels up, wherever it is named from


def _check_fit(checkpoint: Path, model: StoppingModule) -> None:
    """Compare a checkpoint with the model it is to be loaded into."""
    saved = read_checkpoint(checkpoint)["state_dict"]
    wanted = {name: value.shape for name, value in model.state_dict().items()}
    different = sorted(set(wanted) ^ set(saved)) or [
        name for name, shape in wanted.items() if saved[name].shape != shape
    ]
    if different:
        raise UserError(
            f"--ckpt_path: {checkpoint} does not fit the model {type(model).__name__} of these "
            f"settings: {different[0]} differs"
        )
    wrong = other_kind(model.state_dict(), saved)
    reason = f"{wrong} is of another kind" if wrong else impossible(saved, PREFIX)
    if reason:
        raise UserError(f"--ckpt_path: {checkpoint} is damaged: {reason}; take another copy of it")


def _check_columns(checkpoint: Path, model: StoppingModule, data: Any) -> None:
    """Refuse data that do not have the columns a checkpoint was trained on."""
    splits = getattr(data, "splits", ())
    had = model.rule.encoder.columns
    for paths in splits:
        if paths is not None and paths.feature_names != had:
            raise UserError(
                f"--ckpt_path: {checkpoint} was trained on the columns {', '.join(had)}, and these "
                f"data have {', '.join(paths.feature_names)}: give data of the same columns"
            )


def _check_class(role: str, settings: Settings, words: list[str], base: type) -> None:
    """Refuse a class name that is not one of ours, listing those there are."""
    named = settings.get(role) or {}
    if not isinstance(named, dict):
        raise UserError(
            f"{role} in a settings file must have a class_path and init_args, got {named!r:.50}"
        )
    given, _ = gather_options(words, f"--{role}")
    known = {cls.__name__ for cls in _subclasses(base)}
    for name in (str(named.get("class_path", "")), *given):
        if "." in name or name in known:
            continue
        shipped = [file.stem for file in configs_folder().glob(f"{role}/*.yaml")]
        near = nearest(name, [*shipped, *known]) if given else None
        there = [*(["auto"] if role == "model" else []), *shipped] if given else known
        advice = f"did you mean {near}?" if near else f"there are {', '.join(sorted(there))}"
        what = f"--{role}: there is no" if given else f"{role}: no class"
        raise UserError(f"{what} {name!r}; {advice}")


def allow_imports(packages: list[str]) -> None:
    """Let settings name classes of trusted and allowed packages, and of those imported already."""
    allow_packages(packages)
    bases: list[type] = [StoppingModule, LightningDataModule, Callback, Logger]
    imported = [cls.__module__ for base in bases for cls in _subclasses(base)]
    set_parsing_settings(
        import_path_denylist=["*"], import_path_allowlist=[*TRUSTED, *packages, *imported]
    )
    if get_loader("yaml") is not read_yaml:
        set_loader("yaml", read_yaml, exceptions=(yaml.YAMLError,))


_yaml_as_jsonargparse_reads_it = get_loader("yaml")


def read_yaml(text: str) -> Any:
    """Read YAML for jsonargparse, unless it stands for more than settings can need."""
    check_yaml(text)
    return _yaml_as_jsonargparse_reads_it(text)


def _named_classes(words: list[str]) -> Iterator[str]:
    """Return the class paths that options name: --model a.B, --trainer.callbacks+=a.B."""
    takes_class = re.compile(
        r"--(.+\.)?(class_path|model|data|callbacks|logger|head|memory|optimizer|oversampling"
        r"|encoder|plugins|profiler|strategy)\+?"
    )
    split = [part for word in words for part in word.split("=", 1)]
    for name, value in pairwise(split):
        if takes_class.fullmatch(name) and re.fullmatch(r"\w+(\.\w+)+", value):
            yield value


def _subclasses(base: type) -> list[type]:
    """Return a class and all its subclasses."""
    children: list[type] = base.__subclasses__()
    return [base, *(cls for child in children for cls in _subclasses(child))]


def _refused_by_trainer(reason: str) -> UserError:
    """Return the error for what Lightning says of the trainer's options."""
    machine = re.search("accelerator|backend|devices", reason)
    return UserError(
        f"trainer: {reason}"
        + ("; leave --trainer.accelerator and --trainer.devices out" if machine else "")
    )


def _check_seed(seed: Any) -> None:
    """Refuse what NumPy cannot be seeded with."""
    number = int(seed) if isinstance(seed, str) and seed.strip().isdecimal() else seed
    if seed is not None:
        check_integer("seed_everything", number, at_least=0, below=2**32)


def be_quiet() -> None:
    """Silence what tells a user nothing: Lightning's device report and its own deprecations."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter")
    warnings.filterwarnings("ignore", message=".*LeafSpec")
    warnings.filterwarnings("ignore", message="It is recommended to use `self.log")
    warnings.filterwarnings("ignore", message="The dirpath has changed from")  # when only tested
    warnings.filterwarnings("ignore", category=MissingClassWarning)  # the summary says it
    warnings.filterwarnings("ignore", message="The `srun` command is available")
    warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")
    warnings.filterwarnings("ignore", message="Checkpoint directory .* exists and is not empty")
