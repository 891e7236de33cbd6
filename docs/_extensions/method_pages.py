"""What the code and the results know of a method: settings, log keys, scores.

```{method-settings} iqs_smote
```
```{method-log-keys} iqs_smote
```
```{method-results} iqs_smote
```
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from docutils import nodes
from reference_pages import ROOT, Generated
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxRole

from benchmarks import published
from benchmarks.grid import Row, read_rows
from benchmarks.methods import DATA_SETS
from benchmarks.paper import LABELS, RESULTS
from benchmarks.tables import Cell, summarise
from lit_ios import modules
from lit_ios.variants import configs_folder, find_variant

FAMILIES = {
    "Classifier": "classifier", "IQS": "IQS", "ModelBasedIQS": "model-based IQS",
    "DOIQS": "DO-IQS", "RecurrentSurvival": "OTI",
}  # fmt: skip
OVERSAMPLING = {"none": "none", "smote": "SMOTE", "bootstrap": "local bootstrap"}


class MethodSettings(Generated):
    """What the settings file of a variant says, and how to run it."""

    def markdown(self) -> Iterator[str]:
        """Yield a table, the file and a command."""
        variant = find_variant(self.arguments[0])
        module = variant.model["class_path"]
        parts = ", ".join(getattr(modules, module).parts)
        yield "| module | parts, in the order they step | oversampling | callbacks |"
        yield "|---|---|---|---|"
        oversampling = OVERSAMPLING[str(variant.data["oversampling"])]
        callbacks = ", ".join(f"`{name}`" for name in variant.callbacks) or "–"
        yield f"| `{module}` | {parts} | {oversampling} | {callbacks} |"
        yield ""
        file = configs_folder() / f"model/{variant.name}.yaml"
        yield from (f"`configs/model/{variant.name}.yaml`, all that makes it this method:", "")
        yield from ("```yaml", file.read_text().rstrip(), "```", "")
        yield from ("```", f"lit-ios fit --data CP1 --model {variant.name}", "```", "")
        yield "Everything else has its default: [Settings](/reference/settings.md)."


class MethodLogKeys(Generated):
    """The rows of the page of log keys that a variant has in training."""

    def markdown(self) -> Iterator[str]:
        """Yield a table."""
        variant = find_variant(self.arguments[0])
        family = FAMILIES[variant.model["class_path"]]
        yield "| key | what | equation |"
        yield "|---|---|---|"
        page = (ROOT / "docs/reference/log-keys.md").read_text()
        for line in page.splitlines():
            cells = [part.strip() for part in line.strip("|").split("|")]
            if not line.startswith("| `train/") or cells[0].startswith("`train/policy"):
                continue
            if cells[3] == "all" or family in cells[3].split(", "):
                yield f"| {cells[0]} | {cells[1]} | {cells[2]} |"
        yield from (
            "",
            "Schedules and metrics are the same for all: [Log keys](/reference/log-keys.md).",
        )


@cache
def rows() -> tuple[Row, ...]:
    """Return every run of the benchmark."""
    return tuple(read_rows(RESULTS))


class MethodResults(Generated):
    """Balanced accuracy on test paths, beside the paper's and the limit."""

    def markdown(self) -> Iterator[str]:
        """Yield a table."""
        name = self.arguments[0]
        known = [row for row in rows() if row["variant"] == name]
        if not known:
            yield (
                "No runs on the seeds that chose nothing yet: [auto](/methods/auto.md) has them, "
                "with this as one of its candidates."
            )
            return
        table = summarise(known, "balanced_accuracy", DATA_SETS, LABELS)
        paper: Mapping[str, tuple[float, float]] = dict(
            zip(published.DATA_SETS, published.BALANCED_ACCURACY.get(name, ()), strict=False)
        )
        auto = summarise(
            [row for row in rows() if row["variant"] == "auto"],
            "balanced_accuracy",
            DATA_SETS,
            LABELS,
        )
        columns = ["data", LABELS[name]]
        columns += ["the paper's"] if paper else []
        columns += ["auto"] if name != "auto" else []
        columns += ["limit", "seeds"]
        yield "| " + " | ".join(columns) + " |"
        yield "|---" * len(columns) + "|"
        for data in table.datasets:
            cell = table.cells[data, name]
            cells = [data, write(cell)]
            if paper:
                cells.append(
                    f"{paper[data][0]:.3f} ± {paper[data][1]:.2f}" if data in paper else ""
                )
            if name != "auto":
                cells.append(write(auto.cells[data, "auto"]) if data in auto.datasets else "")
            cells.append(f"{published.LIMIT[data]:.3f}" if data in published.LIMIT else "")
            yield "| " + " | ".join([*cells, str(cell.seeds)]) + " |"
        yield ""
        yield (
            "Balanced accuracy on test paths, mean ± 2 standard deviations over seeds that chose "
            "nothing. *Limit*: the rule that knows the process. `python -m benchmarks.paper "
            f"--first-seed 20 --variants {name}` makes these rows; more in "
            "[Results](/results.md)."
        )


def write(cell: Cell) -> str:
    """Write a mean with its spread."""
    return f"{cell.mean:.3f}" + (f" ± {cell.spread:.2f}" if cell.spread == cell.spread else "")


class Score(SphinxRole):
    """{score}`do_iqs_lb fatigue`: a mean balanced accuracy, as the results have it."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the number."""
        method, data = self.text.split()
        known = [
            float(row["balanced_accuracy"])
            for row in rows()
            if row["variant"] == method and row["dataset"] == data
        ]
        return [nodes.Text(f"{sum(known) / len(known):.3f}".removeprefix("0"))], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_role("score", Score())
    app.add_directive("method-settings", MethodSettings)
    app.add_directive("method-log-keys", MethodLogKeys)
    app.add_directive("method-results", MethodResults)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
