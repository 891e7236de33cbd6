"""Work beyond one core: tasks on processes or on a Ray cluster, folders larger than memory."""

from lit_ios.scale.calibrations import calibrate_folder
from lit_ios.scale.folders import FolderDecided, predict_folder
from lit_ios.scale.tasks import Place, results

__all__ = ["FolderDecided", "Place", "calibrate_folder", "predict_folder", "results"]
