"""Random lives of small models: whatever is done in whatever order, promises hold together.

`python benchmarks/fuzz.py --machine` runs the same operations by hand, for as long as it is asked to.
"""

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from lives import OPERATIONS, WEIGHTS, Life

SEEDS = st.integers(0, 2**31 - 1)
CHOICES = [name for name in OPERATIONS for _ in range(WEIGHTS.get(name, 1))]
LIVES, STEPS = 20, 10


class Lives(RuleBasedStateMachine):
    """A life, step by step."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()

    @initialize(seed=SEEDS)
    def fit(self, seed):
        self.life = Life(seed, Path(self.folder.name))

    @rule(operation=st.sampled_from(CHOICES), seed=SEEDS)
    def go_on(self, operation, seed):
        self.life.step(operation, seed)

    def teardown(self):
        self.folder.cleanup()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_random_lives_add_up():
    run_state_machine_as_test(
        Lives,
        settings=settings(
            max_examples=LIVES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
