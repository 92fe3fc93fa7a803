import shutil
from pathlib import Path

import pytest
from command import HEADER, files, homes, ok, refused, write_csv


@pytest.fixture
def two(work):
    shutil.copy("m.atlas", "old.atlas")
    ok("update", "m.atlas", "new.csv", "--retention", "pool")
    predicted = ok("patch", "old.atlas", "m.atlas", "-o", "fix.patch").stdout
    assert predicted.startswith("fix.patch turns version ")
    return work


def test_a_patch_makes_the_same_file(two):
    shutil.copy("old.atlas", "copy.atlas")
    predicted = ok("apply", "copy.atlas", "fix.patch").stdout
    assert predicted.endswith(" now, with 1 update more.\n")
    assert Path("copy.atlas").read_bytes() == Path("m.atlas").read_bytes()
    assert Path("fix.patch").stat().st_size < Path("m.atlas").stat().st_size / 5
    ok("apply", "old.atlas", "fix.patch", "-o", "other.atlas")
    assert Path("other.atlas").read_bytes() == Path("m.atlas").read_bytes()


def test_a_patch_does_not_go_with_anything_else(two):
    before = files(two)
    twice = "fix.patch does not go with m.atlas: the patch is applied already: this is the version it makes"
    assert refused("apply", "m.atlas", "fix.patch") == twice
    assert refused("patch", "m.atlas", "m.atlas", "-o", "no.patch") == (
        "m.atlas and m.atlas: the two versions are the same, so there is nothing to patch"
    )
    assert refused("apply", "m.atlas", "old.atlas") == "old.atlas is not a patch; make one with atlas patch"
    assert "is there already" in refused("patch", "old.atlas", "m.atlas", "-o", "fix.patch")
    assert "is there already" in refused("patch", "old.atlas", "m.atlas", "-o", "old.atlas")
    assert files(two) == before


def test_a_model_that_has_learned_is_merged_if_that_is_said(two):
    write_csv("more.csv", HEADER, homes(40, seed=7))
    ok("update", "old.atlas", "more.csv", "--retention", "pool", "-o", "mine.atlas")
    says = "the model has other updates since; merge the patch with --merge"
    assert refused("apply", "mine.atlas", "fix.patch") == f"fix.patch does not go with mine.atlas: {says}"
    ok("apply", "mine.atlas", "fix.patch", "--merge", "-o", "merged.atlas")
    ok("merge", "old.atlas", "m.atlas", "mine.atlas", "-o", "both.atlas")
    assert Path("both.atlas").read_bytes() == Path("merged.atlas").read_bytes()
