import re

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from atlas_splines.experiments.drawings import save_figure
from atlas_splines.experiments.paper.figures import DRAWINGS
from atlas_splines.experiments.paper.results import TrialResults
from atlas_splines.experiments.style import WIDTH, number

pytestmark = pytest.mark.slow

BY_NAME = {drawing.name: drawing for drawing in DRAWINGS}


def drawn(name, results, pictures):
    """Draw a figure completely: layout and text can fail as late as that."""
    figure = BY_NAME[name].figure(TrialResults(results, pictures))
    FigureCanvasAgg(figure).draw()
    return figure


def title(figure):
    return re.sub(r"\s", " ", figure.get_suptitle())


FROM_DATA = [
    *(
        "task-1-validation",
        "task-2-validation-with",
        "test-error-by-width",
        "test-error-by-width-with-charts",
    ),
    *("experiment-a-training", "experiment-a-expansions", "experiments-a-to-d-with-charts"),
]
PARTIAL = {
    "nothing": lambda table: table[:0],
    "one row": lambda table: table[:1],
    "no n = 1": lambda table: table[table["inputs"] != 1],
    "only A": lambda table: table[table["experiment"] == "A"],
    "no charts": lambda table: table[table["model"] != "charts"],
    "two widths of n = 8": lambda table: table[(table["inputs"] == 8) & (table["width"] < 0.25)],
    "uneven trials": lambda table: table[(table["trial"] == 0) | (table["width"] > 0.5)],
}


@pytest.mark.parametrize("name", BY_NAME)
def test_every_figure_draws_and_has_a_title(name, results, pictures):
    figure = drawn(name, results, pictures)
    assert re.search(r"\d", title(figure)), "a title states a finding with a number"
    assert figure.get_size_inches()[0] == WIDTH
    box = figure._suptitle.get_window_extent()
    assert box.x1 <= figure.bbox.width, "a title ends inside the figure"


@pytest.mark.parametrize("name", FROM_DATA)
@pytest.mark.parametrize("part", PARTIAL.values(), ids=PARTIAL.keys())
def test_partial_runs_are_drawn_as_far_as_they_go(name, part, results, pictures):
    table = part(results)
    only_a = {k: v for k, v in pictures.items() if k.startswith("A/")}
    for some in (pictures, only_a, {}):
        figure = BY_NAME[name].figure(TrialResults(table, some))
        said = title(figure) + " ".join(text.get_text() for text in figure.texts)
        assert said.strip(), "a figure says what it shows, or that there is nothing to show"
    FigureCanvasAgg(figure).draw()


def test_every_figure_has_a_name_of_its_own_and_words():
    assert len(BY_NAME) == len(DRAWINGS) == 31
    for drawing in DRAWINGS:
        assert drawing.title
        assert drawing.beside
        assert drawing.caption.endswith(".")
        assert drawing.section in ("paper", "ours", "differences")


def test_a_figure_without_data_says_so(results):
    figure = drawn("inspection-2d", results, {})
    assert "not in this run" in figure.texts[0].get_text()


def test_curves_may_be_arrays_as_a_file_gives_them(results, pictures):
    table = results.copy()
    for column in ("training_1", "validation_1", "training_2", "validation_2", "stage_clean"):
        table[column] = [np.array(curve) for curve in table[column]]
    for name in ("task-1-validation", "experiment-a-training", "experiment-a-expansions"):
        assert title(drawn(name, table, pictures)) == title(drawn(name, results, pictures))


# --- findings are computed -------------------------------------------------------------------------------


def test_titles_follow_the_data(results, pictures):
    by_width = title(drawn("test-error-by-width", results, pictures))
    assert "lower mean error in 27 of 27 cells" in by_width
    assert "R² = 1.00 (n = 2)" in by_width
    worse = results.copy()
    swap = (worse["model"] == "all") & (worse["width"] < 0.35)
    worse.loc[swap, "test_noisy"] = 0.1
    assert "in 18 of 27 cells" in title(drawn("test-error-by-width", worse, pictures))


def test_validation_titles_give_medians(results, pictures):
    first = title(drawn("task-2-validation-with", results, pictures))
    expected = 1 + 8 * (0.1 - 0.1**2)
    assert f"{number(2 * expected)} to {number(expected)} (n = 2)" in first
    without = title(drawn("task-2-validation-without", results, pictures))
    assert f"{number(4 * expected)} to {number(2 * expected)} (n = 2)" in without


def test_task_2_figures_share_their_axis(results, pictures):
    limits = [
        drawn(f"task-2-validation-{kind}", results, pictures).axes[0].get_ylim()
        for kind in ("with", "without")
    ]
    assert limits[0] == limits[1]


def test_titles_of_the_appendix(results, pictures):
    assert "lowest at r = 3 (mean of 2 trials)" in title(drawn("experiment-b-expansions", results, pictures))
    assert "is 8 (A), 8 (B), 8 (C), 8 (D)" in title(
        drawn("experiments-a-to-d-with-charts", results, pictures)
    )


def test_charts_change_nothing_outside_the_box(results, pictures):
    text = title(drawn("inspection-2d-with-charts", results, pictures))
    assert "100.0% by plain training" in text
    assert "0.0% by charts" in text


def test_panels_say_how_many_trials_they_show(results, pictures):
    panels = drawn("test-error-by-width", results, pictures).axes
    assert panels[1].get_title() == "n = 2: 2 trials a point"
    uneven = PARTIAL["uneven trials"](results)
    assert drawn("test-error-by-width", uneven, pictures).axes[1].get_title() == "n = 2: 1–2 trials a point"
    assert drawn("task-1-validation", results, pictures).axes[0].get_title() == "n = 1: 18 curves"


def test_a_map_shows_the_first_input_from_left_to_right(results, pictures):
    shown = drawn("inspection-2d", results, pictures).axes[0].images[0].get_array()
    np.testing.assert_array_equal(shown, pictures["main/target_1"].T)


def test_the_threshold_figure_shows_the_counterexample(results, pictures):
    assert "overlap by 0.00116" in title(drawn("differences-threshold", results, pictures))


def test_the_same_results_make_the_same_files(tmp_path, results, pictures):
    for name in ("a", "b"):
        figure = BY_NAME["test-error-by-width"].figure(TrialResults(results, pictures))
        save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
