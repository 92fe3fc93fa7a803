"""`update`, the incremental learning of new rows without forgetting, and `footprint`, what it can change."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timezone

import numpy as np
from numpy.typing import ArrayLike, NDArray

from atlas_splines.model.atlas import Atlas, commit, model_in, state_of, take_state
from atlas_splines.model.checks import check_inputs, check_note
from atlas_splines.model.evaluate import evaluate
from atlas_splines.model.lattice import Domain
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import next_id
from atlas_splines.model.losses import find_loss
from atlas_splines.model.rows import Rows
from atlas_splines.model.state import State
from atlas_splines.model.train import History, Seed, Split, Trainer, TrainingDiverged, run_at
from atlas_splines.updates.assess import OutOfSample, assess_pooled, harm_warning, warn_known, warn_of
from atlas_splines.updates.footprint import BoxFootprint, Footprint, RestFootprint
from atlas_splines.updates.incremental import pool_rows
from atlas_splines.updates.initial_memory import FEATURES
from atlas_splines.updates.log import RowDigest, Update, learned_before
from atlas_splines.updates.metrics import HeldOut
from atlas_splines.updates.plan import POOLING, Count, Cover, Retention, UpdatePlan, plan_update
from atlas_splines.updates.refusal import Origin, refuse_faulty
from atlas_splines.updates.routing import memory_in
from atlas_splines.updates.solved_charts import open_charts
from atlas_splines.updates.synthetic_sample import with_known_rows
from atlas_splines.updates.trained_charts import UpdateOptions, known_seed, learn_chart, settings_of

__all__ = ["footprint", "points_in", "state_after", "update"]


def points_in(box: Domain, rows: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Uniform random points of a box.

    Examples
    --------
    >>> points_in(np.array([[0.0, 1.0], [5.0, 6.0]]), 10, np.random.default_rng(0)).shape
    (10, 2)
    """
    low, high = box.T
    return low + (high - low) * random.random((rows, low.size))


DIVERGED = "training diverged, so nothing was changed; lower learning_rate, or scale the targets to about 1"
NO_CHART = "rows that were held out are predicted as well without a chart: none was opened"


