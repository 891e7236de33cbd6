"""A live path that outlives its process.

Rows of a machine arrive one by one. After each the stream is saved, a few numbers of plain JSON;
the process ends in the middle, as machines do, and the next one goes on as if nothing had happened.

    python examples/live_stream.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from lit_ios import StoppingPolicy

RULE, STATE = "machine.ckpt", Path("machine.json")


def train():
    """Learn from machines whose damage nobody sees; return the loads of one more."""
    import pytorch_lightning as pl  # only where something is learnt: a rule in use needs none of it

    from datamodules import FatigueData
    from lit_ios.modules import IQS

    data = FatigueData(paths=80, test_paths=10, oversampling="bootstrap")
    model = IQS.for_data(data, memory="accumulate")
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = pl.Trainer(max_epochs=8, accelerator="cpu", num_sanity_val_steps=0, **quiet)
    trainer.fit(model, data)
    trainer.save_checkpoint(RULE)
    path = data.splits.test[0]
    return path.states[:, 0].tolist()


def follow(loads):
    """Take rows from where the saved stream ended; leave without a word after half of them."""
    policy = StoppingPolicy.load(RULE)
    saved = json.loads(STATE.read_text()) if STATE.exists() else None
    stream = policy.stream(None if saved is None else saved["stream"])
    seen = 0 if saved is None else saved["rows"]
    for row in range(seen, len(loads)):
        decision = stream.step([loads[row]])
        # the new state replaces the old one whole: a kill leaves one of the two
        new = STATE.with_suffix(".new")
        new.write_text(json.dumps({"rows": row + 1, "stream": stream.state()}))
        new.replace(STATE)
        print(f"row {row}: margin {decision.margin:+.3f}{', stop' if decision.stop else ''}")
        if decision.stop:
            return
        if saved is None and row + 1 >= len(loads) // 2:
            sys.stdout.flush()
            os._exit(1)  # no cleaning up


if __name__ == "__main__":
    if sys.argv[1:] == ["follow"]:
        follow(json.loads(Path("loads.json").read_text()))
    else:
        Path("loads.json").write_text(json.dumps(train()))
        STATE.unlink(missing_ok=True)
        for attempt in ("first", "second"):
            print(f"the {attempt} process")
            subprocess.run([sys.executable, __file__, "follow"])
