"""The paper's figures: `python -m benchmarks.figures` draws those that need no grid of runs.

Those of the grid (trade-off, curves over epochs) are drawn by benchmarks.paper beside its results.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.grid import ROOT
from benchmarks.methods import DATA_SETS
from callbacks.grids import stopping_grid
from callbacks.hidden import hidden_figure
from datamodules import BoundaryExitData, ChangePointData, TurbofanData
from lit_ios import StoppingPolicy
from lit_ios.plotting import COLOURS, EXPERT, POLICY, frontiers, styled
from lit_ios.plotting.style import AROUND_ZERO, SMALL
from lit_ios.variants import find_variant

FOLDER = ROOT / "docs/figures"
MARKERS = "os^Dv<>PX*hd"
LINES = ("-", "--", "-.", ":")
STOP, CONTINUE = POLICY, EXPERT
# the methods whose regions the paper shows, and DO-IQS-LB
SHOWN = (
    "classifier", "iqs", "iqs_cs_smote", "model_based_iqs", "model_based_iqs_cs_smote", "do_iqs_lb",
)  # fmt: skip
FRONTIERS = ("iqs_folds", "do_iqs_lb", "classifier")

Rows = Iterable[Mapping[str, str]]


def styles(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return how each method is drawn: colours come again with other markers and lines."""
    return {
        method: {
            "color": COLOURS[i % len(COLOURS)],
            "marker": MARKERS[i % len(MARKERS)],
            "linestyle": LINES[i // len(COLOURS) % len(LINES)],
        }
        for i, method in enumerate(methods)
    }


def draw(rows: Rows, curves: Path, labels: Mapping[str, str], stem: Path) -> Iterator[Path]:
    """Draw what a grid of runs has to show; yield the files."""
    rows = list(rows)
    there = {row["variant"] for row in rows}
    labels = {name: label for name, label in labels.items() if name in there}
    runs = {(row["dataset"], row["variant"], row["seed"], row["epochs"]) for row in rows}
    pictures = {"trade_off": trade_off(rows, labels)}
    known = [
        run
        for run in read_lines(curves)
        if (run["dataset"], run["variant"], str(run["seed"]), str(run["epochs"])) in runs
    ]
    if known:
        pictures["accuracy"] = over_epochs(
            known, labels, "val_balanced_accuracy", "balanced accuracy (validation)"
        )
        losses = [run for run in known if not run["variant"].startswith("classifier")]
        if losses:
            pictures["loss"] = over_epochs(losses, labels, "loss", "IQ loss")
    for name, picture in pictures.items():
        file = stem.with_name(f"{stem.name}_{name}.png")
        picture.savefig(file, dpi=110)
        yield file


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines; one cut off while writing is left out."""
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("}\n")]


@styled
def trade_off(rows: Rows, labels: Mapping[str, str]) -> Figure:
    """Missed events against time to event: median and quartiles, means over seeds."""
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    columns = ("time_to_event_median", "time_to_event_q25", "time_to_event_q75", "event_miss_rate")
    for row in rows:
        groups[row["dataset"], row["variant"]].append([float(row[c] or "nan") for c in columns])
    figure, panels, style = _panels(groups, labels)
    for (data, method), values in groups.items():
        if np.isnan(values).all(axis=0).any():
            continue  # nothing was caught by any seed
        median, low, high, missed = np.nanmean(values, axis=0)
        panels[data].errorbar(
            median, missed, xerr=[[median - low], [high - median]], markersize=6, elinewidth=1,
            capsize=2, alpha=0.9, **(style[method] | {"linestyle": ""}),
        )  # fmt: skip
    for axes in panels.values():
        axes.set_ylim(bottom=-0.02)
    _finish(figure, panels, style, labels, "time to event, median and quartiles", "event-miss rate")
    return figure


@styled
def over_epochs(
    runs: Iterable[Mapping[str, Any]], labels: Mapping[str, str], column: str, title: str
) -> Figure:
    """Mean over seeds, epoch by epoch, with one standard deviation shaded."""
    groups: dict[tuple[str, str], list[list[float]]] = defaultdict(list)
    for run in runs:
        groups[run["dataset"], run["variant"]].append(run[column])
    figure, panels, style = _panels(groups, labels)
    for (data, method), values in groups.items():
        length = min(map(len, values))
        curves = np.array([value[:length] for value in values])
        mean, spread, epochs = (
            curves.mean(0),
            curves.std(0, ddof=min(1, len(curves) - 1)),
            np.arange(length),
        )
        line = style[method] | {"markevery": max(1, length // 6), "markersize": 4, "linewidth": 1}
        panels[data].plot(epochs, mean, **line)
        shade = {"color": style[method]["color"], "alpha": 0.12, "linewidth": 0}
        panels[data].fill_between(epochs, mean - spread, mean + spread, **shade)
    _finish(figure, panels, style, labels, "epoch", title)
    return figure


@styled
def scatter(data: Mapping[str, Any]) -> Figure:
    """Rows of training paths against time, those where the expert stopped in front."""
    figure = Figure(figsize=(4 * len(data), 3.4), layout="constrained")
    for axes, (name, module) in zip(
        np.ravel(figure.subplots(1, len(data))), data.items(), strict=True
    ):
        paths = module.states(module.splits.train.followed_by(module.splits.val))
        elapsed, value = paths.states[:, -1], paths.states[:, 0]
        stop = np.zeros(len(value), dtype=bool)
        stop[paths.last_rows[paths.stopped]] = True
        axes.plot(elapsed[~stop], value[~stop], ".", color=CONTINUE, markersize=3, alpha=0.5)
        axes.plot(elapsed[stop], value[stop], "^", color=STOP, markersize=4)
        axes.set(title=name, xlabel="time since the path began", ylabel="x")
    figure.legend(handles=_actions(), loc="outside lower center", ncols=2)
    return figure


def _panels(
    groups: Iterable[tuple[str, str]], labels: Mapping[str, str]
) -> tuple[Figure, dict[str, Axes], dict[str, dict[str, Any]]]:
    """Make one panel for each data set, and a style for each method."""
    known = list(groups)
    names = [name for name in DATA_SETS if any(data == name for data, _ in known)]
    looks = {  # by all labels, so that a method looks the same in every figure
        name: look
        for name, look in styles(labels).items()
        if any(method == name for _, method in known)
    }
    columns = min(3, len(names))
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(4.6 * columns, 3.4 * lines + 1.6), layout="constrained")
    axes = figure.subplots(lines, columns, squeeze=False).ravel()
    for empty in axes[len(names) :]:
        empty.set_visible(False)
    return figure, dict(zip(names, axes, strict=False)), looks


def _finish(
    figure: Figure, panels: Mapping[str, Axes], style: Mapping[str, dict[str, Any]],
    labels: Mapping[str, str], x: str, y: str,
) -> None:  # fmt: skip
    columns = min(3, len(panels))
    for i, (name, axes) in enumerate(panels.items()):
        axes.set_title(name)
        if i % columns == 0:
            axes.set_ylabel(y)
        if i >= len(panels) - columns:
            axes.set_xlabel(x)
    handles = [Line2D([], [], label=labels[method], **look) for method, look in style.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)


@styled
def regions(
    data: str, variants: Iterable[str], epochs: int, paths: int, time: float = 25.0
) -> Figure:
    """Train each variant; Q at one time, scaled around 0, and the boundaries of all times."""
    variants = list(variants)
    figure = Figure(figsize=(13.6, 2.7 * len(variants)), layout="constrained")
    figure.get_layout_engine().set(rect=(0.03, 0, 0.95, 1))  # type: ignore[call-arg, union-attr]
    rows = figure.subplots(len(variants), 4, squeeze=False)
    for axes, variant in zip(rows, variants, strict=True):
        module, source = _trained(data, variant, epochs, f"--data.init_args.paths={paths}")
        grid = stopping_grid(module, source, 81)
        assert grid is not None
        at = int(np.argmin(np.abs(grid.times - time)))
        q, extent = grid.q[at], (grid.x[0], grid.x[-1], grid.y[0], grid.y[-1])
        names = ("Q(s, stop)", "Q(s, continue)", "difference")
        for panel, name, values in zip(
            axes, names, (q[..., 0], q[..., 1], grid.margin[at]), strict=False
        ):
            largest = float(np.abs(values).max())
            shown = panel.imshow(
                values, origin="lower", extent=extent, cmap=AROUND_ZERO, vmin=-largest, vmax=largest
            )
            figure.colorbar(shown, ax=panel, shrink=0.8)
            panel.set_title(f"{name}, t = {grid.times[at]:g}", fontsize=SMALL)
            panel.grid(visible=False)
            if grid.truth is not None:
                _level(panel, grid, grid.truth[at], color="black")
        for number in np.linspace(0, len(grid.times) - 2, 6).astype(int):
            shade = str(0.75 - 0.7 * number / len(grid.times))
            _level(axes[3], grid, grid.margin[number], color=STOP, alpha=1 - float(shade))
            if grid.truth is not None:
                _level(axes[3], grid, grid.truth[number], color=shade, linestyles="--")
        axes[3].set_title("boundaries, dashed: true", fontsize=SMALL)
        axes[3].set_aspect("equal")
        axes[0].set_ylabel(find_variant(variant).label)
    return figure


def _level(axes: Axes, grid: Any, values: Any, **style: Any) -> None:
    """Draw where values change sign, if they do."""
    if values.min() < 0 <= values.max():
        lines = {"colors": style.pop("color"), "linewidths": 1, **style}
        axes.contour(grid.x, grid.y, values, levels=[0.0], **lines)


def _trained(data: str, variant: str, epochs: int, *options: str) -> tuple[Any, Any]:
    """Train a variant; return the module of its best epoch, and the data."""
    import tempfile

    import train

    with tempfile.TemporaryDirectory() as runs:
        cli = train.main([
            "fit", f"--data={data}", f"--model={variant}", f"--runs_dir={runs}",
            f"--config={ROOT}/benchmarks/quiet.yaml", f"--trainer.max_epochs={epochs}", *options,
        ])  # fmt: skip
        assert cli is not None
        return cli.model.eval(), cli.datamodule  # the weights that were tested, of the best epoch


@styled
def scatter_regions(data: Mapping[str, Any]) -> Figure:
    """Rows of paths in the plane, those where the expert stopped in front."""
    figure = Figure(figsize=(4.6 * len(data), 4.6), layout="constrained")
    for axes, (name, module) in zip(
        np.ravel(figure.subplots(1, len(data))), data.items(), strict=True
    ):
        paths = module.splits.train.followed_by(module.splits.val)
        stop = np.zeros(len(paths.states), dtype=bool)
        stop[paths.last_rows[paths.stopped]] = True
        x, y = paths.states.T[:2]
        axes.plot(x[~stop], y[~stop], ",", color=CONTINUE, alpha=0.25)
        axes.plot(x[stop], y[stop], ".", color=STOP, markersize=1.5)
        axes.set(title=f"{name}, {len(paths):,} paths", aspect="equal")
    figure.legend(handles=_actions(), loc="outside lower center", ncols=2)
    return figure


def _actions() -> list[Line2D]:
    return [
        Line2D([], [], color=CONTINUE, marker=".", linestyle="", label="continue"),
        Line2D([], [], color=STOP, marker="^", linestyle="", label="stop"),
    ]


def fatigue_memory(epochs: int, shown: int = 3) -> Figure:
    """What is seen of some test paths, what is not, and what the policy remembers of them.

    IQS with `accumulate`, which nobody told of any damage.
    """
    options = ("--model.init_args.memory=accumulate", "--model.init_args.margin=validated")
    options += ("--data.init_args.oversampling=bootstrap",)
    module, data = _trained("fatigue", "iqs", epochs, *options)
    return hidden_figure(module.rule, data, shown)


def frontier_turbofan(variants: Iterable[str], epochs: int) -> Figure:
    """Missed failures, time lost and false alarms, of which NASA's truncated series tell."""
    curves = {}
    for variant in variants:
        module, data = _trained("turbofan", variant, min(epochs, 40))
        nasa = TurbofanData(test_set="nasa", data_dir=data.data_dir, seed=data.seed)
        nasa.read_as(module.rule.spec)
        paths = data.splits.test.followed_by(nasa.splits.test)
        curves[find_variant(variant).label] = StoppingPolicy(module.rule).frontier(paths)
    return frontiers(curves, "cycles")


def frontier_radial(variants: Iterable[str], epochs: int) -> Figure:
    """The same on radial, whose ends at the horizon are censored."""
    curves = {}
    for variant in variants:
        module, data = _trained("radial", variant, epochs, "--data.init_args.horizon=censor")
        curves[find_variant(variant).label] = StoppingPolicy(module.rule).frontier(data.splits.test)
    return frontiers(curves, "steps")


PICTURES = {
    "frontier_turbofan": lambda args: frontier_turbofan(FRONTIERS, args.epochs),
    "frontier_radial": lambda args: frontier_radial(FRONTIERS, args.epochs),
    "change_points": lambda args: scatter(
        {
            name: ChangePointData(problem=name, paths=args.scattered)
            for name in ("CP1", "CP2", "CP3")
        }
    ),
    "scatter": lambda args: scatter_regions(
        {name: BoundaryExitData(problem=name, paths=args.scattered) for name in ("radial", "star")}
    ),
    "fatigue_memory": lambda args: fatigue_memory(args.epochs),
    "regions_radial": lambda args: regions("radial", SHOWN, args.epochs, args.paths),
    "regions_star": lambda args: regions("star", SHOWN, args.epochs, args.paths),
}


def main() -> None:
    """Draw what is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=PICTURES, default=list(PICTURES), metavar="NAME",
        help=f"of {', '.join(PICTURES)} (default: all)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, default=200, help="of training (%(default)s)")
    parser.add_argument("--paths", type=int, default=700, help="of the regions (%(default)s)")
    parser.add_argument(
        "--scattered", type=int, default=5000, help="paths of scatter plots (%(default)s)"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the files (%(default)s)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.only:
        file = args.folder / f"{name}.png"
        PICTURES[name](args).savefig(file, dpi=90)
        print(f"figure  {file}")


if __name__ == "__main__":
    main()
