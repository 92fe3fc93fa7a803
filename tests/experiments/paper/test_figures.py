import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from atlas_splines import Atlas, gradient_norm
from atlas_splines.experiments.paper import figures, report

WIDTHS = [round(0.1 * k, 1) for k in range(1, 10)]
MAIN_MODELS = ["finest", "all", "rehearsal", "charts"]


def row(experiment, inputs, width, trial, model, error, **more):
    """One row of the table, with curves that end at the error."""
    curve = list(error * np.linspace(2, 1, 5))
    trained = model in ("finest", "all")
    return {
        "experiment": experiment,
        "inputs": inputs,
        "width": width,
        "trial": trial,
        "model": model,
        "learning_rate": 0.005,
        "noise": 0.5 + 0.1 * trial,
        "training_1": curve,
        "validation_1": curve,
        "training_2": curve if trained else [],
        "validation_2": curve if trained else [],
        "task1_noisy": error,
        "task1_clean": error / 2,
        "test_noisy": error,
        "test_clean": error / 2,
        "test_inside": error / 4,
        "test_outside": error / 2,
        "stage_clean": [],
        "seconds": 1.0,
        **more,
    }


def main_rows(trials=2):
    """The guarantee's error follows 1 + 8(δ − δⁿ) exactly; other models are multiples of it."""
    factor = {"finest": 1.0, "all": 2.0, "rehearsal": 0.5, "charts": 0.25}
    return [
        row("main", n, width, trial, model, factor[model] * (1 + 8 * (width - width**n)))
        for n in (1, 2, 8)
        for width in WIDTHS
        for trial in range(trials)
        for model in MAIN_MODELS
    ]


def appendix_rows(trials=2):
    rows = []
    for letter in "ABCD":
        for trial in range(trials):
            for model, error in (("finest", 0.4), ("charts", 0.05)):
                curve = list(np.linspace(0.6, 0.1, 150))
                stages = [0.6, 0.4, 0.2, 0.05, 0.1]
                made = row(letter, 2, 0.1, trial, model, error, noise=0.1, stage_clean=stages)
                rows.append(made | {"training_1": curve, "validation_1": curve})
    return rows


def make_pictures():
    random = np.random.default_rng(0)
    names = ["target_1", "target_2"] + [f"{m}_{k}" for m in MAIN_MODELS for k in (1, 2)]
    pictures = {f"main/{name}": random.normal(size=(100, 100)) for name in names}
    pictures["main/box"] = np.array([[0.2, 0.5], [0.6, 0.9]])
    pictures["main/charts_2"] = pictures["main/finest_1"].copy()
    pictures["main/charts_2"][25:45, 65:85] += 1  # inside the box only
    stages = [f"stage_{k}" for k in range(5)]
    for letter in "ABCD":
        for name in ["target_1", "target_2", *stages, "finest_2", "charts_2"]:
            pictures[f"{letter}/{name}"] = random.normal(size=(100, 100))
    return pictures


@pytest.fixture(scope="module")
def results():
    return pd.DataFrame(main_rows() + appendix_rows())


@pytest.fixture(scope="module")
def pictures():
    return make_pictures()


def drawn(name, results, pictures):
    """Draw a figure completely: layout and text can fail as late as that."""
    figure = figures.FIGURES[name](results, pictures)
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


@pytest.mark.parametrize("name", figures.FIGURES)
def test_every_figure_draws_and_has_a_title(name, results, pictures):
    figure = drawn(name, results, pictures)
    assert re.search(r"\d", title(figure)), "a title states a finding with a number"
    assert figure.get_size_inches()[0] == figures.WIDTH
    box = figure._suptitle.get_window_extent()
    assert box.x1 <= figure.bbox.width, "a title ends inside the figure"


@pytest.mark.parametrize("name", FROM_DATA)
@pytest.mark.parametrize("part", PARTIAL.values(), ids=PARTIAL.keys())
def test_partial_runs_are_drawn_as_far_as_they_go(name, part, results, pictures):
    table = part(results)
    only_a = {k: v for k, v in pictures.items() if k.startswith("A/")}
    for some in (pictures, only_a, {}):
        figure = figures.FIGURES[name](table, some)
        said = title(figure) + " ".join(text.get_text() for text in figure.texts)
        assert said.strip(), "a figure says what it shows, or that there is nothing to show"
    FigureCanvasAgg(figure).draw()


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
    assert f"{figures.number(2 * expected)} to {figures.number(expected)} (n = 2)" in first
    without = title(drawn("task-2-validation-without", results, pictures))
    assert f"{figures.number(4 * expected)} to {figures.number(2 * expected)} (n = 2)" in without


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


def test_outside_leaves_out_the_box():
    apart = figures.outside(np.array([[0.2, 0.5], [0.6, 0.9]]), 100)
    assert not apart[30, 70]
    assert apart[70, 30]
    assert (~apart).sum() == 30 * 30


# --- the fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [2, 8])
def test_the_fit_recovers_known_coefficients(inputs):
    width = np.array(WIDTHS)
    fit = figures.fit_off_target(width, 1.5 - 4 * (width - width**inputs), inputs)
    np.testing.assert_allclose(fit, (1.5, -4, 1, -1), rtol=1e-9)
    np.testing.assert_allclose(fit(width, inputs), 1.5 - 4 * (width - width**inputs))


def test_the_fit_measures_agreement():
    width, random = np.array(WIDTHS), np.random.default_rng(0)
    error = 2 + 3 * (width - width**2) + 0.2 * random.normal(size=width.size)
    fit = figures.fit_off_target(width, error, 2)
    assert 0 < fit.r2 < 1
    assert fit.r2 == pytest.approx(fit.correlation**2)  # as for every line with an offset


