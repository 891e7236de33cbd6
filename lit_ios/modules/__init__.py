"""The LightningModules: four classes, ten variants, and a rival."""

from lit_ios.modules.base import StoppingModule
from lit_ios.modules.classifier import Classifier
from lit_ios.modules.do_iqs import DOIQS
from lit_ios.modules.iqs import IQS
from lit_ios.modules.model_based import ModelBasedIQS
from lit_ios.modules.survival import RecurrentSurvival
from lit_ios.modules.views import View

__all__ = [
    "DOIQS",
    "IQS",
    "Classifier",
    "ModelBasedIQS",
    "RecurrentSurvival",
    "StoppingModule",
    "View",
]