@ONE_THREAD_EACH
def update(
    model: Atlas,
    X: ArrayLike,
    y: ArrayLike,
    *,
    retention: Retention = "chart",
    cover: Cover = "touch",
    density: int | None = None,
    terms: int | None = None,
    charts: Count = "auto",
    epochs: int | None = None,
    batch_size: int = 100,
    learning_rate: float = 0.01,
    loss: str = "mae",
    sample_weight: ArrayLike | None = None,
    random_state: Seed = None,
    progress: bool = False,
    extend: bool = False,
    features: int = FEATURES,
    rest: Iterable[tuple[ArrayLike, ...]] = (),
    message: str = "",
    author: str = "",
    accept: bool = False,
    assess: bool = True,
    digest: RowDigest | None = None,
) -> Update:
    """Update a model with new data, in place, without forgetting elsewhere.

    Parameters
    ----------
    model
        The model to update. If the update fails or is interrupted, it is exactly as it was.
    X, y
        The new data: inputs in the domain, shape (rows, inputs), and targets.
    retention
        - "auto": change detection decides. Rows that noise explains are pooled; rows that contradict the
          model locally get charts; under drift the weights of exponentially weighted statistics grow. Without
          a memory, which the model of a fitted estimator has, it is "chart".
        - "pool": add the rows to the cumulative statistics and solve again. The order of updates does not
          matter, nothing is forgotten, and every prediction can change.
        - "chart": freeze the model and add charts around the data. Outside the footprint all predictions stay
          the same bit for bit, and `Atlas.revert` undoes the update exactly. With a memory their content is
          solved for from the rows and replaces the model there, and later rows join it; without, it is
          trained.
        - "rehearsal": train the model on the new data together with as many points from elsewhere,
          labelled by the model as it was. Every prediction can change a little.
        - "both": rehearsal, then charts on its residuals. Every prediction can change a little.
        - "none": the paper's plain training, which changes a cross around the data.
    cover
        "touch": charts have full weight on all of the data, and none beyond a margin of three cells.
        "inside": charts have no weight outside the cells of the data, and less near their rim.
    density
        Density of trained charts, in coordinates where the data's box is the unit cube. By default one grows
        from density 3 to at most 6 as long as that lowers the loss of a held-out tenth of the rows. With few
        rows it is coarser: 8 rows for each basis function of an input at first, and never fewer than 2.
    terms
        Pairs of exponentials of each trained chart; by default 10.
    charts
        How many charts. "auto" splits the data in two along one input as long as that shrinks the volume of
        the bounding boxes to 70 % or less, with 8 charts at most and 50 rows at least in each. A given
        number is used while each chart has at least a quarter of an equal share of the rows.
    epochs
        Passes over the data; by default 50, or more if that makes fewer than 5000 batches. A chart makes at
        most so many for each density and for each of three falling learning rates.
    batch_size, learning_rate, loss, sample_weight, random_state, progress
        As in `train`.
    extend
        Whether X may lie beyond the domain, for "pool" and for "auto" with a memory. Statistics count such
        rows at the edge of the domain; charts around them extend it.
    features
        Most features of the memory. With "auto", rows that none of them reaches get new ones, up to this
        number and a quarter more; then the result depends on the order of updates.
    rest
        Further rows of the new data, in pieces (X, y) or (X, y, sample_weight), for data that does not fit
        into memory. They are pooled, or join charts, one piece after the other; change detection uses X
        alone, and the errors in the log are those on X. For "pool", and for "auto" with a memory.
    message, author
        Reason and author of the update, for the log.
    accept
        Whether to learn rows that are otherwise not learned: those that are faulty as a whole, such as a
        file in other units or with two columns exchanged, which raise `UpdateRefused`; and those of an
        earlier update, for which an `UpdateWarning` is issued.
    assess
        Whether the rows are cross-validated for the log, which can take longer than learning them. The error
        before learning is logged in any case.
    digest
        Digest of the rows in their original coordinates, if these differ from X; the caller has then checked
        the rows for faults.

    Returns
    -------
    Update
        The newest entry of ``model.updates``, or the entry of the earlier update with these rows.

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas
    >>> X = np.random.default_rng(0).random((500, 2))
    >>> model = Atlas(inputs=2)
    >>> done = update(model, 0.2 + 0.2 * X, np.ones(500), random_state=0)
    >>> model([[0.3, 0.3]]).round(1), model([[0.3, 0.8]])
    (array([[1.]], dtype=float32), array([[0.]], dtype=float32))
    >>> model.revert(done.id)([[0.3, 0.3]])
    array([[0.]], dtype=float32)
    """
    start = time.perf_counter()
    check_note("message", message)
    check_note("author", author)
    random_state = known_seed(random_state)
    options = UpdateOptions(
        cover, charts, density, terms, epochs, batch_size, learning_rate, loss, progress, features
    )
    trainer = Trainer(model, loss=loss, batch_size=batch_size, learning_rate=learning_rate)  # checks options
    extend = extend and retention in POOLING and state_of(model).pooled is not None
    rows = _checked(trainer, X, y, sample_weight, extend=extend)
    rows = rows.take(rows.weights > 0)
    plan = plan_update(state_of(model), rows.points, retention, cover, charts)
    refuse_few(state_of(model), rows, plan)
    id = next_id(model.updates)
    if digest is None and not accept:
        origin = Origin.of_points(rows.points, rows.targets, loss)
        refuse_faulty(state_of(model), origin, local=retention != "chart")
    if digest is None:
        digest = RowDigest()
        digest.add(X, y, sample_weight)
        rest = digest.watching(rest)
    pieces = _Pieces(_checked(trainer, *piece, extend=extend) for piece in rest)
    learned = _learn(model, id, rows, plan, options, np.random.default_rng(random_state), pieces)
    if plan.retention in POOLING and assess:
        learned = replace(learned, held_out=assess_pooled(learned.state, id, rows, loss))
    draft = model_in(learned.state)  # whatever fails, the model stays as it is
    before = model.fingerprint()
    known = None if accept else learned_before(model.updates, before, digest)
    if known is not None:
        warn_known(known)
        return known
    done = Update(
        id=id,
        kind=learned.kind,
        time=datetime.now(timezone.utc),
        rows=len(rows) + pieces.rows,
        before=before,
        after=draft.fingerprint(),
        footprint=with_known_rows(state_of(model), learned.footprint),
        seconds=time.perf_counter() - start,
        error_before=rows.inside(model.domain).loss(model, loss),
        error_after=rows.inside(draft.domain).loss(draft, loss),
        history=learned.history,
        reason=learned.reason,
        held_out=learned.held_out,
        settings=settings_of(options, retention=retention, extend=extend, random_state=random_state),
        data=digest.text if digest.distinct >= fewest_of(state_of(model)) else "",
        author=author,
        message=message,
    )
    decided = plan.retention == "auto"
    done.warning = harm_warning(state_of(model), learned.state, [*model.updates, done], loss, decided)
    if done.warning:
        warn_of(f"update {id}: {done.warning}")  # before the commit: a warning that raises leaves no update
    commit(model, state_of(draft), done)
    return done


