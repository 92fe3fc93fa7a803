"""The `atlas` command: its options in `app`, and a file for each command that says what it does.

May import every folder; nothing imports it. The only folder that imports typer. `app` and `messages` load
nothing heavy, and `app` imports a command's file when that command runs.
"""
