"""Train, validate, test and predict from the command line: `python train.py fit --help`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytorch_lightning.cli import LightningCLI

CONFIGS = Path(__file__).resolve().parent / "configs"

USAGE = """\
usage: python train.py {fit,validate,test,predict} [options]

Learns when to stop from experts who stopped.

  fit        train a model, then test its best checkpoint
  validate   measure a checkpoint on the validation paths
  test       measure a checkpoint on the test paths
  predict    write a checkpoint's decision for every row of the test paths

Without options, fit trains DO-IQS-LB on the simulated problem bmG (configs/default.yaml); on a
table of your own (--data table), the default is --model auto.

  --data NAME                a data set of configs/data: CP1, fatigue, turbofan, table, ...
  --model auto               train candidates with and without memory, take the best on paths
                             left out; --quick trains one; --resume FOLDER goes on
  --model NAME               a method of configs/model: do_iqs_lb, iqs_folds, ...
  --config FILE              add settings; later files and options win
  --ckpt_path FILE           a checkpoint to evaluate, or to resume with fit; the settings
                             of its run are found beside it
  --trainer.max_epochs N     how long to train
  --model.init_args.X V      any argument of the model     (all: --model.help CLASS)
  --data.init_args.X V       any argument of the data      (all: --data.help CLASS)
  --seed_everything N        decides data, splits, weights and batches
  --runs_dir DIR             where run folders go          (default: runs)
  --threads N                CPU threads of PyTorch        (default: 1, best for small networks)
  --print_config             show the settings and leave
  --help                     after a command: all its options

examples:
  python train.py fit --data CP1 --model auto
  python train.py fit --data CP1 --model iqs_cs_smote
  python train.py test --ckpt_path runs/CP1/iqs_cs_smote/version_0/checkpoints/best.ckpt
  tensorboard --logdir runs
"""


def main(args: list[str] | None = None) -> LightningCLI | None:
    """Run the command line `args` (default: the program's) and return the CLI that ran it."""
    words = sys.argv[1:] if args is None else list(args)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE, end="")
        return None
    # heavy imports, not needed for the help above; the packages make class names known
    import callbacks  # noqa: F401
    import datamodules  # noqa: F401
    from lit_ios.auto import auto_run
    from lit_ios.checks import UserError
    from lit_ios.cli import StoppingCLI

    try:
        recipe = auto_run(words, CONFIGS / "default.yaml")
        if recipe is not None:
            cli: LightningCLI = recipe.go()
            return cli
        return StoppingCLI.run(words, default_config=CONFIGS / "default.yaml")
    except UserError as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