@ONE_THREAD_EACH
def state_after(
    model: Atlas,
    id: int,
    X: ArrayLike,
    y: ArrayLike,
    *,
    retention: Retention,
    batch_size: int,
    learning_rate: float,
    loss: str,
    sample_weight: ArrayLike,
    random_state: Seed,
    extend: bool,
    features: int,
) -> State:
    """The state that `update` would leave, bit for bit: nothing is assessed, logged, refused or changed.

    Parameters
    ----------
    model
        The model before the update.
    id
        Number of the update.
    X, y, retention, batch_size, learning_rate, loss, sample_weight, random_state, extend, features
        As in `update`; the rows were accepted.
    """
    options = UpdateOptions(
        "touch", "auto", None, None, None, batch_size, learning_rate, loss, False, features
    )
    trainer = Trainer(model, loss=loss, batch_size=batch_size, learning_rate=learning_rate)
    extend = extend and retention in POOLING and state_of(model).pooled is not None
    rows = _checked(trainer, X, y, sample_weight, extend=extend)
    rows = rows.take(rows.weights > 0)
    plan = plan_update(state_of(model), rows.points, retention, options.cover, options.charts)
    return _learn(model, id, rows, plan, options, np.random.default_rng(random_state), _Pieces(())).state


def fewest_of(state: State) -> int:
    """Fewest rows of which anything is kept apart."""
    pool = memory_in(state)
    return 1 if pool is None else pool.fewest


def refuse_few(state: State, rows: Rows, plan: UpdatePlan) -> None:
    """Refuse charts of so few rows that their content reveals them, where no rows may be kept."""
    fewest = fewest_of(state)
    for window in plan.windows if fewest > 1 else ():
        count = int((window.membership(rows.points) == 1).sum())
        if count < fewest:
            raise ValueError(
                f"a chart of {count} rows would reveal them, and a model that keeps sums alone has none of "
                f"fewer than {fewest}; use retention='pool'"
            )


def _checked(
    trainer: Trainer, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, *, extend: bool
) -> Rows:
    """Rows of an update; with `extend` they may lie beyond the domain."""
    model = trainer.model
    points = check_inputs(
        X, np.tile([-np.inf, np.inf], (model.inputs, 1)) if extend else model.domain, model.dtype
    )
    _, targets, weights = trainer.data(points.clip(*model.domain.T.astype(model.dtype)), y, sample_weight)
    return Rows(points, targets, weights)


def footprint(
    model: Atlas,
    X: ArrayLike,
    *,
    retention: Retention = "chart",
    cover: Cover = "touch",
    charts: Count = "auto",
) -> Footprint:
    """The points whose prediction an update with inputs X can change, without any training.

    Parameters
    ----------
    model, X, retention, cover, charts
        As in `update`.

    Examples
    --------
    >>> import numpy as np
    >>> from atlas_splines import Atlas
    >>> X = 0.2 + 0.2 * np.random.default_rng(0).random((500, 2))
    >>> footprint(Atlas(inputs=2), X)
    <Footprint: a box, 0.0403 of the domain
      input 0: 0.1998 to 0.4007
      input 1: 0.1991 to 0.4>
    >>> round(footprint(Atlas(inputs=2), X, retention="none").volume, 2)
    0.53
    """
    state = state_of(model)
    return with_known_rows(state, plan_update(state, state.points(X), retention, cover, charts).footprint)


class _Pieces:
    """An iterator over pieces of rows that counts them."""

    def __init__(self, pieces: Iterable[Rows]) -> None:
        self.pieces, self.rows = pieces, 0

    def __iter__(self) -> Iterator[Rows]:
        for piece in self.pieces:
            self.rows += len(piece)
            yield piece


