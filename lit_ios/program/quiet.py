"""Silence of what tells a user nothing."""

from __future__ import annotations

import logging
import warnings

from lit_ios.metrics import MissingClassWarning


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
