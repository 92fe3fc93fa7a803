import json
from pathlib import Path

from command import files, ok, refused


def test_the_log_is_written_as_lines_of_json(work):
    assert ok("log", "m.atlas").stdout == ""
    ok("update", "m.atlas", "new.csv")
    ok("update", "m.atlas", "homes.csv")
    first, second = map(json.loads, ok("log", "m.atlas").stdout.splitlines())
    assert (first["id"], first["rows"], second["rows"]) == (1, 60, 120)
    assert second["before"] == first["after"]
    assert list(first["footprint"])[:2] == ["size", "age"]
    assert json.loads(ok("log", "m.atlas", "--after", "1").stdout) == second
    ok("log", "m.atlas", "-o", "log.jsonl")
    assert Path("log.jsonl").read_text(encoding="utf8") == ok("log", "m.atlas").stdout


def test_a_log_does_not_replace_a_file(work):
    before = files(work)
    says = "homes.csv is there already; choose another name, or replace it with --force"
    assert refused("log", "m.atlas", "-o", "homes.csv") == says
    assert refused("log", "no.atlas") == "no.atlas does not exist or is not a file; check the name"
    assert files(work) == before
    ok("log", "m.atlas", "-o", "homes.csv", "--force")
    assert Path("homes.csv").read_bytes() == b""
