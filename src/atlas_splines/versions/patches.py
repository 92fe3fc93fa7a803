"""Patches: small files that turn one version of a model into the next, to the bit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import numpy as np

from atlas_splines.core.linear_algebra import ONE_THREAD_EACH
from atlas_splines.core.model import state_of
from atlas_splines.core.records import chain_of, next_id
from atlas_splines.estimators.table_model import TableModel
from atlas_splines.files.archive import Archive, read_archive, write_archive
from atlas_splines.files.errors import StorageError, naming
from atlas_splines.files.fields import Fields
from atlas_splines.memory.owners import evidence_of
from atlas_splines.storage.logs import HASH
from atlas_splines.storage.saving import KINDS, from_archive, to_archive
from atlas_splines.versions.additions import MODEL, Additions, additions_of, chain_at, follow, pools_of
from atlas_splines.versions.delta import (
    Delta,
    delta_from_archive,
    delta_of,
    delta_to_archive,
    joined,
    ledger_of,
)
from atlas_splines.versions.differences import entry_key
from atlas_splines.versions.merging import merged_with
from atlas_splines.versions.packing import pack, unpack
from atlas_splines.versions.patch_files import ROWS, additions_from_archive, additions_to_archive
from atlas_splines.versions.pools import check_memory
from atlas_splines.versions.versioned import (
    Versioned,
    estimator_of,
    model_of,
    version,
    with_estimator,
    with_model,
)

__all__ = ["Patch", "PatchError", "apply", "patch", "read_patch"]

Content = Literal["contributions", "additions", "whole"]
WRONG = (ValueError, TypeError, ArithmeticError, LookupError)  # what content that makes no sense may raise
FIELDS = ("parent", "result", "content", "last", "chain")


class PatchError(ValueError):
    """A patch does not go with a model; the message says why, and what to do."""


@dataclass(frozen=True, eq=False)
class Patch:
    """What turns one version of a model into another.

    Attributes
    ----------
    parent, result
        Versions before and after, as `version` has them.
    content
        "contributions": rows that were learned or left since, of a model that keeps rows; "additions": what
        updates have added to sums and charts; or "whole": every part that has changed. Other versions can be
        merged with the first two.
    last, chain
        Number of the last update of the parent, and the hash over its log.
    inner
        The content as the parts of an archive.
    """

    parent: str
    result: str
    content: Content
    last: int
    chain: str
    inner: Archive

    @property
    def rows(self) -> int | None:
        """How many rows of data it carries, besides sums; None if it is of a model that keeps none."""
        if self.content == "contributions":
            table = self.inner.tensors.get("delta.contributions")
            return 0 if table is None else int(table[:, 2].sum())
        pools = self.inner.header.get("pools", ()) if self.content == "additions" else ()
        counts = [pool[ROWS] for pool in pools if isinstance(pool, dict) and type(pool.get(ROWS)) is int]
        return sum(counts) if counts else None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, all at once.

        Parameters
        ----------
        path
            The file, by custom with the ending ``.patch``; one of that name is replaced.
        """
        header = {name: getattr(self, name) for name in FIELDS} | {"kind": self.inner.kind}
        write_archive(
            path, Archive("patch", {"patch": header}, dict(pack(self.inner.header, self.inner.tensors)))
        )


def read_patch(path: str | os.PathLike[str]) -> Patch:
    """Read what `Patch.save` wrote; a file that is damaged, or no patch, gets a `StorageError`.

    Parameters
    ----------
    path
        The file.
    """
    archive = read_archive(path)
    if archive.kind != "patch":
        raise StorageError(f"{path} is no patch; make one with atlas patch")
    with naming(path):
        outer = Fields(archive.header, "the header", ("patch",))
        fields = Fields(outer.value["patch"], "the patch", (*FIELDS, "kind"))
        return Patch(
            fields.text("parent", HASH),
            fields.text("result", HASH),
            cast(Content, fields.choice("content", get_args(Content))),
            fields.whole("last"),
            fields.text("chain", HASH),
            unpack(archive, fields.choice("kind", KINDS)),
        )


