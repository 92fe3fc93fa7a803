"""Patches give the bits they were made from, and go with nothing else."""

import copy
from dataclasses import replace
from itertools import pairwise
from random import Random

import level_rows
import numpy as np
import pytest
from branches import FEW, branch, charted, fitted, rows
from mutations import (
    File,
    edit_place,
    monotone_regressor,
    places,
    rich_model,
    small_classifier,
    updated_table_model,
)

from atlas_splines import Atlas, AtlasRegressor, StorageError, consolidate, load, save, train
from atlas_splines.files.archive import Archive
from atlas_splines.versions import PatchError, apply, merge, patch, read_patch, version


def through_a_file(fix, path):
    fix.save(path)
    return read_patch(path)


@pytest.mark.parametrize("retention", ["pool", "auto"])
@pytest.mark.parametrize("deeds", [(1,), (1, 2, 3), ((0, 1),), ((0, 1), 2, (0, 3))])
def test_what_updates_added_gives_the_same_bits(retention, deeds, path):
    old = fitted(retention)
    new = branch(old, *deeds)
    before = version(old)
    fix = through_a_file(patch(old, new), path)
    assert fix.content == "additions"
    assert version(apply(old, fix)) == version(new) == fix.result
    assert version(old) == before == fix.parent


def test_one_patch_after_the_other():
    models = [fitted("auto")]
    for seed in range(6):
        models.append(branch(models[-1], seed))
    fixes = [patch(a, b) for a, b in pairwise(models)]
    model = models[0]
    for fix in fixes:
        model = apply(model, fix)
    assert version(model) == version(models[-1])
    with pytest.raises(
        PatchError, match="begins after update 3, and the model has 2; apply the patches before it"
    ):
        apply(models[0], fixes[1])
    with pytest.raises(PatchError, match="the patch is applied already: its updates are in the log"):
        apply(model, fixes[0])
    with pytest.raises(PatchError, match="the patch is applied already: this is the version it makes"):
        apply(models[1], fixes[0])


def test_a_patch_is_small(path):
    options = {**FEW, "features": 100, "retention": "pool"}
    old = AtlasRegressor(**options).fit(*rows(300, 0))
    for seed in range(5):
        old.partial_fit(*rows(12, seed))
    new = branch(old, 9)
    sizes = []
    for fix in (patch(old, new), patch(old, new, portable=True)):
        fix.save(path)
        sizes.append(path.stat().st_size)
    save(new, path)
    small, portable, whole = *sizes, path.stat().st_size
    assert small < portable < whole
    assert small < 0.2 * whole


def test_portable_patches_have_all_coefficients(path):
    old = fitted("pool")
    new = branch(old, 1)
    fix = through_a_file(patch(old, new, portable=True), path)
    assert version(apply(old, fix)) == version(new)
    with pytest.raises(PatchError, match="changes more than updates add, so it cannot be merged"):
        apply(branch(old, 2), fix, merge=True)


def reverted(model):
    return model.revert(model.update_log_[-1].id)


def forgot(model):
    return model.forget(*rows(12, 101))


def more_of_the_first_data(model):
    return model.fit_more(*rows(20, 3))


@pytest.mark.parametrize("deed", [reverted, forgot, more_of_the_first_data])
def test_whatever_else_has_changed(deed, path):
    old = fitted("pool")
    new = deed(copy.deepcopy(old))
    assert version(apply(old, through_a_file(patch(old, new), path))) == version(new)


def test_training_and_consolidation(path):
    old = charted(Atlas(inputs=2, density=0, terms=1), 0)
    for deed in (
        lambda model: train(model, rows(20, 0)[0], rows(20, 0)[1], epochs=1, random_state=0),
        lambda model: consolidate(model, tolerance=1e6, samples=50, epochs=1, random_state=0),
        lambda model: model.extend([-0.5, 0], [1, 1]),
        lambda model: model.revert(1),
    ):
        new = old.copy()
        deed(new)
        assert version(apply(old, through_a_file(patch(old, new), path))) == version(new)


@pytest.mark.slow
@pytest.mark.parametrize("make", [rich_model, small_classifier, updated_table_model])
def test_all_kinds_of_models(make, path):
    old = make()
    new = copy.deepcopy(old)
    inner = getattr(new, "estimator", new)
    if isinstance(inner, Atlas):
        new = charted(inner, 2)
    elif hasattr(inner, "classes_"):
        inner.partial_fit(np.random.default_rng(0).normal(size=(30, 2)), np.repeat("mid", 30), accept=True)
    else:
        inner.revert(1)
    assert version(apply(old, through_a_file(patch(old, new), path))) == version(new)


def test_a_patch_goes_with_no_other_model(path):
    old = fitted("pool")
    fix = patch(old, branch(old, 1))
    other = branch(fitted("pool", 1), 7)
    with pytest.raises(PatchError, match="was made for another model; check the names"):
        apply(other, fix)
    with pytest.raises(PatchError, match="the model has other updates since; merge the patch with --merge"):
        apply(branch(old, 2), fix)
    forgetful = copy.deepcopy(old).forget(*rows(12, 101))
    with pytest.raises(PatchError, match="the model has other updates since"):
        apply(forgetful, fix)


