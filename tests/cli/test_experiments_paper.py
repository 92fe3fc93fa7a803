import re

import pytest
from command import app, run


def test_paper_names_a_folder_that_cannot_be_used(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf8")
    result = run(app, ["paper", "--quick", "--output", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert re.search(r"cannot write to .*file: Not a directory; choose another --output", result.output)


@pytest.mark.parametrize(
    "option", [["--trials", "0"], ["--jobs", "0"], ["--optimizer", "sgd"], ["--damping", "-1"]]
)
def test_paper_refuses_bad_options(option):
    result = run(app, ["paper", *option])
    assert result.exit_code == 2
    assert option[0] in result.output
