"""What was added to a model as the parts of an archive, and back.

They are those of a small model with the new charts and entries of the log, and of pools with nothing but the
new evidence: so the readers of model files read them, and check them as they do there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atlas_splines.core.extension import reaching
from atlas_splines.core.lattice import MAX_DENSITY
from atlas_splines.core.model import Atlas, model_in, state_of
from atlas_splines.core.monotone import constrained
from atlas_splines.evidence.expert_weights import ExpertWeights
from atlas_splines.evidence.held_rows import HeldRows
from atlas_splines.evidence.pool import Pool
from atlas_splines.evidence.readout import sums_of
from atlas_splines.evidence.statistics import HEAVIEST, Statistics
from atlas_splines.files.archive import Archive
from atlas_splines.files.fields import Fields
from atlas_splines.storage.bare_models import read_domain
from atlas_splines.storage.evidence import pool_from_archive, pool_header, pool_tensors
from atlas_splines.storage.logs import HASH
from atlas_splines.storage.models import model_from_archive, model_to_archive
from atlas_splines.versions.additions import Additions, Owner
from atlas_splines.versions.pools import PoolAdditions, grown_with

__all__ = ["ROWS", "additions_from_archive", "additions_to_archive"]

HEADER = ("model", "last", "chain", "base_density", "reverted", "pools", "digests")
POOL = ("owner", "bumps", "evidence")
ROWS = "rows"  # how many rows were added to a pool that keeps rows; others lack it


def additions_to_archive(added: Additions, pools: Mapping[Owner, Pool], like: Atlas) -> Archive:
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
                "bumps": list(addition.bumps),
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
    return constrained(smallest, state_of(like).signs)


def _pool_of(pool: Pool, addition: PoolAdditions, carrier: Atlas) -> Pool:
    """A pool with nothing but what was added."""
    nothing = Statistics(len(pool.features), carrier.outputs)
    return replace(
        pool,
        older=nothing,
        faded=tuple(sums_of(nothing) for _ in pool.half_lives),
        experts=ExpertWeights.of(1 + len(pool.half_lives) + addition.has_base),
        recent=addition.batches,
        fitted=state_of(_carrier(carrier)) if addition.has_base else None,
        memory=None,
        spread=addition.spread,
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


def _read_pool(archive: Archive, value: object, carrier: Atlas, name: str) -> tuple[Owner, PoolAdditions]:
    fields = Fields.with_optional(value, name, POOL, ROWS)
    owner, bumps = fields.items("owner"), fields.items("bumps")
    pool = pool_from_archive(archive, fields.value["evidence"], carrier, name)
    if pool is None or len(owner) != 2 or not _are_counts(owner) or not _are_counts(bumps):
        raise ValueError(f"{name} lacks evidence, or does not say whose")
    groups = pool.features.bumps
    if len(bumps) != len(groups) or any(
        not 0 < count <= len(group.centres) for count, group in zip(bumps, groups, strict=False)
    ):
        raise ValueError(f"'bumps' of {name} must count bumps of each group")
    centres = tuple(group.centres[count:] for count, group in zip(bumps, groups, strict=True))
    said = (tuple(bumps), pool.voice, pool.has_base, pool.spread)
    rows = read_rows(archive, fields.whole(ROWS), carrier, f"{name}.rows") if ROWS in fields.value else None
    addition = PoolAdditions(pool.recent, None, centres, *said, rows, grown_with(pool, centres))
    return (owner[0], owner[1]), addition


def _read_digest(value: object, name: str) -> tuple[Owner, str]:
    fields = Fields(value, name, ("owner", "digest"))
    owner = fields.items("owner")
    if len(owner) != 2 or not _are_counts(owner):
        raise ValueError(f"{name} does not say whose it is")
    return (owner[0], owner[1]), fields.text("digest", HASH)


def _are_counts(items: list[Any]) -> bool:
    return all(type(item) is int and item >= 0 for item in items)
