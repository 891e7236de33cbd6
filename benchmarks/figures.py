"""The paper's figures: `python -m benchmarks.figures` draws those that need no grid of runs.

Those of the grid (trade-off, curves over epochs) are drawn by benchmarks.paper beside its results.
"""

from __future__ import annotations

import argparse
import json
import shutil
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

FOLDER = ROOT / "docs/figures"
# Okabe and Ito's colours twice, told apart by marker and line as well
COLOURS = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#999999")
MARKERS = "os^Dv<>PX*hd"
LINES = ("-", "--", "-.", ":")
STOP, CONTINUE = "#D55E00", "#0072B2"

Rows = Iterable[Mapping[str, str]]


def styles(methods: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return how each method is drawn."""
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


def scatter(data: Mapping[str, Any]) -> Figure:
    """Rows of training paths against time, those where the expert stopped in front."""
    figure = Figure(figsize=(4 * len(data), 3.4), layout="constrained")
    for axes, (name, module) in zip(
        np.ravel(figure.subplots(1, len(data))), data.items(), strict=True
    ):
        paths = module.states(module.splits.train)
        elapsed, value = paths.states[:, -1], paths.states[:, 0]
        stop = np.zeros(len(value), dtype=bool)
        stop[paths.last_rows[paths.stopped]] = True
        axes.plot(elapsed[~stop], value[~stop], ".", color=CONTINUE, markersize=3, alpha=0.5)
        axes.plot(elapsed[stop], value[stop], "^", color=STOP, markersize=4)
        axes.set(title=name, xlabel="time since the path began", ylabel="x")
    handles = [
        Line2D([], [], color=CONTINUE, marker=".", linestyle="", label="continue"),
        Line2D([], [], color=STOP, marker="^", linestyle="", label="stop"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
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
    figure = Figure(figsize=(4.4 * columns, 3.1 * lines + 1), layout="constrained")
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
        axes.set_title(name, fontsize=10)
        axes.grid(alpha=0.25, linewidth=0.5)
        if i % columns == 0:
            axes.set_ylabel(y)
        if i >= len(panels) - columns:
            axes.set_xlabel(x)
    handles = [Line2D([], [], label=labels[method], **look) for method, look in style.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def regions(variant: str, epochs: int, folder: Path) -> Iterator[Path]:
    """Train on 490 paths of radial and star; keep heat maps and boundaries beside the truth."""
    import tempfile

    import train

    for data in ("radial", "star"):
        with tempfile.TemporaryDirectory() as runs:
            cli = train.main([
                "fit", f"--config={ROOT}/configs/data/{data}.yaml",
                f"--config={ROOT}/configs/model/{variant}.yaml", f"--runs_dir={runs}",
                f"--trainer.max_epochs={epochs}", "--data.init_args.paths=700",
            ])  # fmt: skip
            assert cli is not None
            for name in ("q_values", "boundaries"):
                file = folder / f"{data}_{name}.png"
                shutil.copy(Path(cli.trainer.logger.log_dir) / f"figures/{name}.png", file)
                yield file


def main() -> None:
    """Draw the change-point scatter plots, and the regions of radial and star."""
    from datamodules import ChangePointData

    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("--variant", default="do_iqs_lb", help="of the regions (%(default)s)")
    parser.add_argument("--epochs", type=int, default=200, help="of training (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the files (%(default)s)")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    names = ("CP1", "CP2", "CP3")
    picture = scatter({name: ChangePointData(problem=name) for name in names})
    file = args.folder / "change_points.png"
    picture.savefig(file, dpi=110)
    for figure in (file, *regions(args.variant, args.epochs, args.folder)):
        print(f"figure  {figure}")


if __name__ == "__main__":
    main()
