"""Storage primitives: archives of a JSON header and arrays, an atomic writer, locks, checked fields.

May import `model` (its argument checks only), so that every other folder can write through it.
"""
