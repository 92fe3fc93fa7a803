import pytest
from distributed import KilledWorker

from atlas_splines.dask import feeding
from atlas_splines.dask.feeding import fed


def doubled(piece, asked):
    return asked * piece


def test_answers_come_in_order_and_few_pieces_are_on_their_way(client):
    taken = []

    def pieces():
        for k in range(20):
            taken.append(k)
            yield k

    answers = fed(client, doubled, 2, pieces())
    assert next(answers) == 0
    assert len(taken) == 1 + feeding.AHEAD  # for one worker
    assert list(answers) == list(range(2, 40, 2))


def test_lost_workers_are_named(monkeypatch, client):
    class Lost(KilledWorker):
        def __init__(self):
            super(Exception, self).__init__("lost")

    address = client.scheduler.address
    sentence = r"the Dask workers were lost \(Lost\), and nothing was written; start them again"
    with pytest.raises(RuntimeError, match=sentence), feeding.connected(None, address):
        raise Lost
