"""From a CSV file to a rule with a promise.

Pumps wear. Some were taken out of service by a mechanic, others were still running when the
records end. The table has gaps, a text column and the outcome in words. We learn when the mechanic
stops, choose a threshold that misses at most one stop in ten, and decide on pumps that still run.

    python examples/own_table.py
"""

import csv

import numpy as np

import lit_ios

COLUMNS = ["pump", "day", "vibration", "heat", "site", "status"]


def write_pumps(file, pumps, seed, running=False):
    """Write a table of pumps, one row per pump and day; status stands on the last row of each."""
    rng = np.random.default_rng(seed)
    with open(file, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for pump in range(pumps):
            site = str(rng.choice(["north", "harbour"]))
            wear, lasts = 0.0, rng.integers(10, 50)
            for day in range(50):
                wear += rng.exponential(0.15 if site == "harbour" else 0.1)
                worn = wear > 3 + rng.normal(0, 0.1)
                vibration = "" if rng.random() < 0.05 else f"{wear + rng.normal(0, 0.2):.3f}"
                heat = f"{50 + 5 * wear + rng.normal(0, 1):.2f}"
                ends = day == lasts or day == 49
                status = "worn" if worn else "running" if ends else ""
                writer.writerow([f"{seed}-{pump}", day, vibration, heat, site, status])
                if ends or (worn and not running):
                    break


def main():
    """Fit, calibrate, predict."""
    write_pumps("pumps.csv", 150, seed=1)
    rule = lit_ios.fit(
        "pumps.csv", path="pump", time="day", stop="status", stop_value="worn", missing="impute",
        keep=["site"],  # known when a pump is installed; whatever else never changes is asked about
        quick=True, epochs=12, progress=False,
    )  # fmt: skip
    print(rule)

    # Paths the rule has not seen choose a threshold, and with it comes a promise.
    write_pumps("fresh.csv", 80, seed=2)
    made = rule.calibrate("fresh.csv", max_event_miss_rate=0.1)
    print("promised:", "; ".join(made.words))
    print(f"false alarms on these pumps: {made.false_alarm_rate.value:.0%}")
    rule.save("pumps.ckpt")

    # Every row of new pumps gets a decision; a table in, a table out.
    write_pumps("new.csv", 5, seed=3, running=True)
    decisions = rule.predict("new.csv").to_pylist()
    for pump in dict.fromkeys(row["pump"] for row in decisions):
        stops = [row["day"] for row in decisions if row["pump"] == pump and row["first_stop"]]
        print(f"pump {pump}:", f"service it on day {stops[0]}" if stops else "goes on")


if __name__ == "__main__":
    main()
