"""Scans of a table: sample, sums and predictions, in this process or on workers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from operator import add, or_
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from atlas_splines.cli.files import Estimator
from atlas_splines.cli.metrics import Score
from atlas_splines.cli.output import Progress, fail
from atlas_splines.cli.rows import RowReader
from atlas_splines.estimators.out_of_core import RowsToSum, SummedRows
from atlas_splines.tables.encoding import Encoding
from atlas_splines.tables.inference import News, TableSurvey, checked_news, find_news, news_columns
from atlas_splines.tables.sample import Counts, Picking, Reservoir, Sample
from atlas_splines.tables.source import Piece, Share, Source, TableError
from atlas_splines.updates.log import Hashes, RowDigest
from atlas_splines.updates.partial_sums import RowSums

__all__ = ["NewRows", "Summing", "Workers", "news_of", "survey_table"]

Answer = TypeVar("Answer")
Task = Callable[[Iterable[Piece]], Answer]


class Workers:
    """So many processes, those of a scheduler, or just this one; they are called when they are needed.

    Parameters
    ----------
    jobs
        Number of processes.
    scheduler
        Address of a Dask scheduler.
    progress
        Tells how far the work is.
    """

    def __init__(self, jobs: int | None, scheduler: str | None, progress: Progress) -> None:
        if jobs is not None and scheduler is not None:
            fail("--jobs and --scheduler exclude each other; give one of them")
        self.jobs, self.scheduler, self.progress = jobs, scheduler, progress

    @property
    def are_others(self) -> bool:
        """Whether other processes than this one do the work."""
        return self.jobs is not None or self.scheduler is not None

    def __enter__(self) -> Workers:
        self._connection = ExitStack()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._connection.__exit__(kind, error, trace)

    @cached_property
    def _client(self) -> Any:
        from atlas_splines.dask.clusters import connected

        return self._connection.enter_context(connected(self.jobs, self.scheduler))

    @property
    def count(self) -> int:
        """How many can work at the same time."""
        return sum(self._client.nthreads().values()) if self.are_others else 1

    def counted_pieces(
        self, what: str, source: Source, columns: Sequence[str] | None = None
    ) -> Iterator[Piece]:
        """All pieces of a table, read here, and counted on the terminal."""
        return self.progress.counted(what, source.pieces(columns), lambda piece: int(piece.table.num_rows))

    def each(
        self,
        asked: Task[Answer],
        shares: Sequence[Share],
        combine: Callable[[Answer, Answer], Answer],
        what: str,
    ) -> Answer:
        """What is said of each share by a worker that reads it, combined in their order."""
        from atlas_splines.dask.clusters import tasks_of_each, told

        with self.progress.watched(what, len(shares)) as watch:
            return told(self._client, tasks_of_each(asked, shares), combine, watch)

    def told(
        self,
        asked: Task[Answer],
        source: Source,
        columns: Sequence[str],
        combine: Callable[[Answer, Answer], Answer],
        what: str,
    ) -> Answer:
        """What is said of a table."""
        if not self.are_others:
            return asked(self.counted_pieces(what, source, columns))
        return self.each(asked, source.shares(columns, self.count), combine, what)

    def summed(
        self, asked: Task[SummedRows], source: Source, columns: Sequence[str], before: Sequence[int]
    ) -> SummedRows:
        """Sums and newest rows of a table, of which so many rows come before each file."""
        if not self.are_others:
            return asked(self.counted_pieces("adding all other rows", source, columns))
        from atlas_splines.dask.clusters import summed, tasks_of_each

        shares = source.shares(columns, self.count, before)
        with self.progress.watched("adding all other rows", len(shares)) as watch:
            return summed(self._client, tasks_of_each(asked, shares), watch)

    def digested(
        self,
        asked: Task[SummedRows],
        source: Source,
        columns: Sequence[str],
        before: Sequence[int],
        more: Hashes,
    ) -> tuple[SummedRows, str]:
        """Sums and newest rows of a table, and the digest of all its rows and some more."""
        if not self.are_others:
            done = asked(self.counted_pieces("adding all other rows", source, columns))
            digest = RowDigest()
            digest.add_hashes(done.hashes)
            digest.add_hashes(more)
            return done, digest.text
        from atlas_splines.dask.clusters import digested, tasks_of_each

        shares = source.shares(columns, self.count, before)
        with self.progress.watched("adding all other rows", len(shares)) as watch:
            return digested(self._client, tasks_of_each(asked, shares), more, watch)


def check_rows(source: Source, rows: int) -> None:
    """Refuse a table of which there is nothing to learn."""
    if not rows:
        raise TableError(f"{source.name} has no rows with a target below its header; check the file")


# --- surveys ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surveyed:
    """What was found out about some pieces, and the number of their rows."""

    survey: TableSurvey
    counts: Counts

    def __add__(self, later: Surveyed) -> Surveyed:
        both = copy.deepcopy(self.survey)  # the answer of a worker may be needed again
        if not both.followed_by(later.survey):
            raise TableError("parts of the table differ")
        return Surveyed(both, Counts(self.counts | later.counts))


@dataclass(frozen=True)
class Surveying:
    """Find out what pieces hold, with a survey that has seen nothing."""

    start: TableSurvey

    def __call__(self, pieces: Iterable[Piece]) -> Surveyed:
        """The survey of some pieces."""
        survey, counts = copy.deepcopy(self.start), Counts()
        for piece in pieces:
            counts[piece.place] = piece.table.num_rows, int(survey.add(piece).sum())
        return Surveyed(survey, counts)


def survey_table(
    source: Source, survey: TableSurvey, beside: Sequence[str], capacity: int, seed: int, workers: Workers
) -> tuple[Encoding, Sample]:
    """How the columns of a table become inputs and targets, and a sample of its rows.

    Columns `beside` come with the sample as they are.
    """
    columns = [*survey.columns, survey.target, *beside]
    if workers.are_others and has_more_rows(source, survey.target, capacity):
        # what is wrong is said by who reads the table in order: only so the first wrong row is known
        with suppress(TableError):
            return survey_apart(source, survey, columns, capacity, seed, workers)
    reservoir = Reservoir(capacity, seed)
    for piece in source.pieces(columns):
        there = survey.add(piece)
        reservoir.add(piece.table.filter(there), piece.row_numbers[there])
    check_rows(source, reservoir.seen)
    sample = Sample.held_by(reservoir)
    return survey.encoding(source, sample.rows, sample.seen), sample


def has_more_rows(source: Source, column: str, count: int) -> bool:
    """Whether a table has more rows than that; not many more of them are read."""
    rows = 0
    for piece in source.pieces([column]):
        rows += piece.table.num_rows
        if rows > count:
            return True
    return False


def survey_apart(
    source: Source, survey: TableSurvey, columns: Sequence[str], capacity: int, seed: int, workers: Workers
) -> tuple[Encoding, Sample]:
    """The same by workers, each of which reads whole files: to a survey the order of pieces matters."""
    found = workers.each(Surveying(survey), source.shares(columns), add, "survey")
    check_rows(source, found.counts.labelled)
    picking = Picking.of(found.counts, capacity, seed, survey.present)
    shares = source.shares(columns, workers.count, found.counts.before_files)
    sample = Sample.of_picked(workers.each(picking, shares, add, "sample"), found.counts)
    return found.survey.encoding(source, sample.rows, sample.seen), sample


def news_of(source: Source, encoding: Encoding, workers: Workers) -> News:
    """Which categories and classes of a table are new."""
    columns = news_columns(encoding, source)
    if not columns:
        return News({})
    if workers.are_others:
        with suppress(TableError):  # as above
            asked, shares = partial(find_news, encoding=encoding), source.shares(columns)
            return checked_news(source, encoding, workers.each(asked, shares, or_, "survey"))
    return checked_news(source, encoding, find_news(source.pieces(columns), encoding))


# --- scores -----------------------------------------------------------------------------------------------

# of each piece its place, its rows, and how well they are predicted
Scored = list[tuple[tuple[int, int], int, Score]]


@dataclass(frozen=True)
class Scoring:
    """Find out how well an estimator predicts pieces."""

    estimator: Estimator
    row_reader: RowReader

    def __call__(self, pieces: Iterable[Piece]) -> Scored:
        """The score of each piece."""
        scores = []
        for piece in pieces:
            rows = self.row_reader(piece)
            score = Score().add(self.estimator, rows.X, rows.y)
            scores.append((piece.place, piece.table.num_rows, score))
        return scores


def total_score(scores: Scored) -> Score:
    """The score of all pieces, added up in their order."""
    return sum((score for _, _, score in sorted(scores, key=lambda scored: scored[0])), Score())


# --- sums -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Summing:
    """Sum the rows of pieces, but for some numbers of rows."""

    asked: RowsToSum
    row_reader: RowReader
    without: NDArray[np.int64]

    def __call__(self, pieces: Iterable[Piece]) -> SummedRows:
        """Sums of the rows of some pieces, hashes if they are asked for, and the newest rows to be kept."""
        total, digest, newest = RowSums({}, {}), RowDigest(), self.asked.summer.no_rows
        for piece in pieces:
            rows = self.row_reader(piece).without(self.without)
            done = self.asked(rows.X, rows.y, numbers=rows.numbers)
            total += done.sums
            digest.add_hashes(done.hashes)
            newest += done.newest
        return SummedRows(total, digest.hashes, newest)


@dataclass(frozen=True)
class NewRows:
    """A table of new rows, as an estimator reads them, and who reads it."""

    estimator: Estimator
    source: Source
    row_reader: RowReader
    workers: Workers

    def score(self) -> Score:
        """How well the estimator predicts the rows, as it is now."""
        return total_score(self._scores())

    def _scores(self) -> Scored:
        asked = Scoring(self.estimator, self.row_reader)
        return self.workers.told(asked, self.source, self.row_reader.columns, add, "scores")

    def score_and_sample(self, capacity: int, seed: int) -> tuple[Score, Sample]:
        """How well the estimator predicts the rows, and a sample of them."""
        if self.workers.are_others:
            return self._score_and_sample_apart(capacity, seed)
        asked, reservoir, scores = Scoring(self.estimator, self.row_reader), Reservoir(capacity, seed), []
        for piece in self.source.pieces(self.row_reader.columns):
            scores += asked([piece])
            there = self.row_reader.there(piece)
            reservoir.add(piece.table.filter(there), piece.row_numbers[there])
        check_rows(self.source, reservoir.seen)
        return total_score(scores), Sample.held_by(reservoir)

    def _score_and_sample_apart(self, capacity: int, seed: int) -> tuple[Score, Sample]:
        scores = self._scores()
        counts = Counts({place: (rows, score.rows + score.outside) for place, rows, score in scores})
        check_rows(self.source, counts.labelled)
        picking = Picking.of(counts, capacity, seed, self.row_reader.there)
        shares = self.source.shares(self.row_reader.columns, self.workers.count, counts.before_files)
        picked = self.workers.each(picking, shares, add, "sample")
        return total_score(scores), Sample.of_picked(picked, counts)

    def others(self, sample: Sample, learned: Hashes) -> tuple[SummedRows, str]:
        """Sums of the rows that are not in a sample, those of them that are kept, and the digest of all."""
        summing = Summing(RowsToSum(self.estimator, hashed=True), self.row_reader, sample.numbers)
        return self.workers.digested(summing, self.source, self.row_reader.columns, sample.before, learned)