def patch(old: Versioned, new: Versioned, *, portable: bool = False) -> Patch:
    """Make the patch that turns an old version of a model into a new one.

    Of updates that were pooled or opened charts it has what they added; coefficients that follow from
    evidence are solved for again when it is applied. Anything else, such as training or a consolidation,
    makes it as large as the parts that have changed.

    Parameters
    ----------
    old, new
        Two versions of a model.
    portable
        Whether coefficients that could be solved for are in the patch too: machines with other libraries for
        linear algebra than this one may find other bits.

    Examples
    --------
    >>> from atlas_splines import Atlas, update
    >>> old = Atlas(inputs=2)
    >>> new = old.copy()
    >>> done = update(new, [[0.2, 0.3], [0.4, 0.4]], [1.0, 2.0], epochs=2, random_state=0)
    >>> fix = patch(old, new)
    >>> version(apply(old, fix)) == version(new)
    True
    >>> apply(new, fix)
    Traceback (most recent call last):
    ...
    atlas_splines.versions.patches.PatchError: the patch is applied already: this is the version it makes
    """
    before, after = model_of(old), model_of(new)
    head = (version(old), version(new))
    if head[0] == head[1]:
        raise ValueError("the two versions are the same, so there is nothing to patch")
    log = (next_id(before.updates) - 1, chain_of(before.updates))
    if not portable and ledger_of(old) is not None and ledger_of(new) is not None:
        found = patch_of_rows(old, new, head, log)
        if found is not None:
            return found
    try:
        added = additions_of(before, after)
        same = version(with_model(old, follow(before, added))) == head[1]
    except ValueError:
        same = False
    if same and not (portable and added.pools):
        return Patch(*head, "additions", *log, additions_to_archive(added, pools_of(state_of(after)), after))
    return Patch(*head, "whole", *log, changed_parts(to_archive(old), to_archive(new)))


def patch_of_rows(
    old: Versioned, new: Versioned, head: tuple[str, str], log: tuple[int, str]
) -> Patch | None:
    """The patch of contributions; None if more than these has changed."""
    estimator, newer = estimator_of(old), estimator_of(new)
    assert estimator is not None
    assert newer is not None
    try:
        delta = delta_of(old, new)
        same = version(with_estimator(old, joined(estimator, delta))) == head[1]
    except ValueError:
        return None
    return Patch(*head, "contributions", *log, delta_to_archive(delta, newer)) if same else None


def changed_parts(old: Archive, new: Archive) -> Archive:
    """The header of a model, with the tensors that an older version has not."""
    same = {
        name: name
        for name, array in new.tensors.items()
        if name in old.tensors
        and old.tensors[name].dtype == array.dtype
        and np.array_equal(old.tensors[name], array)
    }
    changed = {name: array for name, array in new.tensors.items() if name not in same}
    return Archive(new.kind, {"whole": new.header, "same": sorted(same)}, changed)


@ONE_THREAD_EACH
def apply(model: Versioned, patch: Patch, *, merge: bool = False) -> Versioned:
    """The version that a patch makes of a model, to the bit; the model stays as it is.

    Parameters
    ----------
    model
        The version that the patch was made for.
    patch
        The patch.
    merge
        Whether a model that has learned something else since may be merged with it, as in `merge`.

    Returns
    -------
    The new version. A patch that does not go with the model gets a `PatchError`.
    """
    now = version(model)
    if now == patch.result:
        raise PatchError("the patch is applied already: this is the version it makes")
    if now != patch.parent:
        check_descent(model, patch)
        if not merge:
            raise PatchError("the model has learned something else since; merge the patch with --merge")
        return merged_with_patch(model, patch)
    with damage_named():
        result = applied(model, patch)
    if version(result) != patch.result:
        raise PatchError(
            "this machine computes other bits than the one that made the patch; make it with --portable"
        )
    return result


