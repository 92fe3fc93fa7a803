"""The arena from Python: memory retention against what one would use instead.

`compete` does what the command ``atlas arena`` does. It runs what is missing in a folder, writes a table,
pictures and a page there, and returns the results.

Examples
--------
>>> competition = make_competition(quick=True, seeds=2, methods=["atlas-charts", "mlp"], protocols=[3])
>>> [cell.label for cell in competition.cells]
['five peaks']

``compete(Path("arena"), competition, jobs=2)`` then runs it, and `text_table` shows what it returns.
"""

from atlas_splines.experiments.arena.competition import FULL, QUICK, Competition, compete, make_competition
from atlas_splines.experiments.arena.methods import METHODS, STREAM_METHODS
from atlas_splines.experiments.arena.methods.base import Method, Setup
from atlas_splines.experiments.arena.protocols import PROTOCOLS
from atlas_splines.experiments.arena.ranking import Results
from atlas_splines.experiments.arena.report import findings, markdown_table, text_table
from atlas_splines.experiments.arena.stream_data import BUILT_IN_STREAMS, StreamSource, file_stream
from atlas_splines.experiments.arena.tasks import Problem, Task
from atlas_splines.experiments.jobs import RunError

__all__ = [
    "BUILT_IN_STREAMS",
    "FULL",
    "METHODS",
    "PROTOCOLS",
    "QUICK",
    "STREAM_METHODS",
    "Competition",
    "Method",
    "Problem",
    "Results",
    "RunError",
    "Setup",
    "StreamSource",
    "Task",
    "compete",
    "file_stream",
    "findings",
    "make_competition",
    "markdown_table",
    "text_table",
]
