"""The tuned numbers of streams."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["STREAM_RULES", "StreamRules"]


@dataclass(frozen=True)
class StreamRules:
    """Numbers of the models for streams, by `progressive_val_score` of `benchmarks/river_streams.py`.

    They were chosen on ChickWeights, Phishing, and the first 3,000 rows of metro, kin8nm and elec2 alone; the
    other streams of the benchmark judge them.

    Attributes
    ----------
    first_fit
        Rows of the first fit of the estimator; fits of fewer predict no better than the linear model.
    growth
        A batch is the rows so far over this number, up to the full batch: an update costs as much as about
        ten rows of simple models.
    window
        Latest rows among which neighbours are searched for.
    neighbours
        How many of them count; ten were as good.
    recency
        Distance that is added over the age of all rows so far, in standard deviations of each input: of
        elec2 0.90 of classes are right with it, 0.82 without.
    ridge
        Rows by which the linear model shrinks to the mean.
    linear_decay
        Forgetting factor of a row for the linear model.
    weight_decay
        Forgetting factor of a row for the losses of candidates: with 0.99 metro is 2 % worse and elec2 loses
        0.01 of its accuracy, with 0.9 kin8nm is 4 % worse.
    learning_rate
        How fast the weight of a candidate falls with its loss; 1 follows noise, 0.1 follows too slowly.
    level_rates
        Rates at which the level of the estimator's errors follows the latest one; 1 is the last known error,
        which is best on metro and worst on kin8nm.
    floor
        What is added to each probability; 0.03 has a higher log loss.
    limit
        How far from the mean, in standard deviations, an input moves the linear model.
    most_columns
        Columns of the simple models, one for each number, category and class; later ones are left out, which
        bounds the time of a row.
    """

    first_fit: int = 20
    growth: int = 10
    window: int = 500
    neighbours: int = 5
    recency: float = 2.0
    ridge: float = 1.0
    linear_decay: float = 0.998
    weight_decay: float = 0.97
    learning_rate: float = 0.3
    level_rates: tuple[float, ...] = (0.3, 1.0)
    floor: float = 0.01
    limit: float = 10.0
    most_columns: int = 150


STREAM_RULES = StreamRules()
