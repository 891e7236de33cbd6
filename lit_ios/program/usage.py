"""What the program says of itself, without importing what it does its work with."""

from __future__ import annotations

from lit_ios.program.short import SHORT

TRAINING = {
    "fit": "train a model, then test its best checkpoint",
    "tune": "search for better settings, scored on paths left out",
    "validate": "measure a run on its validation paths",
    "test": "measure a run on its test paths",
}
USES = {
    "predict": "decide on every row of a table, or of the run's test paths",
    "inspect": "say what a table holds and what would be rejected",
    "calibrate": "choose the threshold on paths that were not trained on",
    "forecast": "learn how long is left at a row, on paths that were not trained on",
    "frontier": "draw missed events against time to event",
    "explain": "say what the margin at a stop is made of",
    "export": "write the policy for other programs",
    "monitor": "say whether finished paths still look like those of calibration",
    "report": "write what one or several runs came to as a page, as fit does at its end",
    "serve": "decide on live paths that programs send, and keep them through restarts",
    "runs": "list the runs below a folder with their scores",
}
GRAMMAR = {
    "fit": "[FILE] [options]",
    "tune": "[FILE] [options]",
    "validate": "RUN [options]",
    "test": "RUN [options]",
    "predict": "RUN [FILE] [options]",
    "inspect": "FILE [options]",
    "calibrate": "RUN [FILE] [options]",
    "forecast": "RUN [FILE] [options]",
    "frontier": "RUN … [options]",
    "explain": "RUN [FILE] --of PATH [options]",
    "export": "RUN OUT",
    "monitor": "RUN FILE [options]",
    "report": "RUN … [options]",
    "serve": "RUN [options]",
    "runs": "[FOLDER] [options]",
}

EXAMPLES = """\
examples:
  {program} inspect my.csv --path unit --time cycle
  {program} fit my.csv --path unit --time cycle --stop failed
  {program} predict runs/my/auto/version_0 new.csv --output decisions.parquet
  {program} calibrate runs/my/auto/version_0 fresh.csv --max-event-miss-rate 0.05
  {program} serve runs/my/auto/version_0 --store live.db
  {program} fit --data CP1 --model iqs_cs_smote
  {program} tune my.csv --path unit --time cycle --stop failed --trials 50 --processes 4
  {program} runs
"""

OWN_EXAMPLES = {
    "calibrate": """\
examples (RUN is a run folder, fresh.csv holds paths the rule was not trained on):
  {program} calibrate RUN fresh.csv --max-event-miss-rate 0.05 --confidence 0.95
      at most 5 % of the events missed, kept by 95 % of all calibrations (59 stopped paths or more)
  {program} calibrate RUN fresh.csv --max-event-miss-rate 0.05
      the same in the mean: a single calibration exceeds it almost every other time
  {program} calibrate RUN fresh.csv --max-event-miss-rate 0.1 --max-false-alarm-rate 0.2
  {program} calibrate RUN fresh.csv --max-event-miss-rate 0.1 --per site --lead 30
  {program} calibrate RUN fresh.csv --miss-cost 100 --time-cost 1 --alarm-cost 20
""",
    "forecast": """\
examples:
  {program} forecast RUN fresh.csv --within 10 50
  {program} predict RUN/checkpoints/forecast.ckpt new.csv
""",
    "frontier": """\
examples:
  {program} frontier RUN --data fresh.csv --output frontier.png
  {program} frontier RUN OTHER_RUN --lead 30
""",
    "monitor": """\
examples (RUN is calibrated):
  {program} monitor RUN/checkpoints/calibrated.ckpt finished.csv --state monitor.json
  {program} monitor RUN/checkpoints/calibrated.ckpt finished.csv --output why.png --fail-on-alarm
""",
}

