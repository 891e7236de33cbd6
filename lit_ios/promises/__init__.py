"""What a threshold is to keep on fresh paths: small objects that can be combined."""

from lit_ios.promises.alarms import AlarmsPerTime
from lit_ios.promises.base import Promise
from lit_ios.promises.costs import Balanced, Cost
from lit_ios.promises.rates import FalseAlarms, MissRate
from lit_ios.promises.sweep import Sweep

__all__ = ["AlarmsPerTime", "Balanced", "Cost", "FalseAlarms", "MissRate", "Promise", "Sweep"]
