"""From a table to a rule in one call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from lit_ios.checks import UserError, check_arguments, check_integer
from lit_ios.data_record import TableColumns
from lit_ios.leaks import ask_about_static, find_leaks, refuse_leaks, static_names
from lit_ios.policy import StoppingPolicy
from lit_ios.policy.tables import Table, open_any, plain_names, plain_roles
from lit_ios.readers import TableRoles
from lit_ios.readers.table import source_paths
from lit_ios.recipe import folds_for, read_recipe
from lit_ios.training import Bar, Trained, train_candidates
from lit_ios.trajectories import BoolArray
from lit_ios.variants import Variant, find_variant, variant_of

FEWEST_STOPS = 4  # two in each of two folds
OWN = ("model", "epochs", "seed", "quick", "keep", "progress", "model_args", "data_args")


def fit(
    table: Table,
    path: str | None = None,
    time: str | None = None,
    stop: str | None = None,
    *,
    model: str = "auto",
    epochs: int = 200,
    seed: int = 0,
    quick: bool = False,
    keep: Sequence[str] = (),
    progress: bool = True,
    model_args: Mapping[str, Any] | None = None,
    data_args: Mapping[str, Any] | None = None,
    **roles: Any,
) -> StoppingPolicy:
    """Learn from a table of stopped paths when to stop.

        rule = lit_ios.fit(df, path="patient", time="day", stop="died")
        rule.predict(new_df)

    All paths are trained on: members leave out folds of them in turn, and `rule.held_out` is the
    balanced accuracy on paths that were left out, of an epoch and a threshold chosen on others.
    Variants with synthetic rows cannot do that and leave out a share of the paths for good.

    Args:
        table: pandas, polars, pyarrow or a dictionary of columns; or the name of a file.
        path: column that names the path a row belongs to.
        time: column of times, numbers or dates.
        stop: column that is 1 at the row where the expert stopped, else 0; without it the last row
            of each path is its stop.
        model: `auto` trains candidates with and without memory and takes the best on paths left
            out; or one of the variants, e.g. do_iqs_lb.
        epochs: of training at the most; the best one is kept.
        seed: of folds, weights and batches.
        quick: train one candidate of auto only.
        keep: features that are known at the time of the decision, though they almost give the stop
            away; others that do are refused.
        progress: show a bar, on stderr.
        model_args: further arguments of the variant's module.
        data_args: further arguments of the data: batch_size, include_time, oversampling, …
        **roles: further arguments of TableRoles: features, censored, missing, sort, time_unit, …
    """
    check_integer("epochs", epochs, at_least=1)
    check_integer("seed", seed, at_least=0)
    known = _roles(path, time, stop, roles)
    source = open_any(table, known)
    columns = _columns(known, source.holds_dates(known.time, known.date_format))
    paths = source_paths(source, known, training=True)[0]
    _check_stops(paths.stopped)
    candidates = _candidates(model, paths.stopped, quick, model_args or {}, data_args or {})
    known_early = plain_names("keep", keep)
    refuse_leaks(find_leaks(paths, known_early))
    ask_about_static(static_names(paths), known_early)
    with Bar(len(candidates), int(epochs), progress) as bar:
        taken, found = train_candidates(
            paths,
            candidates,
            bar,
            epochs=epochs,
            seed=seed,
            model_args=model_args or {},
            data_args={"missing": _filled(known.missing), **(data_args or {})},
            table=columns,
        )
    return _noted(found[taken])


def _roles(
    path: str | None, time: str | None, stop: str | None, given: Mapping[str, Any]
) -> TableRoles:
    """Return which column means what; refuse names that are none."""
    names = {field.name for field in fields(TableRoles)} - {"categories"}
    check_arguments(given, {*names, *OWN})
    for name, value in (("path", path), ("time", time)):
        if value is None:
            raise UserError(f"name the column of {name}s: fit(table, path='…', time='…')")
    return TableRoles(**plain_roles(path=path, time=time, stop=stop, **given))


def _columns(roles: TableRoles, dates: bool) -> TableColumns:
    """Return how the table was read, for tables that are to be read alike."""
    names = [name for name in TableColumns._fields if name != "dates"]
    return TableColumns(**{name: getattr(roles, name) for name in names}, dates=dates)


def _check_stops(stopped: BoolArray) -> None:
    """Refuse too few stopped paths."""
    stops = int(stopped.sum())
    if stops < FEWEST_STOPS:
        raise UserError(
            f"{stops} of {len(stopped)} paths were stopped: paths are left out in turn, which "
            f"needs at least {FEWEST_STOPS} stopped ones: give more"
        )


def _candidates(
    model: str,
    stopped: BoolArray,
    quick: bool,
    model_args: Mapping[str, Any],
    data_args: Mapping[str, Any],
) -> dict[str, Variant]:
    """Return what is trained: the recipe's candidates, or a variant, with folds."""
    if not isinstance(model, str):
        raise UserError(f"model must be the name of a variant or 'auto', got {model!r}")
    if model != "auto":
        if quick:
            raise UserError("quick goes with model='auto'")
        return {model: _with_folds(find_variant(model), stopped)}
    for chosen, given in (("memory", model_args), ("lags", data_args)):
        if chosen in given:
            raise UserError(f"auto chooses {chosen}: leave it out, or name a variant")
    recipe = read_recipe()
    names = [recipe.quick] if quick else list(recipe.candidates)
    found = {name: variant_of(name, name, recipe.candidates[name]) for name in names}
    for variant in found.values():
        variant.data["folds"] = folds_for(stopped)
    return found


def _with_folds(variant: Variant, stopped: BoolArray) -> Variant:
    """Let a variant train on all paths, if its rows are real, and choose its margin."""
    arguments = {**variant.model["init_args"], "margin": "validated"}
    rows = dict(variant.data)
    if rows.get("oversampling", "none") in ("none", "bootstrap"):
        rows["folds"] = folds_for(stopped)
        arguments["members"] = 2 * rows["folds"]
    model = {**variant.model, "init_args": arguments}
    return variant._replace(model=model, data=rows)


def _filled(missing: str) -> str:
    """Return what the rule does about gaps: rows that were dropped leave none."""
    return "error" if missing == "drop" else missing


def _noted(trained: Trained) -> StoppingPolicy:
    """Return the rule; say what is odd about the data, and if the rule does nothing."""
    never = (
        "the rule stops none of the paths it was not trained on: it has found nothing that tells "
        "when to stop; give other features or more paths, or choose a threshold with "
        "rule.calibrate(…)"
    )
    for remark in (*trained.remarks, *([never] if trained.never_stops else [])):
        warnings.warn(remark, stacklevel=3)
    return trained.policy
