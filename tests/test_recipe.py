"""What auto and tune refuse to compare."""

from types import SimpleNamespace

import numpy as np
import pytest

from lit_ios.checks import UserError
from lit_ios.recipe import check_folds, check_stops


def data(stops, folds):
    return SimpleNamespace(
        splits=SimpleNamespace(train=SimpleNamespace(stopped=np.arange(30) < stops)), folds=folds
    )


@pytest.mark.parametrize("folds", [2, 4])
def test_every_fold_needs_two_stops(folds):
    check_stops(data(2 * folds, folds), "auto")
    few = data(2 * folds - 1, folds)
    with pytest.raises(UserError, match=f"needs two stopped paths in each, {2 * folds} beside"):
        check_stops(few, "auto")
    with pytest.raises(UserError, match="folds 2" if folds == 4 else "give more, or name a model"):
        check_stops(few, "auto", ", or name a model")


@pytest.mark.parametrize(("margin", "folds"), [("zero", 4), ("validated", None)])
def test_without_folds_or_a_validated_margin_nothing_is_compared(margin, folds):
    check_folds(SimpleNamespace(hparams={"margin": "validated"}), data(9, 4), "tune", "score")
    model = SimpleNamespace(hparams={"margin": margin})
    with pytest.raises(UserError, match="tune needs margin: validated and folds, to score"):
        check_folds(model, data(9, folds), "tune", "score")
