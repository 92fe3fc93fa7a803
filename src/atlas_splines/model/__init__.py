"""The model itself: splines, compiled kernels, losses, charts, `Atlas`, and the engine that trains it.

Knows nothing of any other folder; all of them may import it. All numba code is in `kernels`.
"""
