"""Short forms of a command line → the words that LightningCLI understands.

fit my.csv --path unit --features a b   →   fit --data=table --data.init_args.file=my.csv
--data.init_args.path=unit
--data.init_args.features=["a", "b"]
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lit_ios.checks import UserError, nearest
from lit_ios.program.mistakes import no_option
from lit_ios.program.places import find_checkpoint
from lit_ios.program.short import BY_OPTION, Short
from lit_ios.variants import configs_folder

FLAGS = (
    "--quick", "--no-baseline", "--no-report", "--safe-csv", "--print_config", "--help-all", "-h",
    "--help",
)  # fmt: skip
TAKES_FILE = ("file", "val_file", "test_file", "events", "data_dir", "output", "runs_dir")
PLAIN = (
    "--data", "--model", "--trainer", "--config", "--ckpt_path", "--runs_dir", "--threads",
    "--output", "--seed_everything", "--allow", "--resume", "--verbose", "--weights_only",
    "--return_predictions", "--baseline", "--report", "--compile", *FLAGS,
)  # fmt: skip
LEAVES = {
    "--epochs": "--trainer.max_epochs", "--max_epochs": "--trainer.max_epochs",
    "--devices": "--trainer.devices", "--seed": "--seed_everything",
    "--gamma": "--model.init_args.gamma", "--memory": "--model.init_args.memory",
    "--hidden": "--model.init_args.hidden", "--members": "--model.init_args.members",
    "--learning_rate": "--model.init_args.learning_rate", "--lags": "--data.init_args.lags",
    "--folds": "--data.init_args.folds", "--paths": "--data.init_args.paths",
    "--batch_size": "--data.init_args.batch_size", "--file": "--data", "--checkpoint": "RUN",
}  # fmt: skip


class Word(NamedTuple):
    """An option with its values, or a word that belongs to none."""

    option: str  # empty for a word of its own
    values: list[str]


def parse(words: list[str]) -> Iterator[Word]:
    """Tell options, their values and other words apart."""
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            yield Word("", [word])
            continue
        option, equals, value = word.partition("=")
        short = BY_OPTION.get(option)
        if equals:
            yield Word(option, [value])
            continue
        if option in FLAGS or (short is not None and short.kind == "flag"):
            yield Word(option, [])
            continue
        count = 0
        several = short is not None and short.kind == "list"
        while at + count < len(words) and not words[at + count].startswith("--"):
            count += 1
            if not several:
                break
        yield Word(option, words[at : at + count])
        at += count


def predicted_file(words: list[str]) -> tuple[str | None, bool]:
    """Return the file that `predict` is given, and whether options of LightningCLI are."""
    parsed = list(parse(words[1:]))
    free = [word.values[0] for word in parsed if not word.option]
    named = [word.values[0] for word in parsed if word.option == "--data" and word.values]
    run_named = any(word.option == "--ckpt_path" for word in parsed)
    dotted = any("." in word.option or word.option in _OF_LIGHTNING for word in parsed)
    files = [*named, *free[0 if run_named else 1 :]]
    return (files[0] if files else None), dotted


_OF_LIGHTNING = ("--config", "-c", "--help-all", "--print_config", "--runs_dir", "--threads")


def translate(words: list[str], others: Sequence[str] = ()) -> list[str]:
    """Return the command line with all short forms written out.

    Args:
        words: of the command line, the command first.
        others: options of the command that are not among them, but may have been meant.
    """
    command, parsed = words[0], list(parse(words[1:]))
    _check_options(command, parsed, others)
    free = [word.values[0] for word in parsed if not word.option]
    result, table = [command], False
    if command != "fit" and not _named(parsed, "--ckpt_path") and free:
        result.append(f"--ckpt_path={find_checkpoint(free.pop(0))}")
    data = [*_named(parsed, "--data"), *free]
    if len(data) > 1:
        raise UserError(f"one set of data is read at a time: leave {data[1]!r} out")
    for given in data:
        found = _data_words(command, given)
        result += found
        table = "--data=table" in found
    for word in parsed:
        if word.option in ("", "--data"):
            continue
        if word.option in ("--no-baseline", "--no-report"):
            result.append(f"--{word.option.removeprefix('--no-')}=false")
        elif word.option == "--compile":
            result.append(f"--model.init_args.compile={_value(word)}")
        elif word.option == "--safe-csv":
            result.append("--safe_csv=true")
        elif word.option in BY_OPTION:
            _check_own(BY_OPTION[word.option], command, data, table, parsed)
            result.append(_short(BY_OPTION[word.option], word.values))
        elif word.option == "--ckpt_path":
            place, name = _value(word), "last" if command == "fit" else "best"
            run = find_checkpoint(place, name) if Path(place).is_dir() else place
            result.append(f"--ckpt_path={run}")
        elif word.option in ("--config", "-c") and word.values == ["ray"]:
            result.append(f"--config={configs_folder() / 'ray.yaml'}")
        else:
            _check_value(word)
            named = word.option if len(word.values) != 1 else f"{word.option}={word.values[0]}"
            result.append(named)
    if table and command == "fit":
        _check_roles(result, data[0])
    return result


def is_table(name: str) -> bool:
    """Say whether a word is the name of a table: by its ending, or since it is a folder."""
    from lit_ios.readers.files import CSV_ENDINGS, PARQUET_ENDINGS

    return name.endswith((*CSV_ENDINGS, *PARQUET_ENDINGS)) or Path(name).is_dir()


def _data_words(command: str, name: str) -> list[str]:
    """Return the words for `--data NAME`: a shipped data set, settings, a class or a table."""
    shipped = [file.stem for file in configs_folder().glob("data/*.yaml")]
    if name in shipped or name.endswith((".yaml", ".yml")):
        return [f"--data={name}"]
    file = Path(name)
    if is_table(name) or file.exists():
        if not file.exists():
            raise UserError(f"there is no file {name}: give the place of your table")
        if command == "fit":
            return ["--data=table", f"--data.init_args.file={name}"]
        return [f"--data.init_args.file={name}"]  # of the run's kind of data
    if all(part.isidentifier() for part in name.split(".")) and "." in name:
        return [f"--data={name}"]  # a class
    if name[:1].isupper() and name.endswith("Data"):
        return [f"--data={name}"]  # a class of ours
    near = nearest(name, shipped)
    advice = f"did you mean {near}?" if near else f"there are {', '.join(sorted(shipped))}"
    raise UserError(f"--data: there is no file and no data set {name!r}; {advice}")


def _check_options(command: str, parsed: list[Word], others: Sequence[str]) -> None:
    """Refuse options that do not exist, before anything slow is imported."""
    known = [*PLAIN, *BY_OPTION, *others]
    for word in parsed:
        name = word.option
        if not name or name == "-c" or "." in name or name.rstrip("+") in known:
            continue
        if name in LEAVES:
            raise UserError(f"there is no option {name}; did you mean {LEAVES[name]}?")
        raise no_option(name, known, f"{command} --help lists them")


def _check_own(
    short: Short, command: str, data: list[str], table: bool, parsed: list[Word]
) -> None:
    """Refuse options of a table where none is read."""
    known = _named(parsed, "--config") or _named(parsed, "-c") or data == ["table"]
    if command == "fit" and not table and not known and not _named(parsed, "--ckpt_path"):
        other = f", not with {data[0]}" if data else ""
        raise UserError(
            f"{short.option} goes with a table of your own{other}: fit FILE {short.option} …"
        )


def _short(short: Short, values: list[str]) -> str:
    """Return the word of LightningCLI for a short option."""
    if short.kind == "flag":
        value = values[0] if values else "true"
    elif not values:
        raise UserError(f"{short.option} needs a value: {short.option} NAME")
    else:
        value = json.dumps(values) if short.kind == "list" else values[0]
    return f"--data.init_args.{short.argument}={value}"


def _check_value(word: Word) -> None:
    """Refuse tables where settings are expected: jsonargparse would read and quote them."""
    leaf = word.option.removeprefix("--").rpartition(".")[2]
    for value in word.values:
        if leaf in TAKES_FILE or not value or not is_table(value):
            continue
        if leaf in ("config", "c", "allow", "resume"):
            if leaf == "config":
                raise UserError(f"--config {value}: that is a table, not settings: give --data")
            continue
        if Path(value).is_file() or not Path(value).is_dir():
            raise UserError(f"{word.option} takes no table, got {value}: give --data {value}")


def _check_roles(words: list[str], file: str) -> None:
    """Ask for the columns a table cannot be read without."""
    for role in ("path", "time"):
        given = any(word.startswith((f"--data.init_args.{role}=", "--config")) for word in words)
        if not given and f"--data.init_args.{role}" not in words:
            raise UserError(
                f"which column of {file} is the {role}? give --{role} COLUMN; inspect {file} "
                "lists the columns"
            )


def _named(parsed: list[Word], option: str) -> list[str]:
    return [_value(word) for word in parsed if word.option == option]


def _value(word: Word) -> str:
    if not word.values or not word.values[0]:
        raise UserError(f"{word.option} needs a value: {word.option} NAME")
    return word.values[0]
