"""Version control for models: compare, patch, merge, verify and forget, to the bit.

Imports `storage` and everything below it; only the command and experiments may import it.
"""

from atlas_splines.versions.differences import Difference, diff
from atlas_splines.versions.forgetting import Receipt, forget
from atlas_splines.versions.merging import Conflict, MergeConflict, merge
from atlas_splines.versions.patches import Patch, PatchError, apply, patch, read_patch
from atlas_splines.versions.replaying import Replay, replay
from atlas_splines.versions.verifying import Verification, verify
from atlas_splines.versions.versioned import version

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