FIT = """\
  FILE, --data X             a table of your own (CSV, Parquet or a folder of them), or a shipped
                             data set: CP1, fatigue, turbofan, ...
  --model auto               train candidates with and without memory, take the best on paths left
                             out (default for a table of your own); --quick trains one; --resume
                             FOLDER goes on with an interrupted run
  --model NAME               a method: do_iqs_lb, iqs_folds, ...
  --config FILE              add settings; later files and options win
  --ckpt_path RUN            resume this run, or its checkpoint FILE
  --trainer.max_epochs N     how long to train
  --model.init_args.X V      any argument of the model     (all: --model.help CLASS)
  --data.init_args.X V       any argument of the data      (all: --data.help CLASS)
  --seed_everything N        decides data, splits, weights and batches
  --runs_dir DIR             where run folders go          (default: runs)
  --threads N                CPU threads of PyTorch        (default: 1, best for small networks)
  --compile build            train by compiled steps, several times as fast; some 20 s for the
                             first run with the same settings; cached: only what is there
  --no-baseline              do not end with what gradient boosting gets on the same paths
  --no-report                write no report.html into the run folder
  --allow PACKAGE            trust classes of this package that settings name
  --on ray --workers N       train on N workers of Ray Train; --address A of a cluster that runs
  --print_config             show the settings and leave
  --help-all                 every option there is
"""

TUNE = """\
  FILE, --data X             a table of your own (CSV, Parquet or a folder of them), or a shipped
                             data set: CP1, fatigue, turbofan, ...
  --model NAME               a method: do_iqs_lb, iqs_folds, ... (default: IQS with memory)
  --space FILE               YAML: learning_rate: {low: 0.001, high: 0.1, log: true}
                                   memory: [none, gru]     (default: configs/space.yaml)
  --trials N                 how many in all; the first has the defaults     (default: 100)
  --stacked N                train N settings side by side that differ in learning_rate,
                             learning_rate_decay, epsilon, epsilon_decay and gamma alone
  --processes N              trials at a time on this machine                (default: 1)
  --on ray                   trials on a Ray cluster; --address X joins one that runs
  --no-pruning               train trials to their end that do worse than most
  --resume FOLDER            go on with a study; so does the same command again, also beside itself
  --config FILE, --seed_everything N, --runs_dir DIR, --trainer.max_epochs N, --allow PACKAGE,
  --model.init_args.X V, --data.init_args.X V, --no-baseline, --no-report    as for fit
"""

MEASURE = """\
  RUN                        a run folder, such as runs/my/auto/version_0, or a checkpoint
  --config FILE              add settings; later files and options win
  --data.init_args.X V       any argument of the data      (all: --data.help CLASS)
  --runs_dir DIR             where run folders go          (default: runs)
  --allow PACKAGE            trust classes of this package that settings name
  --help-all                 every option there is
"""


def usage(program: str) -> str:
    """Return the help of the whole program."""
    commands = "\n".join(f"  {name:<10} {text}" for name, text in (TRAINING | USES).items())
    return (
        f"usage: {program} COMMAND ...\n\nLearns when to stop from experts who stopped.\n\n"
        f"{commands}\n\n  {program} COMMAND --help says more; {program} --version\n\n"
        "RUN is a run folder or a checkpoint (--ckpt_path RUN says the same). Without options, fit "
        "trains\nDO-IQS-LB on the simulated problem bmG; on a table of your own, the default is "
        f"--model auto.\n\n{EXAMPLES.format(program=program)}"
    )


def help_of(command: str, program: str) -> str:
    """Return the help of one command."""
    if command in USES:
        from lit_ios.program.parsers import parser_of

        return parser_of(command, program).format_help()
    options = {"fit": FIT, "tune": TUNE}.get(command, MEASURE)
    table = "\n".join(
        f"  {short.option + _takes(short.kind):<26} {short.help}"
        for short in SHORT
        if command in ("fit", "tune") or not short.fits
    )
    return (
        f"usage: {program} {command} {GRAMMAR[command]}\n\n{TRAINING[command].capitalize()}.\n\n"
        f"{options}\nof a table of your own:\n{table}\n\n{EXAMPLES.format(program=program)}"
    )


def _takes(kind: str) -> str:
    return {"text": " X", "file": " FILE", "list": " A B ...", "flag": "", "count": " N"}[kind]
