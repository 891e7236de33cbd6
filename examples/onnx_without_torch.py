"""A rule where there is no PyTorch: exported to ONNX, run by NumPy and onnxruntime.

The file holds everything between raw columns and a decision: encoding, lags, scaling, memory,
members and threshold. `lit_ios.runtime` runs it; any other ONNX runtime can, since every file has
the same signature (docs/policy.md).

    pip install 'lit-ios[onnx,runtime]'
    python examples/onnx_without_torch.py
"""

import subprocess
import sys

import numpy as np

DEVICE = """
import sys
for absent in ("torch", "pytorch_lightning"):
    sys.modules[absent] = None  # as where they are not installed: importing them is an error

from lit_ios import runtime

rule = runtime.load("valve.onnx")
stream = rule.stream()
for opened, leak in [(0, 0.1), (40, 0.8), (90, 1.9), (130, 3.2)]:
    decision = stream.step({"leak": leak, "maker": "acme"}, time=opened)
    print(f"after {opened} days: margin {decision.margin:+.2f}", "stop" if decision.stop else "")
print("saved for the next start:", len(stream.state()["carry"]), "numbers")
"""


def valves(count=100):
    """Return a table of valves that leak more and more, as columns."""
    rng = np.random.default_rng(0)
    table = {"valve": [], "day": [], "leak": [], "maker": []}
    for valve in range(count):
        maker = str(rng.choice(["acme", "other"]))
        days = np.cumsum(rng.uniform(5, 15, 30)).round(1)
        leak = np.cumsum(rng.exponential(0.2 if maker == "acme" else 0.3, 30))
        worn = leak > 3 + rng.normal(0, 0.3)
        rows = int(np.argmax(worn)) + 1 if worn.any() else 30
        for row in range(rows):
            for name, value in zip(table, (valve, days[row], leak[row], maker), strict=True):
                table[name].append(value)
    return table


def main():
    """Train, export, and use the file in a process without PyTorch."""
    import lit_ios

    rule = lit_ios.fit(
        valves(), path="valve", time="day", keep=["maker"], quick=True, epochs=6, progress=False
    )
    print("written to", rule.export("valve.onnx"))
    subprocess.run([sys.executable, "-c", DEVICE], check=True)


if __name__ == "__main__":
    main()
