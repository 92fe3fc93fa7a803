"""A minute of the attacks that `benchmarks/fuzz.py` can go on with, always the same ones."""

from random import Random

import pytest
from attacks import attacks

CASES = {
    "wrong files": 500,
    "kills": 30,
    "full disk": 50,
    "readers during writes": 10,
    "threads": 10,
    "hostile tables": 60,
}


@pytest.fixture(scope="module")
def every_attack(tmp_path_factory):
    return attacks(tmp_path_factory.mktemp("attacks"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_attacks_fail(name, every_attack):
    outcomes = [every_attack[name](Random(f"test/{case}")) for case in range(CASES[name])]
    assert len(outcomes) == CASES[name]  # none has raised


def test_every_attack_is_tried(every_attack):
    assert set(every_attack) == set(CASES)
