"""Bytes on disk, whatever they mean: checked archives, one atomic writer, locks.

Imports the checks of `core` only, so that every other folder can write through it.
"""
