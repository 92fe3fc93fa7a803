"""The paper's experiments from Python.

`reproduce` does what the command ``atlas paper`` does. It runs the trials that are missing in a folder, draws
every figure there, and returns the path of the report.

Examples
--------
>>> Settings(optimizer="lazy-adam").epochs
50
>>> two_tasks(inputs=2, width=0.3, trial=0, samples=100).train[0].X.shape
(100, 2)

``reproduce(Path("paper"), trials=1, settings=Settings(), jobs=2)`` runs one trial of everything.
"""

from atlas_splines.experiments.boxes import BoxTasks, box_tasks, rbf_target
from atlas_splines.experiments.jobs import RunError
from atlas_splines.experiments.paper.reproduction import reproduce
from atlas_splines.experiments.paper.tasks import TwoTasks, two_tasks
from atlas_splines.experiments.paper.trials import Settings

__all__ = [
    "BoxTasks",
    "RunError",
    "Settings",
    "TwoTasks",
    "box_tasks",
    "rbf_target",
    "reproduce",
    "two_tasks",
]
