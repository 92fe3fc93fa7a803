"""Version control of models: compare, patch, merge, verify, replay and forget (machine unlearning), exactly.

Imports `io` and everything below it; only the command and experiments may import it.
"""

from atlas_splines.versions.diff import Difference, diff
from atlas_splines.versions.forget import Receipt, forget
from atlas_splines.versions.merge import Conflict, MergeConflict, merge
from atlas_splines.versions.patch import Patch, PatchError, apply, patch, read_patch
from atlas_splines.versions.replay import Replay, replay
from atlas_splines.versions.verify import Verification, verify
from atlas_splines.versions.version import version

__all__ = [
    "Conflict",
    "Difference",
    "MergeConflict",
    "Patch",
    "PatchError",
    "Receipt",
    "Replay",
    "Verification",
    "apply",
    "diff",
    "forget",
    "merge",
    "patch",
    "read_patch",
    "replay",
    "verify",
    "version",
]