@dataclass(frozen=True, eq=False)
class _Learned:
    """The result of an update before it is committed."""

    state: State
    kind: str
    footprint: Footprint
    history: History
    reason: str = ""
    held_out: HeldOut | None = None


def _learn(
    model: Atlas,
    id: int,
    rows: Rows,
    plan: UpdatePlan,
    options: UpdateOptions,
    random: np.random.Generator,
    rest: _Pieces,
) -> _Learned:
    """Learn as planned, on a copy of the state."""
    if plan.retention in POOLING:
        return _learn_pooled(state_of(model), id, rows, plan, options, rest)
    if any(True for _ in rest):
        raise ValueError(f"retention={plan.retention!r} learns all rows at once; give them as X and y")
    if plan.retention == "chart" and memory_in(state_of(model)) is not None:
        charted = open_charts(state_of(model), id, rows, plan.windows, options.loss)
        reason = "" if len(charted.state.charts) > len(model.charts) else NO_CHART
        assessed = charted.held_out.assessed(options.loss)
        return _Learned(charted.state, "chart", plan.footprint, History(), reason, assessed)
    draft, out_of_sample = _draft(model, plan.retention), OutOfSample()
    try:
        history = _train(draft, id, rows, plan, options, random, out_of_sample)
    except TrainingDiverged as diverged:
        return _Learned(state_of(model), plan.retention, plan.footprint, diverged.history, DIVERGED)
    idle = plan.windows and draft.charts == model.charts
    # with "both", rehearsal has learned the rows that charts hold out
    held_out = out_of_sample.assessed(options.loss) if plan.retention == "chart" else None
    reason = NO_CHART if idle else ""
    return _Learned(state_of(draft), plan.retention, plan.footprint, history, reason, held_out)


def _learn_pooled(
    state: State, id: int, rows: Rows, plan: UpdatePlan, options: UpdateOptions, rest: _Pieces
) -> _Learned:
    """Pool the rows, or open charts for them."""
    decide = plan.retention == "auto"
    done = pool_rows(state, id, rows, decide, options.cover, options.charts, options.features, rest)
    domain, dtype, reason = done.state.lattice.domain, state.dtype, done.reason
    area: Footprint = RestFootprint(domain, dtype, () if rest.rows else plan.unaffected)
    if done.is_local:
        area = BoxFootprint(domain, dtype, done.windows)
    if rest.rows and decide:
        reason += f"; decided on a sample of {len(rows):,} of {len(rows) + rest.rows:,} rows, all learned"
    return _Learned(done.state, done.kind, area, History(), reason)


def _draft(model: Atlas, retention: Retention) -> Atlas:
    """A draft of the model; charts do not change its coefficients, which need no copy then."""
    state = state_of(model)
    return model_in(state if retention == "chart" else replace(state, table=state.table.copy()))


def _train(
    model: Atlas,
    id: int,
    rows: Rows,
    plan: UpdatePlan,
    options: UpdateOptions,
    random: np.random.Generator,
    out_of_sample: OutOfSample,
) -> History:
    """Train the model as planned; append out-of-sample predictions and return the last training history."""
    history = History()
    if plan.retention != "chart":
        learned = rows
        if plan.not_rehearsed is not None:
            learned = rows.join(_rehearsed(model, rows, plan.not_rehearsed, options.loss, random))
        history = run_at(1, model, Split(learned, None), options.schedule(len(learned)), random)
    for window in plan.windows:
        learned_chart = learn_chart(model, id, rows, window, options, random)
        history = learned_chart.history
        out_of_sample.join(OutOfSample(learned_chart.out_of_sample, learned_chart.cross_validated))
        if learned_chart.chart is not None:
            take_state(model, state_of(model).with_charts((*model.charts, learned_chart.chart)))
    return history


def _rehearsed(model: Atlas, rows: Rows, excluded: Footprint, loss: str, random: np.random.Generator) -> Rows:
    """Up to as many points outside the region of the new rows, labelled by the model."""
    points = points_in(model.domain, 4 * len(rows), random).astype(model.dtype)
    points = points[~excluded.contains(points)][: len(rows)]
    labels = find_loss(loss).labels(evaluate(state_of(model), points))
    return Rows(points, labels, np.full(len(points), rows.weights.mean(), model.dtype))
