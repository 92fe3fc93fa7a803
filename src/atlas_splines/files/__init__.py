"""Files: checked archives, the atomic writer, locks.

Imports the checks of `model` only, so that every other folder can write through it.
"""