@pytest.mark.parametrize(
    ("width", "error", "inputs"),
    [(WIDTHS, np.arange(9.0), 1), ([0.3, 0.7], [1.0, 3.0], 2), ([0.1, 0.2, 0.3], [2.0, 2.0, 2.0], 2)],
)
def test_a_fit_without_meaning_is_a_constant(width, error, inputs):
    fit = figures.fit_off_target(np.array(width), np.array(error), inputs)
    assert fit.offset == np.mean(error)
    assert fit.slope == 0
    assert np.isnan([fit.r2, fit.correlation]).all()


def test_means_do_not_depend_on_how_a_width_is_rounded():
    rows = [row("main", 2, width, 0, "finest", 1.0) for width in (0.3, 0.1 * 3)]
    means = figures.mean_errors(pd.DataFrame(rows))
    assert list(means["count"]) == [2]


# --- the theory ------------------------------------------------------------------------------------------


def test_bounds_are_in_order_for_any_coefficients():
    random = np.random.default_rng(0)
    model, X = Atlas(2, density=1, dtype="float64"), random.random((500, 2))
    model.table[:] = 0.3 * random.normal(size=model.table.shape)
    sizes = figures.gradient_sizes(model, X)
    assert sizes.exact == gradient_norm(model, X).max()
    assert sizes.exact <= sizes.bound <= sizes.paper / 16


def test_dense_adam_leaves_its_reach_and_lazy_adam_does_not():
    _, dense, far = figures.optimizer_reach("adam")
    _, lazy, _ = figures.optimizer_reach("lazy-adam")
    assert dense[far].max() > 0.001
    assert not lazy[far].any()
    assert lazy[~far].max() > 0.5


def test_the_threshold_figure_shows_the_counterexample(results, pictures):
    assert "overlap by 0.00116" in title(drawn("differences-threshold", results, pictures))


# --- the page --------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Collects what a browser would load, and checks that tags are closed."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.ids, self.open = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.loaded += [named[k] for k in ("src", "srcset", "data") if k in named]
        self.loaded += [named["href"]] if tag == "link" else []
        self.links += [named["href"]] if tag == "a" else []
        self.ids += [named["id"]] if "id" in named else []
        if tag not in ("meta", "img", "link", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory, results, pictures):
    facts = {"version": "1.2 <b>&amp;", "total time": 'a "minute" & more'}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return report.write_report(tmp_path_factory.mktemp("out") / "new", results, pictures, facts)


@pytest.fixture(scope="module")
def text(written):
    return written.read_text(encoding="utf8")


def test_captions_and_figures_are_the_same():
    assert list(report.CAPTIONS) == list(figures.FIGURES)


def test_the_page_has_every_figure_in_order(written, text):
    page = Page(text)
    assert not page.open
    assert [i for i in page.ids if i in figures.FIGURES] == list(figures.FIGURES)
    assert len(set(page.ids)) == len(page.ids)
    assert len(page.loaded) == len(figures.FIGURES)
    for name in figures.FIGURES:
        for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
            path = written.parent / "figures" / f"{name}.{kind}"
            assert path.read_bytes().startswith(start)
            assert f"figures/{name}.{kind}" in page.links


def test_the_page_loads_nothing(text):
    page = Page(text)
    assert all(source.startswith("data:image/png;base64,") for source in page.loaded)
    assert not [link for link in page.links if not link.startswith(("#", "figures/"))]
    assert "http" not in re.sub(r"base64,[^\"]*", "", text)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)


def test_the_page_escapes_what_it_is_given(text):
    assert "1.2 &lt;b&gt;&amp;amp;" in text
    assert "a &quot;minute&quot; &amp; more" in text
    assert "<b>&amp;" not in text


def test_the_page_states_findings(text):
    assert "lower than without in 27 of 27 cells" in text
    assert "R² = 1.00, correlation 1.00 (n = 8, noisy)" in text
    assert (
        "With charts the clean test error on Task 2 is lower than with the guarantee alone in 27 of 27"
        in text
    )
    assert "A 0.2 and 0.025" in text


def test_the_table_has_a_mean_for_each_cell(text):
    tables = re.findall(r"<table><caption>Mean test MAE.*?</table>", text, re.S)
    assert len(tables) == 2
    rows = re.findall(r"<tr>(<td>.*?)</tr>", tables[0], re.S)
    assert len(rows) == 3 * 4
    cells = re.findall(r"<td>(.*?)</td>", rows[5])
    assert cells[:2] == ["2", "without the guarantee"]
    expected = [2 * (1 + 8 * (width - width**2)) for width in WIDTHS]
    assert cells[2:] == [f"{value:.2f}" for value in expected]


def test_the_page_has_evidence_for_each_difference(text):
    for evidence in ("0.00115625", "5,208", "3.875 times", "0.0100", "the largest change is 0"):
        assert evidence in text


def test_a_page_of_nothing_is_written(tmp_path, results):
    path = report.write_report(tmp_path, results[:0], {}, {})
    content = path.read_text(encoding="utf8")
    assert not Page(content).open
    assert "No trials are in this run yet." in content
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figures", "report.html"]


def test_the_same_results_make_the_same_files(tmp_path, results, pictures):
    for name in ("a", "b"):
        figure = figures.FIGURES["test-error-by-width"](results, pictures)
        report.save_figure(figure, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
