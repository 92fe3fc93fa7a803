"""Streams: how they are cut, what is measured on them, and runs that go on where they were."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from atlas_splines.cli.app import app
from atlas_splines.experiments.arena import streams
from atlas_splines.experiments.arena.competition import FULL, QUICK, compete, make_competition
from atlas_splines.experiments.arena.methods import MissingPackage, find
from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.report import markdown_table, text_table
from atlas_splines.experiments.arena.stream_data import (
    BUILT_IN_STREAMS,
    Stream,
    StreamSource,
    check_stream,
    file_stream,
    make_stream,
)
from atlas_splines.experiments.arena.stream_figures import draw_streams
from atlas_splines.experiments.arena.streams import (
    follow,
    run_streams,
    stored_results,
    stream_lines,
    stream_table,
)

TINY = StreamSource("tiny", "steady", first=60, batch=20, most=150)


class LastMean(Method):
    """Predicts the mean of the part it learned last, and notes what it was asked."""

    GRID = ({}, {})

    def __init__(self, setup=None):
        self.mean, self.log = np.nan, []

    def fit(self, task):
        self.mean = task.y.mean()
        self.log.append(("fit", len(task.y)))

    def predict(self, X):
        self.log.append(("predict", len(X)))
        return np.full((len(X), 1), self.mean)

    @property
    def bytes_kept(self):
        return 8


# --- data ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", BUILT_IN_STREAMS, ids=lambda source: source.kind)
def test_drawn_streams_are_the_same_for_every_method_and_others_for_other_seeds(source):
    source = replace(source, first=100, most=400)
    stream = make_stream(source, 0)
    make_stream.cache_clear()
    again, other = make_stream(source, 0), make_stream(source, 1)
    np.testing.assert_array_equal(stream.X, again.X)
    np.testing.assert_array_equal(stream.y, again.y)
    assert not np.array_equal(stream.y, other.y)
    first = stream.beginning()
    assert first.y.mean() == pytest.approx(0, abs=1e-12)
    assert first.y.std() == pytest.approx(1)
    assert first.X.min() == 0
    assert first.X.max() == 1
    np.testing.assert_array_equal(np.vstack([task.X for task in (first, *stream.batches())]), stream.X)


def test_a_box_changes_in_the_middle_and_a_trend_turns_round():
    X, y = (getattr(make_stream(StreamSource("", "sudden", first=0), 0), name) for name in "Xy")
    box = ((X[:, :2] > 0.25) & (X[:, :2] < 0.55)).all(axis=1)
    late = np.arange(len(y)) >= 2500
    assert y[box & late].mean() - y[box & ~late].mean() > 1.5
    assert abs(y[~box & late].mean() - y[~box & ~late].mean()) < 0.3
    X, y = (getattr(make_stream(StreamSource("", "gradual", first=0), 0), name) for name in "Xy")
    slopes = [np.polyfit(X[part, 3], y[part], 1)[0] for part in (slice(0, 1000), slice(-1000, None))]
    assert slopes[0] > 1 > -1 > slopes[1]


def test_the_last_quarter_of_a_season_leaves_regions():
    stream = make_stream(StreamSource("", "seasons", most=1000), 0)  # it ends with low values of an input
    old = stream.long_ago
    assert len(old) < 750
    assert old.max() < 750
    assert stream.X[old, 0].mean() > stream.X[:750, 0].mean()


def test_rows_that_were_left_are_found_on_a_line():
    X = np.append(np.linspace(1, 2, 30), np.linspace(0, 1.2, 10))[:, None]
    found = Stream(X, X[:, 0], first=10, batch=10).long_ago
    np.testing.assert_array_equal(found, np.flatnonzero(X[:30, 0] > 1.2 + 1.2 / 9))
    assert not len(Stream(X[:1], X[:1, 0], first=1, batch=1).long_ago)


def test_files_are_put_in_order_and_scaled_by_their_first_part(tmp_path):
    path = tmp_path / "own.csv"
    rows = [f"{9 - k},{k},{10 * k},{k * k}" for k in range(10)]
    path.write_text("time,a,b,y\n" + "\n".join(rows), encoding="utf8")
    source = file_stream(path, "time", first=5, batch=2, drop=("time", "b"))
    stream = make_stream(source, 0)
    assert source.label == "own by time"
    np.testing.assert_allclose(stream.X[:, 0], (np.arange(9, -1, -1) - 5) / 4)  # from 1 down, and beyond
    assert stream.y[0] > stream.y[-1]
    as_it_stands = make_stream(replace(source, by="order"), 0)
    np.testing.assert_allclose(as_it_stands.X[:, 0], np.arange(10) / 4)
    shuffled = [make_stream(replace(source, by="random", first=0), seed).X[:, 0] for seed in (0, 1)]
    assert not np.array_equal(*shuffled)
    np.testing.assert_allclose(np.sort(shuffled[0]), np.arange(10) / 9)
    noisy = replace(source, noise=3)
    assert make_stream(noisy, 0).inputs == 4
    assert len({s.name for s in (source, noisy, source.at_once(), replace(source, by="order"))}) == 4
    before = source.name
    path.write_text("time,a,b,y\n" + "\n".join(reversed(rows)), encoding="utf8")
    assert source.name != before  # other data have other results


def test_bad_streams_are_one_sentence(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("a,y\n1,2\n2,3\n4,1", encoding="utf8")
    with pytest.raises(ValueError, match=r"own.csv has no column 'when'; it has a, y"):
        check_stream(file_stream(path, "when", first=2, batch=1))
    with pytest.raises(
        ValueError, match=r"own by order has 3 rows, which cannot be cut into 9 and then 1 each"
    ):
        check_stream(file_stream(path, "order", first=9, batch=1))
    with pytest.raises(ValueError, match=r"cannot read .*no.csv: No such file"):
        check_stream(file_stream(tmp_path / "no.csv", "order", first=2, batch=1))


# --- measures --------------------------------------------------------------------------------------------


def test_each_batch_is_predicted_before_it_is_learned():
    y = np.repeat([0.0, 1.0, 3.0], [4, 2, 2])
    stream = Stream(np.zeros((8, 1)), y, first=4, batch=2)
    method = LastMean()
    measured = follow(stream, method)
    np.testing.assert_allclose(measured["errors"], np.array([1, 2]) / y.std())
    assert measured["seen"] == pytest.approx(np.abs(3 - y).mean() / y.std())
    assert np.isnan(measured["long_ago"])
    assert np.isnan(measured["held"])
    assert measured["bytes"] == 8
    assert method.log[:5] == [("fit", 4), ("predict", 2), ("fit", 2), ("predict", 2), ("fit", 2)]


def test_rows_that_are_held_are_predicted_and_never_learned():
    stream = Stream(np.zeros((9, 1)), np.arange(9.0), first=3, batch=3, hold=3)
    method = LastMean()
    measured = follow(stream, method)
    assert [entry for entry in method.log if entry[0] == "fit"] == [("fit", 2)] * 3
    assert ("predict", 3) in method.log
    assert measured["held"] == pytest.approx(np.abs(6.5 - np.array([2, 5, 8])).mean() / stream.unit)


class Undecided(LastMean):
    """Gives each of three classes the probability that it was told, and covers class 0 alone."""

    gives_probabilities = True

    def __init__(self, probabilities):
        super().__init__()
        self.probabilities = np.array(probabilities)

    def predict(self, X):
        return np.tile(self.probabilities, (len(X), 1))

    def covers(self, X, y):
        return y == 0


def test_classes_are_judged_by_log_loss_and_calibration():
    y = np.array([0.0, 1, 2, 0, 0, 1])
    stream = Stream(np.arange(6.0)[:, None], y, first=2, batch=2, classes=3)
    measured = follow(stream, Undecided([0.5, 0.5, 0.0]))
    logs = -np.log([0.5, 0.5, 1e-6])
    np.testing.assert_allclose(measured["errors"], [logs[[2, 0]].mean(), logs[:2].mean()], rtol=1e-5)
    assert measured["seen"] == pytest.approx(logs[[0, 1, 2, 0, 0, 1]].mean(), rel=1e-5)
    assert measured["covered"] == [0.5, 0.5]
    assert measured["wrong"] == 0.5  # of the four rows that were predicted before they were learned
    assert measured["calibration_error"] == pytest.approx(0, abs=1e-6)


def test_outputs_that_are_no_probabilities_become_some():
    stream = Stream(np.zeros((4, 1)), np.array([0.0, 1, 1, 0]), first=2, batch=2, classes=2)
    scores = Undecided([0.0, np.log(3)])
    scores.gives_probabilities = False
    assert follow(stream, scores)["errors"] == pytest.approx([-np.log([0.75, 0.25]).mean()])


def test_classes_of_a_file_are_numbered_and_have_results_of_their_own(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text("a,y\n" + "\n".join(f"{k},{(5, 7, 9)[k % 3]}" for k in range(12)), encoding="utf8")
    numbers = file_stream(path, "order", first=6, batch=3)
    classes = replace(numbers, classes=True)
    stream = make_stream(classes, 0)
    assert stream.classes == 3
    np.testing.assert_array_equal(stream.y, np.arange(12) % 3)
    assert make_stream(numbers, 0).classes == 0
    assert classes.name != numbers.name


RIVALS = ["boosting", "boosting-window", "boosting-reservoir", "mlp-partial-fit", "splines-forgetting"]
RIVALS += ["river-amf", "river-forest", "river-tree", "lightgbm-continued", "catboost"]


@pytest.fixture(params=[False, True], ids=["numbers", "classes"])
def easy(request, tmp_path):
    """A stream of numbers, or of four classes, that one input tells nearly without noise."""
    random = np.random.default_rng(0)
    X = random.random((240, 2))
    y = (3 * X[:, 0] + 0.2 * random.random(240)).round(0 if request.param else 6)
    path = tmp_path / "own.csv"
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,y", comments="", fmt="%.6g")
    return replace(file_stream(path, "order", first=120, batch=60), classes=request.param)


def run_on(source, method):
    """What a method reached on a stream, or nothing if its package is missing."""
    record = streams.run_stream(streams.StreamKey(source, method, 0), streams.StreamSettings())
    if record["status"].startswith("missing: "):
        pytest.skip(record["status"])
    assert record["status"] == "ok"
    return record


@pytest.mark.slow
@pytest.mark.parametrize("method", [*RIVALS, "atlas-auto", "atlas-sums", "never"])
def test_methods_learn_numbers_and_classes(easy, method):
    record = run_on(easy, method)
    y = make_stream(easy, 0).y[120:]
    chance = np.log(4) if easy.classes else np.abs(y - y.mean()).mean() / y.std()
    assert np.mean(record["errors"]) < 0.8 * chance
    assert record["bytes"] > 0
    assert ("wrong" in record) == easy.classes
    assert len(record["covered"]) == (
        0 if method in RIVALS else 2
    )  # only ours have intervals, or sets of classes
    assert all(0.5 < share <= 1 for share in record["covered"])


@pytest.mark.parametrize("method", ["lightgbm-continued", "catboost"])
def test_a_package_of_another_extra_is_named(monkeypatch, method):
    def absent(name):
        raise ModuleNotFoundError(name=name)

    package = method.split("-")[0]
    kind = find(method)  # its module is imported without the package
    monkeypatch.setattr("atlas_splines.experiments.arena.methods.import_module", absent)
    with pytest.raises(MissingPackage, match=rf"no module '{package}': pip install 'atlas-splines\[bench\]'"):
        kind(Setup(2, 0, 0, 10), **kind.GRID[0])


def test_what_goes_wrong_is_said(monkeypatch):
    def missing(name):
        raise MissingPackage("no module 'river'")

    key = streams.StreamKey(TINY, "river-tree", 0)
    monkeypatch.setattr(streams, "find", missing)
    assert streams.run_stream(key, streams.StreamSettings())["status"] == "missing: no module 'river'"
    monkeypatch.setattr(streams, "find", lambda name: LastMean)
    monkeypatch.setattr(LastMean, "fit", lambda self, task: None)
    assert (
        streams.run_stream(key, streams.StreamSettings())["status"] == "diverged: predictions are not finite"
    )
    monkeypatch.setattr(LastMean, "fit", lambda self, task: 1 // 0)
    assert streams.run_stream(key, streams.StreamSettings())["status"].startswith(
        "crashed: ZeroDivisionError: "
    )


# --- runs ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_runs_go_on_where_they_were_and_end_in_a_table_and_a_picture(tmp_path):
    methods = ["linear", "boosting-reservoir"]
    results = run_streams([TINY], methods, [0, 1], tmp_path)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "streams" / "runs").iterdir()}
    assert len(files) == 4
    more = run_streams([TINY, replace(TINY, label="other", kind="seasons")], methods, [0, 1], tmp_path)
    assert more[:4] == results
    assert {path: path.stat().st_mtime_ns for path in files} == files
    kept = stored_results(
        [TINY], [0], tmp_path
    )  # of all methods that ran, in the order in which they are listed
    assert sorted(kept, key=str) == sorted((record for record in results if record["seed"] == 0), key=str)

    lines = stream_lines(more)
    assert [line.stream for line in lines] == ["tiny"] * 2 + ["other"] * 2
    assert lines[0].prequential <= lines[1].prequential
    assert len(lines[0].errors) == 5  # the last batch is shorter
    own = [record["errors"] for record in results if record["method"] == lines[0].method]
    assert lines[0].prequential == pytest.approx(np.mean(own))
    text = stream_table(more).splitlines()
    assert text[0].split() == [
        "tiny",
        "prequential",
        "last",
        "5",
        "all",
        "seen",
        "long",
        "ago",
        "s/update",
        "kB",
    ]
    assert len(text) == 2 * 3 + 1
    figure = draw_streams(more)
    assert len(figure.axes) == 4
    assert figure.get_suptitle().startswith("Least error ahead on ")
    assert [len(axes.get_lines()) for axes in figure.axes] == [2] * 4


@pytest.mark.usefixtures("in_this_process")
def test_a_failure_is_a_row(tmp_path, monkeypatch):
    def missing(name):
        raise MissingPackage("no module 'river'")

    monkeypatch.setattr(streams, "find", missing)
    results = run_streams([TINY], ["river-tree"], [0], tmp_path)
    assert stream_table(results).splitlines()[1].endswith("–  1 of 1 runs missing: no module 'river'")
    assert len(draw_streams(results).axes) == 2
    (path,) = (tmp_path / "streams" / "runs").iterdir()
    assert json.loads(path.read_text(encoding="utf8"))["method"] == "river-tree"


def test_an_unknown_method_is_named(tmp_path):
    with pytest.raises(ValueError, match="there is no method 'nonsense'; there are atlas-auto, "):
        run_streams([TINY], ["nonsense"], [0], tmp_path / "out")
    assert not (tmp_path / "out").exists()


# --- in the arena ----------------------------------------------------------------------------------------


def test_protocols_with_and_without_streams():
    both = make_competition(True, None, [], [3, 7])
    assert [cell.label for cell in both.cells] == ["five peaks"]
    assert both.streams == QUICK.streams
    assert make_competition(False, None, [], []) == FULL
    assert FULL.streams == BUILT_IN_STREAMS
    assert make_competition(False, None, [], [1, 2]).streams == ()
    assert make_competition(False, None, [], [7]) == replace(FULL, cells=())
    mixed = make_competition(True, None, ["never", "linear"], [3, 7])
    assert (mixed.methods, mixed.stream_methods) == (("linear",), ("never", "linear"))
    only = make_competition(True, None, ["never"], [])  # it has no tasks to run on
    assert (only.cells, only.streams) == ((), QUICK.streams)


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_the_command_streams_a_table_and_goes_on_where_it_was(tmp_path, monkeypatch):
    data, output = tmp_path / "own.csv", tmp_path / "out"
    data.write_text("t,a,y\n" + "\n".join(f"{-k},{k * k % 17},{k + 1}" for k in range(60)), encoding="utf8")
    options = ["arena", "--quick", "-o", str(output), "--protocol", "7", "--data", str(data), "--drop", "t"]
    options += ["--stream-by", "t", "--stream-first", "20", "--stream-batch", "10"]
    options += ["--method", "linear", "--method", "mlp-partial-fit"]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stdout.splitlines() if line.strip()]
    assert lines[-4].split()[:4] == ["own", "by", "t", "prequential"]
    assert sorted(line.split("  ")[0] for line in lines[-3:-1]) == [
        "MLP, partial_fit",
        "linear model",
    ]
    page = (output / "report.html").read_text(encoding="utf8")
    assert page.count("data:image/png;base64,") == 1
    assert '<section id="streams">' in page
    assert 'id="summary"' not in page  # there were no tasks
    assert "own by t: 20 rows, then 10 each" in page
    records = json.loads((output / "streams.json").read_text(encoding="utf8"))
    assert [len(record["errors"]) for record in records] == [4, 4]
    assert (output / "table.md").read_text(encoding="utf8").startswith("| own by t | prequential |")
    assert not (output / "runs").exists()

    def again(key, settings):
        raise AssertionError(f"{key.name} is run again")

    monkeypatch.setattr(streams, "run_stream", again)
    assert CliRunner().invoke(app, options).exit_code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_tasks_and_streams_stand_on_one_page(tmp_path, monkeypatch):
    monkeypatch.setattr("atlas_splines.experiments.arena.report.DRAWINGS", [])  # they take seconds
    peaks = make_competition(True, None, ["linear", "lookup"], [3, 7])
    results = compete(tmp_path, replace(peaks, streams=(TINY,)))
    page = (tmp_path / "report.html").read_text(encoding="utf8")
    assert page.index('id="summary"') < page.index('id="streams"') < page.index('id="run"')
    assert {path.name for path in tmp_path.iterdir()} == {
        "figures", "report.html", "results.csv", "results.json", "run.json", "runs", "streams", "streams.json", "table.md",
    }  # fmt: skip
    tables = text_table(results).split("\n\n")
    assert [text.split()[0] for text in tables] == ["method", "tiny"]
    assert len(markdown_table(results).split("\n\n")) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--stream-by", "t"], "--stream-by orders the rows of a file; give it with --data"),
        (["--data", "no.csv", "--stream-by", "t"], "cannot read no.csv: No such file or directory"),
        (["--method", "never", "--protocol", "1"], "methods for streams need protocol 7"),
        (["--stream-first", "9000"], "no drift has 1000 rows, which cannot be cut into 9000 and then"),
    ],
)
def test_bad_options_are_one_line(tmp_path, options, message):
    result = CliRunner().invoke(app, ["arena", "--quick", "-o", str(tmp_path / "out"), *options])
    assert result.exit_code == 2
    assert message in result.output
    assert not (tmp_path / "out").exists()
