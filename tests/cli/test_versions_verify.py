import json
from pathlib import Path

from command import app, ok, refused, run


def test_verify_says_that_all_is_well_or_what_is_not(work):
    ok("update", "m.atlas", "new.csv", "--message", "prices of May", "--author", "Ada")
    entry = json.loads(ok("log", "m.atlas").stdout)
    assert (entry["message"], entry["author"], len(entry["data"])) == ("prices of May", "Ada", 64)
    first, second = ok("verify", "m.atlas").stdout.splitlines()
    assert first == "m.atlas: every hash is right, over 1 update."
    version = second.removeprefix("Version: ")
    ok("verify", "m.atlas", "--expect", version)
    assert run(app, ["verify", "m.atlas", "--expect", "0" * 64]).exit_code == 1
    data = bytearray(Path("m.atlas").read_bytes())
    data[-1] ^= 1
    Path("m.atlas").write_bytes(data)
    result = run(app, ["verify", "m.atlas"])
    assert result.exit_code == 1
    assert result.stdout.startswith("m.atlas: its checksum is wrong, so some of its bytes have changed.\n")
    assert "altered" in result.stdout
    assert refused("verify", "no.atlas") == "no.atlas does not exist or is not a file; check the name"
