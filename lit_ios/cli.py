"""The command line: LightningCLI with this project's links, run folders and final test."""

from __future__ import annotations

import logging
import pickle
import re
import warnings
from pathlib import Path
from typing import Any

import torch
import yaml
from pytorch_lightning import Trainer
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from pytorch_lightning.loggers import TensorBoardLogger

from lit_ios.configs import gather_config_options, merge_settings, read_settings
from lit_ios.modules import StoppingModule


class EpochLogger(TensorBoardLogger):
    """TensorBoard curves over epochs instead of batches."""

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        """Write scalars at the epoch Lightning sends along."""
        values = dict(metrics)
        epoch = values.pop("epoch", step)
        super().log_metrics(values, None if epoch is None else int(epoch))


class StoppingCLI(LightningCLI):
    """Links data to model, puts runs into runs/<data>/<variant>/version_N, tests after fitting."""

    @classmethod
    def run(cls, args: list[str], default_config: Path) -> StoppingCLI:
        """Parse and carry out a command line, starting from the settings in `default_config`."""
        _be_quiet()
        files, others = gather_config_options(args)
        layers: list[str | Path] = [default_config, *run_config(others), *files]
        settings = merge_settings(read_settings(file) for file in layers)
        settings = merge_settings([settings, *checkpoint_settings(others, settings)])
        return cls(
            model_class=StoppingModule,
            subclass_mode_model=True,
            args=[others[0], "--config", yaml.safe_dump(settings), *others[1:]],
            seed_everything_default=0,
            auto_configure_optimizers=False,
            save_config_kwargs={"overwrite": True},
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add our options, and link what the model must know of the data."""
        parser.add_argument("--runs_dir", default="runs", help="Folder of the run folders.")
        parser.add_argument(
            "--threads",
            type=int,
            default=1,
            help="CPU threads of PyTorch; one is fastest for small networks.",
        )
        parser.add_argument(
            "--output",
            type=str | None,
            help="predict: the .csv or .parquet file of decisions (default: in the run folder).",
        )
        parser.link_arguments("seed_everything", "data.init_args.seed", compute_fn=int)
        for name in ("feature_names", "lags", "include_time"):
            parser.link_arguments(f"data.{name}", f"model.init_args.{name}", apply_on="instantiate")

    def before_instantiate_classes(self) -> None:
        """Set the number of threads; leave the printing of results to RunSummary."""
        if self.subcommand in ("validate", "test"):
            self.config[self.subcommand]["verbose"] = False
        torch.set_num_threads(self._get(self.config, "threads"))

    def after_instantiate_classes(self) -> None:
        """Read the data now: what is wrong with them is said before anything is written."""
        self.datamodule.setup(self.subcommand)

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """Choose run folder and strategy where the user has not."""
        config = self._get(self.config_init, "trainer")
        output = self._get(self.config, "output")
        for callback in config.get("callbacks") or []:
            if output is not None and hasattr(callback, "output"):
                callback.output = output
        if config.get("logger") in (None, True):
            config["logger"] = EpochLogger(
                save_dir=self._get(self.config, "runs_dir"),
                name=f"{self.datamodule.name}/{self.variant}",
                default_hp_metric=False,
            )
        if config.get("strategy") == "auto" and str(config.get("devices")) not in ("1", "auto"):
            alternating = self.model.updates == "alternating"  # several backward passes in a step
            config["strategy"] = "ddp_find_unused_parameters_true" if alternating else "ddp"
        return super().instantiate_trainer(**kwargs)

    @property
    def variant(self) -> str:
        """Name of the variant, from the model's class, the oversampling and the schedules."""
        callbacks = self._get(self.config_init, "trainer.callbacks") or []
        confidence = any(getattr(c, "buffer", "") == "confidence" for c in callbacks)
        suffix = {"none": "", "smote": "_cs_smote" if confidence else "_smote", "bootstrap": "_lb"}
        words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=DO)(?=IQS)", "_", type(self.model).__name__)
        return words.lower() + suffix[self.datamodule.oversampling]

    def after_fit(self) -> None:
        """Test the best checkpoint."""
        best = getattr(self.trainer.checkpoint_callback, "best_model_path", "")
        if best:  # not with fast_dev_run, or when checkpoints are switched off
            self.trainer.test(self.model, self.datamodule, ckpt_path=best, verbose=False)


def _be_quiet() -> None:
    """Silence what tells a user nothing: Lightning's device report and its own deprecations."""
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message="LightningCLI's args parameter")
    warnings.filterwarnings("ignore", message=".*LeafSpec")
    warnings.filterwarnings("ignore", message="It is recommended to use `self.log")
    warnings.filterwarnings("ignore", message="The dirpath has changed from")
    warnings.filterwarnings("ignore", message="Couldn't infer the batch indices")


def checkpoint_settings(args: list[str], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """Make a table be read with the features the checkpoint was trained on.

    A table to predict needs no stops.
    """
    checkpoint = _checkpoint(args)
    if checkpoint is None or not settings["data"]["class_path"].endswith("TableData"):
        return []
    try:
        features = torch.load(checkpoint, weights_only=True)["hyper_parameters"]["feature_names"]
    except (pickle.UnpicklingError, KeyError, RuntimeError) as error:
        raise SystemExit(f"--ckpt_path: {checkpoint} is no checkpoint of this program") from error
    init_args = {"features": features, "labelled": args[0] != "predict"}
    return [{"data": {"init_args": init_args}}]


def run_config(args: list[str]) -> list[Path]:
    """Return the settings of the run that the checkpoint named in `args` belongs to."""
    checkpoint = _checkpoint(args)
    config = None if checkpoint is None else checkpoint.parent.parent / "config.yaml"
    return [config] if config is not None and config.is_file() else []


def _checkpoint(args: list[str]) -> Path | None:
    """Return the file given as --ckpt_path, if any."""
    words = [part for word in args for part in word.split("=", 1)]
    if "--ckpt_path" not in words[:-1]:
        return None
    checkpoint = Path(words[words.index("--ckpt_path") + 1])
    if not checkpoint.is_file():
        raise SystemExit(f"--ckpt_path: there is no file {checkpoint}")
    return checkpoint