@contextlib.contextmanager
def damage_named() -> Iterator[None]:
    """Say that a patch is damaged, or was made to do harm, if its content does not make sense."""
    try:
        yield
    except PatchError:
        raise
    except WRONG as error:
        raise PatchError(f"the patch is damaged: {error}; get it again") from error


def additions_in(patch: Patch, model: Versioned) -> Additions:
    """What a patch adds to a model."""
    with damage_named():
        return additions_from_archive(content_for(patch, to_archive(model)))


def delta_in(patch: Patch, model: Versioned) -> Delta:
    """What a patch of contributions changes."""
    with damage_named():
        archive = content_for(patch, to_archive(model))
        delta = delta_from_archive(archive)
        archive.check_all_taken()
        return delta


def joined_with(model: Versioned, delta: Delta) -> Versioned:
    """A model with the contributions of a patch, or a sentence that it keeps no rows."""
    estimator = estimator_of(model)
    if estimator is None or ledger_of(model) is None:
        raise PatchError(
            "the patch carries rows, and the model keeps sums alone; use one of a model with memory='sums'"
        )
    return with_estimator(model, joined(estimator, delta))


def content_for(patch: Patch, model: Archive) -> Archive:
    """The content of a patch, to be read once: it may take as much memory as both files have a claim to."""
    inner = patch.inner
    claim = inner.held if inner.claim is None else inner.claim
    return replace(inner, taken=set(), claim=claim + model.held)


def applied(model: Versioned, patch: Patch) -> Versioned:
    """What a patch makes of its parent."""
    if patch.content == "additions":
        return with_model(model, follow(model_of(model), additions_in(patch, model)))
    if patch.content == "contributions":
        return joined_with(model, delta_in(patch, model))
    fields = Fields(patch.inner.header, "the patch", ("whole", "same"))
    old = to_archive(model)
    names = fields.items("same")
    if any(type(name) is not str or name not in old.tensors for name in names):
        raise ValueError("it builds on parts that the model has not")
    tensors = {name: old.tensors[name] for name in names} | patch.inner.tensors
    archive = replace(content_for(patch, old), header=fields.mapping("whole"), tensors=tensors)
    result = from_archive(archive)
    archive.check_all_taken()
    if isinstance(result, TableModel) and not isinstance(model, TableModel):
        return result.for_frames()
    return result


def check_descent(model: Versioned, patch: Patch) -> None:
    """Refuse a patch for a version that the model does not come from."""
    log = model_of(model).updates
    last = next_id(log) - 1
    if last < patch.last and chain_of(log) != patch.chain:
        raise PatchError(
            f"the patch goes on from update {patch.last}, and the model has {last}; "
            "apply the patches before it first"
        )
    if chain_at(log, patch.last) != patch.chain:
        raise PatchError("the patch was made for another model; check the names")
    known = {entry_key(record) for record in log}
    if patch.content == "contributions":
        records = delta_in(patch, model).records
    elif patch.content == "additions":
        added = additions_in(patch, model)
        check_kind(model, added)
        records = added.records
    else:
        return
    if records and all(entry_key(record) in known for record in records):
        raise PatchError("the patch is applied already: its updates are in the log")


def check_kind(model: Versioned, added: Additions) -> None:
    """Refuse a patch with rows for a model that keeps none, and one without for a model that keeps them."""
    pool = evidence_of(state_of(model_of(model)))
    if pool is not None and MODEL in added.pools:
        try:
            check_memory(pool, added.pools[MODEL])
        except ValueError as error:
            raise PatchError(f"the patch does not fit: {error}") from None


def merged_with_patch(model: Versioned, patch: Patch) -> Versioned:
    """A model merged with a patch for a version that it comes from."""
    if patch.content == "whole":
        raise PatchError(
            "the patch changes more than updates add, so it cannot be merged; use atlas merge with the models"
        )
    try:
        if patch.content == "contributions":
            return joined_with(model, delta_in(patch, model))
        return with_model(model, merged_with(model_of(model), additions_in(patch, model)))
    except WRONG as error:
        raise PatchError(f"the patch cannot be merged: {error}") from None
