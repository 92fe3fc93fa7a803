"""The paper's experiments and the arena, on public names only, with what long runs and pages share.

Only the command imports it.
"""
