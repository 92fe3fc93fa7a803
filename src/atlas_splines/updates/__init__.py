"""Updates without forgetting: plan, footprint, routing, change detection, assessment, consolidation, the log.

May import `model`, `files` and `memory`.
"""
