"""Long logs: the latest entries in full, the others in one, and a hash over all."""

import hashlib
from datetime import datetime, timedelta, timezone

import pytest

from atlas_splines.model import log as records
from atlas_splines.model.log import (
    START,
    Folded,
    Record,
    chain_of,
    count_of,
    gaps_in,
    next_id,
    shortened,
)

BEGIN = datetime(2024, 1, 1, tzinfo=timezone.utc)


def entry(number):
    before, after = (f"{k:064x}" for k in (number - 1, number))
    return Record(number, "pool", BEGIN + timedelta(hours=number), 10 * number, before, after)


def holds_none(_):
    return False


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(records, "KEPT", 5)


def grown(count, holds=holds_none):
    log = []
    for number in range(1, count + 1):
        log = shortened([*log, entry(number)], holds)
    return log


def test_a_short_log_is_left_alone(few):
    log = [entry(number) for number in range(1, 6)]
    assert shortened(log, holds_none) == log
    assert shortened([], holds_none) == []


def test_the_latest_entries_stay_and_the_others_are_one(few):
    folded, *rest = grown(12)
    assert isinstance(folded, Folded)
    assert [record.id for record in rest] == [8, 9, 10, 11, 12]
    assert (folded.id, folded.kind, folded.count, folded.last) == (0, "folded", 7, 7)
    assert folded.rows == 10 * sum(range(1, 8))
    assert (folded.since, folded.time) == (entry(1).time, entry(7).time)
    assert (folded.before, folded.after) == (entry(1).before, entry(7).after)
    assert count_of([folded, *rest]) == 12
    assert next_id([folded, *rest]) == 13
    assert next_id([folded]) == 8
    assert "7 updates, 1 to 7" in repr(folded)


def test_folding_at_once_or_one_by_one_is_the_same(few):
    whole = shortened([entry(number) for number in range(1, 13)], holds_none)
    assert vars(whole[0]) == vars(grown(12)[0])


def test_entries_that_can_be_taken_back_stay_too(few):
    log = grown(12, holds=lambda id: id in (2, 6))
    assert [record.id for record in log] == [0, 2, 6, 8, 9, 10, 11, 12]
    assert log[0].count == 7  # they are counted, and in its hash
    assert count_of(log) == 12
    log = shortened([*log, entry(13)], lambda id: id == 6)
    assert [record.id for record in log] == [0, 6, 9, 10, 11, 12, 13]
    assert chain_of(log) == chain_of(grown(13)) == chain_of([entry(number) for number in range(1, 14)])


def test_the_chain_is_as_documented(few):
    chain = "0" * 64
    assert chain_of([]) == START == chain
    for number in range(1, 13):
        e = entry(number)
        line = f"{chain} {e.id} {e.kind} {e.time.isoformat()} {e.rows} {e.before} {e.after}"
        chain = hashlib.sha256(line.encode()).hexdigest()
    assert chain_of(grown(12)) == chain


@pytest.mark.parametrize("field", ["id", "kind", "time", "rows", "before", "after"])
def test_any_change_of_an_entry_shows_in_the_chain(field):
    log, other = [entry(1), entry(2)], [entry(1), entry(2)]
    setattr(other[0], field, getattr(entry(3), field) if field != "kind" else "none")
    assert chain_of(other) != chain_of(log)


def test_gaps_are_where_an_entry_does_not_begin_with_what_was(few):
    log = [entry(1), entry(2), entry(4), entry(5)]
    assert gaps_in(log) == [4]
    log = [entry(number) for number in (*range(1, 8), *range(9, 15))]
    assert gaps_in(log) == [9]
    assert gaps_in(shortened(log, lambda id: id == 3)) == []  # folded with the others
