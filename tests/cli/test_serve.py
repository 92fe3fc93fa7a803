import sys

import pytest
from command import refused
from service import Service, fitted_homes

pytest.importorskip("starlette", reason="needs the extra serve")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return fitted_homes(tmp_path_factory.mktemp("fitted"))


def test_a_missing_file_is_named(tmp_path):
    path = tmp_path / "nothing.atlas"
    assert refused("serve", path) == f"{path} does not exist or is not a file; check the name"


def test_other_addresses_need_a_token(model):
    assert refused("serve", model, "--host", "0.0.0.0") == (
        "0.0.0.0 can be reached from elsewhere, which needs --token-file"
    )


def test_a_bad_token_is_refused(model, tmp_path):
    (tmp_path / "token").write_text("short")
    assert "must hold one word of 16 characters or more" in refused(
        "serve", model, "--token-file", tmp_path / "token"
    )


def test_a_contract_is_read_before_anything_is_served(model, tmp_path):
    rules = tmp_path / "rules.toml"
    assert refused("serve", model, "--contract", rules) == f"{rules} does not exist; check the name"
    rules.write_text('[[rule]]\nrises = "weight"\n')
    assert "'weight' is not a column" in refused("serve", model, "--port", 0, "--contract", rules)
    assert refused("serve", model, "--read-only", "--contract", rules) == (
        "--contract is about updates, which --read-only does not make; leave one of them out"
    )


def test_the_extra_is_named_where_it_lacks(model, monkeypatch):
    for name in [name for name in sys.modules if name.startswith("atlas_splines.serve")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refused("serve", model) == (
        "serving needs more packages; install them with: pip install 'atlas-splines[serve]'"
    )


@pytest.mark.slow
def test_play_shows_the_life_of_a_model(model):
    code = "import sys; from atlas_splines.cli.entry import main; sys.argv[1:2] = ['play', '--no-browser']; main()"
    with Service(model, code=code) as service:
        status, headers, body = service.ask("GET", "/")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert b"The life of a model" in body
        assert service.get("/life")["name"] == "homes.atlas"
