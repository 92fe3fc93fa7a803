"""Patches: the difference of two versions as a file, and models that apply it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from atlas_splines.files.archive import Archive, read_archive, write_archive
from atlas_splines.files.fields import Fields
from atlas_splines.files.writer import StorageError, naming
from atlas_splines.io.bare_models import read_domain
from atlas_splines.io.logs import HASH
from atlas_splines.io.memory import pool_from_archive, pool_header, pool_tensors
from atlas_splines.io.models import model_from_archive, model_to_archive
from atlas_splines.io.save_load import KINDS, from_archive, to_archive
from atlas_splines.memory.expert_weights import ExpertWeights
from atlas_splines.memory.kept_rows import HeldRows
from atlas_splines.memory.pool import Pool
from atlas_splines.memory.posterior import sums_of
from atlas_splines.memory.statistics import HEAVIEST, Statistics
from atlas_splines.model.atlas import Atlas, model_in, state_of
from atlas_splines.model.lattice import MAX_DENSITY
from atlas_splines.model.linear_algebra import ONE_THREAD_EACH
from atlas_splines.model.log import chain_of, next_id
from atlas_splines.model.monotone import constrained
from atlas_splines.model.resize import reaching
from atlas_splines.updates.routing import memory_in
from atlas_splines.versions.contributions import (
    MODEL,
    Additions,
    PoolAdditions,
    Route,
    additions_of,
    chain_at,
    check_memory,
    follow,
    grown_with,
    pools_of,
)
from atlas_splines.versions.delta import (
    Delta,
    delta_from_archive,
    delta_of,
    delta_to_archive,
    joined,
    ledger_of,
)
from atlas_splines.versions.diff import entry_key
from atlas_splines.versions.merge import merged_with
from atlas_splines.versions.packing import pack, unpack
from atlas_splines.versions.version import (
    Versioned,
    estimator_of,
    model_of,
    version,
    with_model,
)

__all__ = [
    "ROWS",
    "Patch",
    "PatchError",
    "additions_from_archive",
    "additions_to_archive",
    "apply",
    "patch",
    "read_patch",
]

HEADER = ("model", "last", "chain", "base_density", "reverted", "pools", "digests")
POOL = ("owner", "bumps", "evidence")
ROWS = "rows"  # how many rows were added to a pool that keeps rows; others lack it


def additions_to_archive(added: Additions, pools: Mapping[Route, Pool], like: Atlas) -> Archive:
    """Take additions apart; `pools` are those that evidence was added to, as they are afterwards."""
    carrier = _carrier(like)
    state = reaching(state_of(carrier), added.domain.T).with_charts(added.charts)
    archive = model_to_archive(model_in(state, added.records))
    archive.tensors |= {"domain": added.domain, "base_domain": added.base_domain}
    headers = []
    for k, (owner, addition) in enumerate(added.pools.items()):
        pool = _pool_of(pools[owner], addition, carrier)
        archive.tensors |= pool_tensors(pool, f"pools.{k}") | rows_tensors(addition.rows, f"pools.{k}.rows")
        headers.append(
            {
                "owner": list(owner),
                "bumps": list(addition.radial_bases),
                "evidence": pool_header(pool),
            }
            | ({} if addition.rows is None else {ROWS: len(addition.rows)})
        )
    archive.header |= {
        "last": added.last,
        "chain": added.chain,
        "base_density": added.base_density,
        "reverted": {str(id): time.isoformat() for id, time in added.reverted.items()},
        "pools": headers,
        "digests": [{"owner": list(owner), "digest": digest} for owner, digest in added.digests.items()],
    }
    return archive


def rows_tensors(rows: HeldRows | None, name: str) -> dict[str, NDArray[Any]]:
    """Rows that are kept, with the numbers of their updates."""
    if rows is None:
        return {}
    parts = {"points": rows.points, "targets": rows.targets, "weights": rows.weights, "updates": rows.updates}
    return {f"{name}.{part}": array for part, array in parts.items()}


def read_rows(archive: Archive, count: int, carrier: Atlas, name: str) -> HeldRows:
    """The same from an archive, or a ValueError that says what is wrong with them."""
    points = archive.tensor(f"{name}.points", "float32", (count, carrier.inputs))
    targets = archive.tensor(f"{name}.targets", "float32", (count, carrier.outputs))
    weights = archive.tensor(f"{name}.weights", "float32", (count,))
    updates = archive.tensor(f"{name}.updates", "int32", (count,))
    if (points < 0).any() or (points > 1).any():
        raise ValueError(f"tensor '{name}.points' leaves the unit cube")
    if (weights <= 0).any() or (weights > HEAVIEST).any():
        raise ValueError(f"tensor '{name}.weights' must be from 0 to {HEAVIEST:g}")
    if (np.diff(updates) < 0).any():
        raise ValueError(f"tensor '{name}.updates' must not fall")
    return HeldRows(points, targets, weights, updates)


def _carrier(like: Atlas) -> Atlas:
    """The smallest model of the same inputs and outputs, with the same ways to go along inputs."""
    smallest = Atlas(like.inputs, like.outputs, terms=0, density=0, dtype=like.dtype)
    return constrained(smallest, state_of(like).monotonic)


def _pool_of(pool: Pool, addition: PoolAdditions, carrier: Atlas) -> Pool:
    """A pool with nothing but what was added."""
    nothing = Statistics(len(pool.features), carrier.outputs)
    return replace(
        pool,
        older=nothing,
        decayed=tuple(sums_of(nothing) for _ in pool.half_lives),
        experts=ExpertWeights.of(1 + len(pool.half_lives) + addition.has_base),
        recent=addition.batches,
        fitted=state_of(_carrier(carrier)) if addition.has_base else None,
        memory=None,
        error_model=addition.error_model,
    )


def additions_from_archive(archive: Archive) -> Additions:
    """Put additions together again, or raise a ValueError that says what is wrong with them."""
    fields = Fields(archive.header, "the additions", HEADER)
    carrier = model_from_archive(archive)
    pools = [
        _read_pool(archive, value, carrier, f"pools.{k}") for k, value in enumerate(fields.items("pools"))
    ]
    last = fields.whole("last")
    numbers = {record.id for record in carrier.updates}
    batches = [batch.update for _, pool in pools for batch in pool.batches]
    batches += [
        update
        for _, pool in pools
        if pool.rows is not None
        for update in np.unique(pool.rows.updates).tolist()
    ]
    if min(numbers, default=last + 1) <= last or not numbers.issuperset(batches):
        raise ValueError("its updates are not those after the version that it was made for")
    return Additions(
        last=last,
        chain=fields.text("chain", HASH),
        base_domain=read_domain(archive, "base_domain", carrier.inputs),
        base_density=fields.whole("base_density", most=MAX_DENSITY),
        domain=read_domain(archive, "domain", carrier.inputs, carrier.domain),
        records=tuple(carrier.updates),
        reverted=_read_reverted(fields.mapping("reverted")),
        charts=carrier.charts,
        pools=dict(pools),
        digests=dict(_read_digest(value, f"digests.{k}") for k, value in enumerate(fields.items("digests"))),
    )


def _read_reverted(value: dict[str, Any]) -> dict[int, datetime]:
    fields = Fields(value, "'reverted' of the additions", value)
    if not all(id.isdecimal() and len(id) < 16 for id in value):
        raise ValueError("'reverted' of the additions must be by numbers of updates")
    return {int(id): fields.time(id) for id in value}


def _read_pool(archive: Archive, value: object, carrier: Atlas, name: str) -> tuple[Route, PoolAdditions]:
    fields = Fields.with_optional(value, name, POOL, ROWS)
    owner, radial_bases = fields.items("owner"), fields.items("bumps")
    pool = pool_from_archive(archive, fields.value["evidence"], carrier, name)
    if pool is None or len(owner) != 2 or not _are_counts(owner) or not _are_counts(radial_bases):
        raise ValueError(f"{name} lacks evidence, or does not say whose")
    groups = pool.features.radial_bases
    if len(radial_bases) != len(groups) or any(
        not 0 < count <= len(group.centres) for count, group in zip(radial_bases, groups, strict=False)
    ):
        raise ValueError(f"'bumps' of {name} must count bumps of each group")
    centres = tuple(group.centres[count:] for count, group in zip(radial_bases, groups, strict=True))
    predicted = (tuple(radial_bases), pool.output_mode, pool.has_base, pool.error_model)
    rows = read_rows(archive, fields.whole(ROWS), carrier, f"{name}.rows") if ROWS in fields.value else None
    addition = PoolAdditions(pool.recent, None, centres, *predicted, rows, grown_with(pool, centres))
    return (owner[0], owner[1]), addition


def _read_digest(value: object, name: str) -> tuple[Route, str]:
    fields = Fields(value, name, ("owner", "digest"))
    owner = fields.items("owner")
    if len(owner) != 2 or not _are_counts(owner):
        raise ValueError(f"{name} does not say whose it is")
    return (owner[0], owner[1]), fields.text("digest", HASH)


def _are_counts(items: list[Any]) -> bool:
    return all(type(item) is int and item >= 0 for item in items)


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
    atlas_splines.versions.patch.PatchError: the patch is applied already: this is the version it makes
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
        same = version(joined(estimator, delta)._taking_frames()) == head[1]
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
    return joined(estimator, delta)._taking_frames()


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
    pool = memory_in(state_of(model_of(model)))
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
