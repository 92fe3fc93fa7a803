"""The ATLAS function: B-splines, compiled kernels, charts, the immutable `State`, `Atlas`, and its training.

May import no other folder, and every folder may import it. All numba code is in `kernels`.
"""