@pytest.mark.parametrize("retention", ["pool", "auto"])
@pytest.mark.parametrize(
    ("ours", "theirs"), [((1, 2), (3,)), (((0, 1),), ((3, 2),)), ((1, 2, 3, 4, 5, 6), ((2, 1), 8))]
)
def test_a_patch_is_merged_as_its_model_would_be(retention, ours, theirs, path):
    base = fitted(retention)
    one, other = branch(base, *ours), branch(base, *theirs)
    fix = through_a_file(patch(base, other), path)
    assert version(apply(one, fix, merge=True)) == version(merge(base, one, other))


def test_the_same_models_need_no_patch():
    with pytest.raises(ValueError, match="the two versions are the same, so there is nothing to patch"):
        patch(fitted("pool"), copy.deepcopy(fitted("pool")))


def test_wrong_patches_are_refused(path, tmp_path):
    old = fitted("pool")
    fix = patch(old, branch(old, 1))
    fix.save(path)
    with pytest.raises(StorageError, match="it is of an unknown kind"):
        load(path)
    save(old, tmp_path / "old.atlas")
    with pytest.raises(StorageError, match=r"old\.atlas is not a patch; make one with atlas patch"):
        read_patch(tmp_path / "old.atlas")
    data = path.read_bytes()
    path.write_bytes(data[:-1] + b"\0")
    with pytest.raises(StorageError, match="cannot be loaded"):
        read_patch(path)
    for name in ("header", "tensors"):
        file = File.open(data)
        file.values(name)[10] ^= 255
        path.write_bytes(file.seal())
        with pytest.raises(StorageError, match=r"packed|JSON|UTF|codec"):
            read_patch(path)
    file = File.open(data)
    file.envelope["header"]["patch"]["result"] = "0" * 64
    path.write_bytes(file.seal())
    with pytest.raises(PatchError, match="this machine computes other bits than the one that made the patch"):
        apply(old, read_patch(path))


def edited(fix, random):
    """A patch with something changed in its content, sealed again."""
    header = copy.deepcopy(fix.inner.header)
    tensors = {name: array.copy() for name, array in fix.inner.tensors.items()}
    if random.random() < 0.7:
        for parent, key in random.sample(list(places(header)), random.choice([1, 2])):
            edit_place(random, parent, key)
    else:
        name = random.choice(sorted(tensors))
        if random.random() < 0.3:
            del tensors[name]
        elif tensors[name].size:
            tensors[name].flat[random.randrange(tensors[name].size)] = random.choice([0, -1, 7, 2**31 - 1])
    return replace(fix, inner=Archive(fix.inner.kind, header, tensors))


@pytest.mark.parametrize("portable", [False, True])
def test_edited_patches_are_refused(portable):
    old = branch(fitted("auto"), (0, 1))
    fix = patch(old, branch(old, (0, 3), 2), portable=portable)
    other, random, refused = branch(old, 5), Random(0), 0
    for _ in range(60):
        wrong = edited(fix, random)
        for model, merge_it in ((old, False), (other, True)):
            try:
                result = apply(model, wrong, merge=merge_it)
            except PatchError:
                refused += 1
            else:
                assert merge_it or version(result) == fix.result
    assert refused > 60


@pytest.mark.slow
def test_models_that_rise_along_a_column(path):
    old = monotone_regressor()
    X = np.random.default_rng(1).random((20, 2))
    new = copy.deepcopy(old)
    new._update(*new._checked(X, X[:, 0], None), retention="pool", random_state=0)
    other = copy.deepcopy(old)
    other._update(*other._checked(X[:9], X[:9, 0], None), retention="pool", random_state=0)
    fix = through_a_file(patch(old, new), path)
    assert fix.content == "contributions"
    assert version(apply(old, fix)) == version(new)
    both = merge(old, new, other)
    assert version(both) == version(merge(old, other, new)) == version(apply(other, fix, merge=True))
    grid = np.column_stack([np.linspace(0, 1, 50), np.full(50, 0.5)])
    assert (np.diff(both.predict(grid)) >= 0).all()


@pytest.mark.slow
def test_classes_that_were_added(path):
    old = small_classifier()
    new = copy.deepcopy(old).add_classes(["top"])
    X = np.random.default_rng(1).normal(size=(20, 2))
    new.partial_fit(X, np.repeat(["top", "mid"], 10))
    assert version(apply(old, through_a_file(patch(old, new), path))) == version(new)
    other = copy.deepcopy(old).partial_fit(X, np.repeat("mid", 20), accept=True)
    with pytest.raises(
        ValueError, match="ours is not a version of the base: its columns, target or parameters differ"
    ):
        merge(old, new, other)


@pytest.mark.parametrize("retention", ["pool", "auto"])
def test_effects_of_levels_are_in_patches(retention, path):
    old = level_rows.fitted(retention)
    new = copy.deepcopy(old).partial_fit(*level_rows.both(60, 1)).partial_fit(*level_rows.both(60, 2))
    fix = through_a_file(patch(old, new), path)
    assert fix.content == "additions"
    patched = apply(old, fix)
    assert version(patched) == version(new)
    assert level_rows.effect_of(patched) == level_rows.effect_of(new)
