"""`fit … --on ray`: one training whose processes are workers of Ray Train.

Every worker runs the same command line with `configs/ray.yaml` on top. They must find the data and
the folder of runs under the same names: on several machines, on a shared disk.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

from lit_ios.checks import UserError
from lit_ios.scale.tasks import Place, connect, import_ray
from lit_ios.settings import gather_options
from lit_ios.variants import configs_folder

OPTIONS = ("--on", "--workers", "--address")


class EndedError(Exception):
    """A worker ended as the program ends, with this code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def take_place(words: list[str]) -> tuple[Place | None, list[str]]:
    """Take `--on ray --workers N --address A` out of a command line: (place, others)."""
    given = {}
    others = words
    for option in OPTIONS:
        values, others = gather_options(others, option)
        if values:
            given[option] = values[-1]
    if not given:
        return None, words
    if words[0] != "fit":
        raise UserError(f"{next(iter(given))} goes with fit, and with predict on a folder")
    if given.get("--on") != "ray":
        raise UserError(
            "fit takes --on ray, with --workers N; processes of this machine are --trainer.devices "
            "N"
        )
    workers = given.get("--workers", "1")
    if not workers.isdecimal() or int(workers) < 1:
        raise UserError(f"--workers must be a positive integer, got {workers}")
    return Place("ray", int(workers), given.get("--address")), others


def fit_on_ray(words: list[str], place: Place, program: str) -> None:
    """Train on workers of Ray Train.

    Args:
        words: of the command line, written out.
        place: the cluster, and how many workers.
        program: as the user calls it.
    """
    ray = import_ray()
    try:
        from ray.train import RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer
        from ray.train.v2.api.exceptions import WorkerGroupError
        from ray.util.queue import Queue
    except ImportError:
        raise UserError("Ray Train is not installed: pip install 'lit-ios[ray]'") from None
    accelerators, _ = gather_options(words, "--trainer.accelerator")
    on_gpu = accelerators[-1:] in (["gpu"], ["cuda"])
    config: dict[str, Any] = {"words": words, "folder": str(Path.cwd()), "program": program}
    own = not ray.is_initialized()
    if own:
        os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")  # prints everything twice
        connect(ray, place)
    config["printed"] = printed = Queue(actor_options={"num_cpus": 0})
    showing = threading.Thread(target=_show, args=(printed,), daemon=True)
    showing.start()
    try:
        TorchTrainer(
            _train,
            train_loop_config=config,
            scaling_config=ScalingConfig(num_workers=place.processes, use_gpu=on_gpu),
            run_config=RunConfig(name="lit-ios", storage_path=str(_storage())),
        ).fit()
    except WorkerGroupError as error:
        raise _own_error(list(error.worker_failures.values())) from None
    finally:
        printed.put(None)
        showing.join(timeout=10)
        if own:
            ray.shutdown()


def _show(printed: Any) -> None:
    """Print what the first worker prints."""
    while (text := printed.get()) is not None:
        print(text, end="", flush=True)


class _Printed(io.TextIOBase):
    """Sends what a worker prints to where the command was given; that of one of them is enough."""

    def __init__(self, queue: Any, first: bool) -> None:
        self.queue, self.first = queue, first

    def write(self, text: str) -> int:
        if self.first and text:
            self.queue.put(text)
        return len(text)


def _storage() -> Path:
    """Return where Ray Train keeps its own notes, of which a run needs none."""
    return Path(tempfile.gettempdir(), "lit-ios-ray")


def _own_error(found: list[Any]) -> BaseException:
    """Return the error of ours among those of workers, if there is one."""
    causes = [getattr(error, "cause", None) or error for error in found]
    for error in causes:
        if isinstance(error, UserError):
            return UserError(str(error))
        if isinstance(error, EndedError):
            return SystemExit(error.code)
    reason = (str(causes[0]).splitlines() or [type(causes[0]).__name__])[-1]
    return UserError(f"a worker of Ray failed: {type(causes[0]).__name__}: {reason}")


def _train(config: dict[str, Any]) -> None:
    """Carry out the command line in a worker."""
    import ray.train

    from lit_ios.program.start import show_warning
    from lit_ios.program.training import carry_out

    warnings.showwarning = show_warning  # type: ignore[assignment]
    try:
        os.chdir(config["folder"])
    except OSError as error:
        raise UserError(f"{config['folder']} is not there on every machine: {error}") from None
    words = [*config["words"], f"--config={configs_folder() / 'ray.yaml'}"]
    printed = _Printed(config["printed"], ray.train.get_context().get_world_rank() == 0)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            carry_out(words, config["program"])
    except SystemExit as end:
        raise EndedError(end.code if isinstance(end.code, int) else 1) from None
