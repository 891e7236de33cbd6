"""Every figure is fit for a talk: text that is read at half size, named axes, few colours."""

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from policy.policies import make_policy, random_paths

from lit_ios import plotting
from lit_ios.plotting.style import COLOURS, SMALL, STYLE, styled
from lit_ios.report import figures as of_reports

TIME = np.arange(6.0)
PATH = plotting.PathMargins("a", TIME, TIME - 3, stopped=True, policy_stop=3)
CENSORED = plotting.PathMargins("b", TIME, TIME - 9, stopped=False, policy_stop=None)
HIDDEN = plotting.HiddenPath("a", TIME, TIME, TIME**2, TIME**2 + 1, stopped=True, policy_stop=2)
GRID = np.linspace(-2, 2, 9)
MARGIN = 1 - np.add.outer(GRID**2, GRID**2)
EARLY = np.array([0.0, 1.0, 2.0, np.nan, 1.0])
ALONG = of_reports.Along(PATH, TIME / 9, 5 - TIME, 3 - TIME)


def frontier_figure():
    curve = make_policy().frontier(random_paths(40), draws=10)
    return plotting.frontiers({"one": curve, "two": curve}, "days", misses=0.1, alarms=0.2)


def tune_figures():
    pytest.importorskip("optuna", reason="the extra tune is not installed")
    from lit_ios.tune.figures import importance_figure

    return importance_figure({"learning_rate": 0.7, "memory": 0.2}, 12)


FIGURES = {
    "margins": lambda: plotting.margins_along_paths([PATH, CENSORED], -1.0, unit="days"),
    "hidden": lambda: plotting.hidden_along_paths([HIDDEN, HIDDEN], "load", "damage", "title"),
    "features": lambda: plotting.feature_paths(random_paths(), [1, 0], unit="days"),
    "heat maps": lambda: plotting.q_heat_maps(
        GRID, GRID, np.stack([MARGIN, -MARGIN], -1), truth=MARGIN, time=3.0, unit="days"
    ),
    "boundaries": lambda: plotting.boundaries(
        GRID, GRID, np.stack([MARGIN] * 30), np.arange(30.0), truth=np.stack([MARGIN] * 30)
    ),
    "frontier": frontier_figure,
    "explanation": lambda: make_policy("do_iqs_lb", lags=2).explain([1.0, -1.0]).figure(),
    "evidence": lambda: plotting.evidence({"margins": ([0.1, 0.5, 2.0], 1.3)}),
    "importance": tune_figures,
    "stop times": lambda: of_reports.stop_times(EARLY, EARLY[:3], EARLY, "days"),
    "early stops": lambda: of_reports.early_stops(EARLY, "days"),
    "along paths": lambda: of_reports.along_paths([ALONG, ALONG], 0.0, None, "days"),
    "curves": lambda: of_reports.training_curves({"loss": (TIME, TIME)}, 3.0),
}


@pytest.fixture(params=FIGURES)
def figure(request):
    """Return a drawn figure of each kind."""
    made = FIGURES[request.param]()
    made.canvas.draw()
    return made


def panels(figure):
    return [a for a in figure.axes if a.get_visible() and a.get_label() != "<colorbar>"]


def test_text_can_be_read_at_half_size(figure):
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip()]
    assert texts
    for text in texts:
        assert text.get_fontsize() >= SMALL, text.get_text()
    for axes in panels(figure):
        width = axes.get_position().width * figure.get_figwidth()
        assert width > 2, "a panel narrower than two inches holds no text of this size"


def test_every_axis_is_named(figure):
    drawn = panels(figure)
    assert any(a.get_xlabel() for a in drawn)
    for axes in drawn:
        shared = [a for a in drawn if a.get_shared_x_axes().joined(a, axes)]
        below = [a for a in drawn if a.get_position().x0 == axes.get_position().x0]
        assert any(a.get_xlabel() for a in {*shared, *below}), axes.get_title()


def test_lines_are_of_the_palette_or_grey_or_a_map_of_values(figure):
    for axes in panels(figure):
        for line in axes.get_lines():
            colour = to_hex(line.get_color()).upper()
            grey = colour[1:3] == colour[3:5] == colour[5:7]
            assert grey or colour in COLOURS, colour


def test_the_palette_is_told_apart_without_red_and_green():
    """Under deuteranopia (Viénot, Brettel and Mollon 1999), any two colours stay distinct."""
    confuse = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
    colours = np.array([mpl.colors.to_rgb(colour) for colour in COLOURS])
    linear = np.where(colours <= 0.04045, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ confuse.T, 0, 1) ** (1 / 2.2)
    distance = np.linalg.norm(seen[:, None] - seen[None], axis=-1)
    assert distance[np.triu_indices(len(seen), 1)].min() > 0.15


def test_the_style_is_that_of_our_figures_alone(monkeypatch):
    before = dict(mpl.rcParams)
    monkeypatch.setitem(mpl.rcParams, "font.size", 3.0)

    @styled
    def draw():
        figure = Figure()
        figure.subplots().set_title("a")
        return figure

    figure = draw()
    figure.canvas.draw()
    (axes,) = figure.axes
    assert axes.title.get_fontsize() == STYLE["axes.titlesize"]
    assert {label.get_fontsize() for label in axes.get_xticklabels()} == {SMALL}
    assert mpl.rcParams["axes.titlesize"] == before["axes.titlesize"]


def test_units_stand_beside_their_axes():
    for name in ("margins", "features", "stop times", "early stops", "along paths", "frontier"):
        drawn = panels(FIGURES[name]())
        labels = [a.get_xlabel() for a in drawn] + [a.get_ylabel() for a in drawn]
        assert any("(days)" in label for label in labels), name


def test_what_is_promised_is_seen_wherever_it_lies():
    curve = make_policy().frontier(random_paths(40), draws=10)
    right = plotting.frontiers({"one": curve}, misses=0.1, alarms=0.99).axes[1]
    low, high = right.get_ylim()
    assert low == 0
    assert high > 0.99
    ends = [line.get_ydata() for line in right.get_lines()]
    assert any(np.allclose(line, 0.99) for line in ends)


def test_few_enough_boundaries_are_drawn_to_be_told_apart():
    true, recovered = panels(FIGURES["boundaries"]())
    assert len(true.collections) == len(recovered.collections) <= 12


def test_text_columns_are_drawn_with_their_categories():
    from dataclasses import replace

    paths = random_paths()
    codes = np.column_stack([paths.states[:, 0], paths.path_of_row % 2])
    paths = replace(paths.with_states(codes), categories={"b": ("no", "yes")})
    (axes,) = plotting.feature_paths(paths, [1]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["no", "yes"]
