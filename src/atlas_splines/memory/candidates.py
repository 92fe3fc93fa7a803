"""Candidates: the predictors that a pool derives from its statistics and rows, and their weighted ensemble.

Cumulative statistics give a ridge regression that depends neither on the order of rows nor on how they are
cut into updates; decayed statistics weight rows exponentially by age (recursive least squares with a
forgetting factor). The initial model is a candidate too: to change nothing is an option. The ensemble weights
all by their prequential errors (Cesa-Bianchi and Lugosi, 2006); a weighted sum of features and of models is a
model again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from atlas_splines.memory.batches import Batch, OutputMode, error_model_after, predict_without, scaled
from atlas_splines.memory.data_density import DataDensity
from atlas_splines.memory.error_model import SCALE_RULES, ErrorModel, Residuals, relevant_inputs
from atlas_splines.memory.expert_weights import (
    CLASS_WEIGHT_RULES,
    FARTHEST,
    ClassWeights,
    ExpertWeights,
    LossForm,
    loss_form,
    products_of,
)
from atlas_splines.memory.features import Features
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.local_memory import RECENT_RULES, LocalMemory, RecentRules
from atlas_splines.memory.posterior import Posterior, Prior, Sums, sums_of
from atlas_splines.memory.random_effects import LevelEffects, mixed_effects
from atlas_splines.memory.statistics import HEAVIEST, Statistics
from atlas_splines.memory.to_atlas import fold
from atlas_splines.model.atlas import Atlas, mixture, model_in, state_of
from atlas_splines.model.evaluate import evaluate_anywhere
from atlas_splines.model.immutable import Recomputing
from atlas_splines.model.local_terms import LocalTerms
from atlas_splines.model.losses import find_loss
from atlas_splines.model.state import Offsets, State

__all__ = ["RECENT", "Candidates", "recent_lives_of"]

Array = NDArray[np.float64]

RECENT = 4  # default number of updates that can be reverted without their rows
# For classes the longer of the half-lives gains nothing; without the shorter one the log loss on steel-load
# of `benchmarks/streams.py` is 0.7 % larger.
CLASS_RECENT_RULES = replace(RECENT_RULES, half_lives=(600.0,), box_rows=(300,))
# Inverse temperature of the scores of classes, times the standard deviation of their noise. Not benchmarked.
INVERSE_TEMPERATURE = 2.0


@dataclass(frozen=True, eq=False)
class Candidates(Recomputing):
    """Statistics of the rows that a model has learned, the candidates derived from them, and their weights.

    Attributes
    ----------
    features
        Features that the statistics are sums of.
    prior
        Prior of the weights, learned from the rows of the fit.
    half_lives
        Half-life of each decayed memory, in rows.
    checkpoint
        Cumulative statistics of the fit and of all updates that are no longer recent.
    decayed
        The same statistics, exponentially decayed, for each half-life.
    expert_weights
        Prequential errors of the candidates, up to the checkpoint.
    recent
        Latest updates, oldest first.
    initial
        The model as it was fitted, without charts, if it is a candidate and no rows are kept.
    memory
        Kept rows, if any: the model of all of them is then the base, in place of the initial model.
    output_mode
        "ensemble": the weighted sum of all candidates; "cumulative": the cumulative statistics alone, or the
        model of all kept rows; "decayed": the first decayed memory alone. Before the first update the base,
        if there is one, predicts in the first and the last mode too.
    loss
        Name of the model's loss; with "cross-entropy" targets are class indicators.
    dtype
        Dtype of the model.
    weight_unit
        Mean weight of the rows of the fit, which counts as one row.
    error_model
        Error model up to the checkpoint; None if residuals were not recorded.
    fewest
        Least number of rows whose sums are stored separately: a smaller update is added to the checkpoint at
        once and cannot be reverted without its rows. More than 1 where no single row may be reconstructed
        from sums.
    undo
        Most updates whose sums are stored separately, and can be reverted without their rows.
    grown
        For each group of radial basis functions, the updates that its last centres came with (0 if unknown).
        Empty if all are of the fit.
    class_weights
        Log loss of the candidates up to the checkpoint; None for numbers, or if it was not recorded.
    """

    features: Features
    prior: Prior
    half_lives: tuple[float, ...]
    checkpoint: Statistics
    decayed: tuple[Sums, ...]
    expert_weights: ExpertWeights
    recent: tuple[Batch, ...] = ()
    initial: State | None = None
    memory: LocalMemory | None = None
    output_mode: OutputMode = "ensemble"
    loss: str = "mse"
    dtype: str = "float32"
    weight_unit: float = 1.0
    error_model: ErrorModel | None = None
    fewest: int = 1
    undo: int = RECENT
    grown: tuple[tuple[int, ...], ...] = ()
    class_weights: ClassWeights | None = None

    # --- predictions of the candidates ----------------------------------------------------------------

    @property
    def has_base(self) -> bool:
        """Whether the initial model, or the model of the kept rows, is a candidate."""
        return self.initial is not None or self.memory is not None

    @cached_property
    def base(self) -> State | None:
        """The initial model, or the model of all kept rows; None if neither is a candidate."""
        if self.memory is None:
            return self.initial
        return self.memory.state(self.memory.regression(self.features, self.first, self.loss), self.dtype)

    @cached_property
    def recent_terms(self) -> list[LocalTerms]:
        """Local regressions on rows whose noise variance grows with their age, for each half-life."""
        if self.memory is None or not self.recent_lives:
            return []
        regression = self.memory.regression(self.features, self.first, self.loss)
        return self.memory.recent_terms(regression, recent_rules_of(self.loss))

    @property
    def recent_lives(self) -> tuple[float, ...]:
        """Half-lives of the recent local regressions among the candidates."""
        return recent_lives_of(self.memory, self.loss)

    @property
    def candidates(self) -> int:
        """Number of candidates: cumulative and decayed statistics, the base, and recent local regressions."""
        return 1 + len(self.half_lives) + self.has_base + len(self.recent_lives)

    @cached_property
    def total(self) -> Statistics:
        """Cumulative statistics of all rows."""
        return reduce(lambda total, batch: total + batch.statistics, self.recent, self.checkpoint)

    @cached_property
    def total_sums(self) -> Sums:
        """The same in float64."""
        return sums_of(self.total)

    @property
    def posteriors(self) -> list[Posterior]:
        """Posterior of the cumulative statistics, then of each decayed memory."""
        return [self.first, *self.later]

    @cached_property
    def first(self) -> Posterior:
        """Posterior of the cumulative statistics: a function of the rows, whatever their order."""
        return self.total_sums.solved(self.prior)

    @cached_property
    def later(self) -> list[Posterior]:
        """Posterior of each decayed memory."""
        # with the prior of the fit: the rows left in a decayed memory may be too few to learn one
        return [sums.with_effects(sums.posterior(self.prior)) for sums in self.decaying]

    @cached_property
    def decaying(self) -> tuple[Sums, ...]:
        """Statistics of all rows, as each decayed memory holds them."""
        decaying = self.decayed
        for batch in self.recent:
            decaying = self._decayed(decaying, batch)
        return decaying

    def _decayed(self, memories: Sequence[Sums], batch: Batch) -> tuple[Sums, ...]:
        """Decayed statistics after one more batch."""
        lives = zip(memories, self.half_lives, strict=True)
        return tuple(sums.decay(batch.sums, life) for sums, life in lives)

    @property
    def preferred(self) -> Posterior:
        """Posterior of the memory with the largest weight."""
        if self.output_mode == "decayed":
            return self.later[0]
        return self._posterior(int(np.argmax(self.expert_shares[: 1 + len(self.half_lives)])))

    @cached_property
    def expert_shares(self) -> Array:
        """Weight of each candidate in the prediction, in the order of `candidates`."""
        return self._expert_shares_by(self.current_expert_weights)

    def _expert_shares_by(self, experts: ExpertWeights) -> Array:
        alone = np.eye(self.candidates)
        base = alone[1 + len(self.half_lives)] if self.has_base else alone[0]
        if self.memory is not None and (self.output_mode == "cumulative" or not experts.rows):
            return base  # the model of all rows does not depend on their order
        if self.output_mode != "cumulative" and self.has_base and not experts.rows:
            return base  # without updates the model stays as it was fitted
        if self.output_mode != "ensemble" or not experts.rows:
            return alone[1 if self.output_mode == "decayed" else 0]
        if self.loss == "cross-entropy":
            return self._class_shares
        partial = np.ones(self.candidates, np.bool_)  # an initial model without rows has learned no update
        partial[[0, *[1 + len(self.half_lives)] * (self.memory is not None)]] = False
        return experts.shares(partial)

    @property
    def complete_share(self) -> float:
        """Share of all candidates together that have learned every row and forgotten none."""
        kept = 0.0 if self.memory is None else float(self.expert_shares[1 + len(self.half_lives)])
        return float(self.expert_shares[0]) + kept

    @cached_property
    def current_expert_weights(self) -> ExpertWeights:
        """Prequential errors of the candidates, up to now."""
        return reduce(
            lambda experts, batch: experts.after(batch.products, batch.statistics.count),
            self.recent,
            self.expert_weights,
        )

    # --- weights of class scores -----------------------------------------------------------------------

    @cached_property
    def current_class_weights(self) -> ClassWeights:
        """Prequential log loss of the candidates, up to now."""
        known = LossForm.none(self.candidates) if self.class_weights is None else self.class_weights.form
        return reduce(
            lambda weights, batch: weights.after(batch.log_loss, batch.statistics.count),
            self.recent,
            ClassWeights(known.resized(self.candidates)),
        )

    @property
    def _class_shares(self) -> Array:
        """Weight of each candidate's scores."""
        shares, fastest = self.current_class_weights.shares(self.class_reference), len(self.half_lives)
        shares[fastest] = max(shares[fastest], CLASS_WEIGHT_RULES.fastest)
        return self.class_scale * shares

    @property
    def class_reference(self) -> Array:
        """Weights of the candidates before any row was predicted, to which they are shrunk."""
        keeps_rows = self.memory is not None
        return CLASS_WEIGHT_RULES.reference(1 + len(self.half_lives), self.candidates, keeps_rows)

    @property
    def class_scale(self) -> Array:
        """Factor of the scores of each candidate, shape (candidates,): 1 for the base."""
        scale = np.full(self.candidates, CLASS_WEIGHT_RULES.score_unit)
        if self.has_base:
            scale[1 + len(self.half_lives)] = 1.0
        return scale

    def class_scores_on(self, phi: Array, points: Array) -> Array:
        """Scores of all candidates on rows with these features, shape (candidates, rows, classes)."""
        levels, inverse_temperature = self.features.keys(points), self.inverse_temperature
        scores = [inverse_temperature * posterior.predict(phi, levels) for posterior in self.posteriors]
        scores += [self.base_outputs(points)] if self.has_base else []
        scores += [
            inverse_temperature * self._recent_predictions(terms, points) for terms in self.recent_terms
        ]
        with np.errstate(over="ignore", invalid="ignore"):
            stacked = self.class_scale[:, None, None] * np.stack(scores)
        return np.nan_to_num(stacked, nan=0.0, posinf=FARTHEST, neginf=-FARTHEST)

    def log_loss_on(self, points: Array, targets: Array, counted: Array | None) -> LossForm | None:
        """Log loss of rows not yet learned, as a quadratic form of the weights; None if no row counts.

        Rows of a class without any row so far are left out: no candidate can predict it.
        """
        if self.loss != "cross-entropy" or self.output_mode != "ensemble":
            return None
        known = np.flatnonzero(targets @ (self.total.square > 0) > 0)
        step = -(-len(known) // CLASS_WEIGHT_RULES.most_rows)
        if not len(known):
            return None
        some = known[::step]
        weights = np.ones(len(some)) if counted is None else counted[some]
        scores = self.class_scores_on(self.features(points[some]), points[some])
        rows = targets[some], step * weights
        return loss_form(scores, *rows, self.current_class_weights, self.class_reference)

    @cached_property
    def combined_error_model(self) -> ErrorModel | None:
        """Error model up to now."""
        return reduce(
            lambda error_model, batch: error_model_after(error_model, batch.seen),
            self.recent,
            self.error_model,
        )

    @cached_property
    def weights(self) -> Array:
        """Weights of the features in the prediction, shape (features, outputs)."""
        if self.expert_shares[0] == 1 and not self.expert_shares[1 : 1 + len(self.half_lives)].any():
            return self.first.weights
        none = np.zeros((len(self.features), self.total.outputs))
        return np.asarray(sum((share * self._posterior(k).weights for k, share in self._active), none))

    @cached_property
    def effects(self) -> LevelEffects | None:
        """Effects of levels in the prediction; None if there are none."""
        if not self.features.levels:
            return None
        candidates = [(share, self._posterior(k).effects) for k, share in self._active]
        candidates.append((self.kept_share, self.base_effects))
        known = [(share, effects) for share, effects in candidates if share > 0 and effects is not None]
        return mixed_effects([share for share, _ in known], [effects for _, effects in known])

    @property
    def _active(self) -> list[tuple[int, float]]:
        """Numbers and weights of the memories with a weight above zero; number 0 is the cumulative one."""
        shares = self.expert_shares[: 1 + len(self.half_lives)]
        return [(k, float(share)) for k, share in enumerate(shares) if share > 0]

    def _posterior(self, memory: int) -> Posterior:
        """Posterior of one memory; the others are not solved for."""
        return self.later[memory - 1] if memory else self.first

    @property
    def base_effects(self) -> LevelEffects | None:
        """Effects of levels that are added to the base: the cumulative ones after the first update.

        The model of kept rows is fitted to targets less these effects, so with kept rows they always apply.
        """
        if not self.features.levels or not self.has_base:
            return None
        return self.first.effects if self.current_expert_weights.rows or self.memory is not None else None

    @property
    def base_share(self) -> float:
        """Weight of the base in the prediction."""
        return float(self.expert_shares[1 + len(self.half_lives)]) if self.has_base else 0.0

    @property
    def recent_shares(self) -> list[float]:
        """Weights of the recent local regressions."""
        return [float(share) for share in self.expert_shares[self.candidates - len(self.recent_lives) :]]

    @property
    def kept_share(self) -> float:
        """Weight of all candidates without statistics: the base and the recent local regressions."""
        return self.base_share + sum(self.recent_shares)

    @property
    def is_base_alone(self) -> bool:
        """Whether the base has weight 1 and all other candidates have weight 0."""
        return self.base_share == 1 and np.count_nonzero(self.expert_shares) == 1

    @property
    def inverse_temperature(self) -> float:
        """Factor of least-squares class scores before the softmax."""
        if self.loss != "cross-entropy":
            return 1.0
        return float(INVERSE_TEMPERATURE / np.sqrt(self.first.noise.mean()))

    @property
    def offsets(self) -> Offsets | None:
        """Effects of levels as offsets of the model; None if all are zero."""
        effects = self.effects
        kept = None if effects is None else effects.values.any(axis=1)
        if effects is None or kept is None or not kept.any():
            return None
        return Offsets(
            effects.keys[kept], (self.inverse_temperature * effects.values[kept]).astype(self.dtype)
        )

    @cached_property
    def model(self) -> Atlas:
        """The prediction as one model on the unit cube."""
        state, offsets = state_of(self._smooth), self.offsets
        if state.later is not None and offsets is not None:
            beyond = replace(state.later.state, offsets=offsets)
            state = replace(state, later=replace(state.later, state=beyond))
        return model_in(replace(state, offsets=offsets))

    @property
    def _smooth(self) -> Atlas:
        """The same without effects of levels."""
        parts, divisors = [], []
        recent = self._recent_mixture
        if self._active or recent or not self.base_share:
            smooth = fold(self.features, self.inverse_temperature * self.weights, self.dtype)
            if self.loss == "cross-entropy":
                recent = tuple(terms.scaled(self.inverse_temperature) for terms in recent)
            parts.append(model_in(replace(state_of(smooth), local=recent)) if recent else smooth)
            divisors.append(1.0)
        if self.base_share > 0 and self.base is not None:
            parts.append(model_in(self.base))
            divisors.append(1 / self.base_share)
        return parts[0] if divisors == [1.0] else mixture(parts, divisors)

    @property
    def _recent_mixture(self) -> tuple[LocalTerms, ...]:
        """Recent local regressions with a weight above zero, multiplied by it."""
        if not any(self.recent_shares):
            return ()
        pairs = zip(self.recent_terms, self.recent_shares, strict=True)
        return tuple(terms.scaled(share) for terms, share in pairs if share > 0)

    # --- residuals of the candidates ------------------------------------------------------------------

    def residuals_on(self, phi: Array, points: Array, targets: Array) -> Array:
        """Residuals of each candidate on rows with these features, shape (candidates, rows, outputs)."""
        # candidates that cannot predict in this mode are not evaluated: they get the residuals of the first
        alone = self.output_mode == "cumulative"
        posteriors = [self.first] * (1 + len(self.half_lives)) if alone else self.posteriors
        levels = self.features.keys(points)
        predicted: list[NDArray[np.floating]] = [posterior.predict(phi, levels) for posterior in posteriors]
        if self.base is not None:
            predicted.append(self._predicted_by_base(self.base, points))
        if alone:
            predicted += [predicted[-1]] * len(self.recent_lives)
        else:
            predicted += [self._recent_predictions(terms, points) for terms in self.recent_terms]
        with np.errstate(over="ignore", invalid="ignore"):
            return np.stack([outputs - targets for outputs in predicted])

    def _recent_predictions(self, terms: LocalTerms, points: Array) -> Array:
        """Predictions of a recent local regression with the effects of levels, shape (rows, outputs)."""
        outputs = np.zeros((len(points), terms.weights.shape[1]))
        terms.add_to(points, outputs)
        effects = self.base_effects
        return outputs if effects is None else outputs + effects.at(self.features.keys(points))

    def recent_outputs(self, points: Array) -> Array:
        """Weighted sum of the recent local regressions, without effects, shape (rows, outputs)."""
        outputs = np.zeros((len(points), self.total.outputs))
        for terms in self._recent_mixture:
            terms.add_to(points, outputs)
        return outputs

    def recent_cross_validated(
        self, points: Array, targets: Array, counted: Array, blocks: Sequence[NDArray[np.intp]]
    ) -> Array:
        """The same by block cross-validation, for rows that were learned; zero for rows not kept."""
        assert self.memory is not None
        regression = self.memory.regression(self.features, self.first, self.loss)
        numbers = regression.rows.find(HeldRows.of(points, targets, counted))
        kept = [numbers[own][numbers[own] >= 0] for own in blocks]
        rules = recent_rules_of(self.loss)
        found = self.memory.recent_without(regression, self.recent_shares, kept, rules)
        return np.where(numbers[:, None] >= 0, found[numbers], 0.0)

    def base_outputs(self, points: Array) -> Array:
        """Outputs of the base with its effects of levels, shape (rows, outputs)."""
        assert self.base is not None
        outputs = evaluate_anywhere(self.base, points)
        effects = self.base_effects
        return (
            outputs
            if effects is None
            else outputs + self.inverse_temperature * effects.at(self.features.keys(points))
        )

    def _predicted_by_base(self, base: State, points: Array) -> NDArray[np.floating]:
        """Predictions of the base with its effects of levels, as targets: shape (rows, outputs)."""
        outputs, effects = evaluate_anywhere(base, points), self.base_effects
        with np.errstate(over="ignore", invalid="ignore"):
            labels = find_loss(self.loss).labels(outputs)
        return labels if effects is None else labels + effects.at(self.features.keys(points))

    def cross_validated_errors(
        self,
        before: Candidates,
        phi: Array,
        points: Array,
        targets: Array,
        weights: Array,
        blocks: Sequence[NDArray[np.intp]],
    ) -> Array:
        """Squared errors of the rows of the newest update by block cross-validation, shape (rows,).

        Parameters
        ----------
        before
            The candidates without the update.
        phi, points, targets, weights
            All rows of the update, and their features.
        blocks
            Numbers of the rows of each block; together all rows.
        """
        counted = self.counted(weights)
        residuals = before.residuals_on(phi, points, targets)  # (candidates, rows, outputs)
        with np.errstate(over="ignore", invalid="ignore"):
            out_of_sample = np.nan_to_num((residuals**2).mean(axis=2), nan=np.inf)
        rows = (phi, targets, counted, blocks, self.features.keys(points))
        left = [(posterior.block_cross_validated(*rows) ** 2).mean(axis=1) for posterior in self.posteriors]
        if self.memory is not None and self.loss != "cross-entropy":
            left.append(
                ((targets - self.base_cross_validated(phi, points, targets, counted, blocks)) ** 2).mean(
                    axis=1
                )
            )
        elif self.memory is None and self.base is not None and self.base_effects is not None:
            own = self.first.cross_validated_effects(*rows)
            left.append(((targets - self._predicted_by_base(self.base, points) + own) ** 2).mean(axis=1))
        errors = np.stack([*left, *out_of_sample[len(left) :]])
        found = np.empty(len(points))
        for held in blocks:
            rest = np.setdiff1d(np.arange(len(points)), held)
            experts = before.current_expert_weights
            if len(rest):
                seen = products_of(residuals[:, rest], weights[rest])
                experts = experts.after(seen, counted[rest].sum())
            expert_shares = self._expert_shares_by(experts)
            found[held] = (
                expert_shares[expert_shares > 0] @ errors[expert_shares > 0][:, held]
            )  # errors of the others may be infinite
        return found

    def base_cross_validated(
        self,
        phi: Array,
        points: Array,
        targets: Array,
        counted: Array,
        blocks: Sequence[NDArray[np.intp]],
    ) -> Array:
        """Predictions of the model of kept rows by block cross-validation, for rows that it was fitted to.

        Parameters
        ----------
        phi, points, targets, counted
            The rows, their features, and their weights in units of `weight_unit`.
        blocks
            Numbers of the rows of each block; together all rows.

        Returns
        -------
        array of shape (rows, outputs)
        """
        assert self.memory is not None
        assert self.base is not None
        keys, rests = self.features.keys(points), []
        for own in blocks:
            block = Statistics(len(self.features), targets.shape[1])
            block.add(phi[own], targets[own], counted[own], keys[own])
            sums = sums_of(self.total - block)
            rests.append(sums.with_effects(sums.posterior(self.first.prior)))
        regression = self.memory.regression(self.features, self.first, self.loss)
        numbers = regression.rows.find(HeldRows.of(points, targets, counted))
        kept = [own[numbers[own] >= 0] for own in blocks]
        found = self._predicted_by_base(self.base, points).astype(np.float64)
        for own, rest in zip(
            blocks, rests, strict=True
        ):  # rows beyond the budget are learned by the smooth part alone
            found[own] -= self.memory.known.smooth * (phi[own] @ (self.first.weights - rest.weights))
        left_out = predict_without(self.memory, regression, rests, [numbers[own] for own in kept])
        for own, values in zip(kept, left_out, strict=True):
            found[own] = values
        return found

    def _residuals(
        self, points: Array, targets: Array, counted: Array | None
    ) -> Residuals | ErrorModel | None:
        """Residuals of rows not yet learned; a new error model if there is none."""
        error_model = self.combined_error_model
        if error_model is None and (not self.has_base or len(points) < SCALE_RULES.least_rows):
            return None
        if error_model is None:
            return self._error_model_by(points, targets, counted)
        return error_model.residuals(points.clip(0, 1), self._predicted(points), targets, counted)

    def _predicted(self, points: Array) -> Array:
        """Predictions at points inside or outside the unit cube, shape (rows, outputs)."""
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = evaluate_anywhere(state_of(self.model), points)
        return np.nan_to_num(predicted, nan=FARTHEST, posinf=FARTHEST, neginf=-FARTHEST)

    def _error_model_by(
        self, points: Array, targets: Array, counted: Array | None, data_density: DataDensity | None = None
    ) -> ErrorModel:
        """A new error model from some rows."""
        return ErrorModel.of(
            points.clip(0, 1),
            self._predicted(points),
            targets,
            counted,
            inputs=relevant_inputs(self.features),
            loss=self.loss,
            data_density=data_density,
            monotonic=self.features.monotonic,
        )

    def assessed_by(self, points: Array, targets: Array, weights: Array | None = None) -> ErrorModel | None:
        """Error model from rows that were not learned; with too few of them, the present one."""
        known = self.combined_error_model
        if len(points) < SCALE_RULES.least_rows:
            return known
        data_density = None if known is None else known.data_density
        return self._error_model_by(points, targets, scaled(weights, self.weight_unit), data_density)

    def counted(self, weights: Array) -> Array:
        """Weights in units of `weight_unit`, bounded as in the statistics."""
        return np.minimum(weights / self.weight_unit, HEAVIEST)


def recent_lives_of(memory: LocalMemory | None, loss: str) -> tuple[float, ...]:
    """Half-lives of the recent local regressions on kept rows; none without a kernel of targets."""
    has_kernel = memory is not None and memory.target_kernel is not None
    return recent_rules_of(loss).half_lives if has_kernel else ()


def recent_rules_of(loss: str) -> RecentRules:
    """Forgetting rules of the recent local regressions, for numbers or for class indicators."""
    return CLASS_RECENT_RULES if loss == "cross-entropy" else RECENT_RULES
