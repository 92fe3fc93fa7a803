"""Beside TabArena: what ATLAS does on tables that are in TabArena too, next to the errors that are published there.

TabArena (Erickson et al. 2025) fits to two thirds of the rows of a table, as is done here; its splits are not these. So
CatBoost is run here as well: its two errors show how much a split matters. The published figures are read from
`published/tabarena-lite.csv` and `tabarena-sets.csv` of the data folder, and kept in a small file with those of this run.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from opponents import ATLAS, CATBOOST, METHODS
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold, StratifiedKFold
from table_sets import TABLES, categories, load

SAME = {
    "airfoil": "airfoil_self_noise",
    "concrete": "concrete_compressive_strength",
    "diamonds": "diamonds",
    "churn": "churn",
}  # our names of tables that both have: the same rows and target
OWN = (ATLAS, CATBOOST)  # what is run here
BEST = 3  # published methods that are shown, besides CatBoost
FOLDS = 3  # as many as TabArena has: two thirds of the rows are fitted to
MEASURES = {"rmse": "RMSE", "roc_auc": "1 − AUC"}

Kept = dict[str, dict[str, Any]]


def read_kept(path: Path) -> Kept:
    return json.loads(path.read_text(encoding="utf8")) if path.exists() else {}


def compare(folder: Path | None, path: Path, methods: list[str], redo: list[str]) -> None:
    """Add what is published, and what is missing of this run, to the file; nothing if the folder does not have it."""
    source = folder / "published" if folder else None
    if source is None or not (source / "tabarena-lite.csv").exists():
        return
    errors, sets = pd.read_csv(source / "tabarena-lite.csv"), pd.read_csv(source / "tabarena-sets.csv")
    kept = read_kept(path)
    for name, called in SAME.items():
        if TABLES[name].missing(folder):
            continue
        about = sets.set_index("dataset_name").loc[called]
        found = kept.setdefault(name, {}) | of_others(errors[errors["dataset"] == called])
        found |= {"called": called, "rows": int(about["num_instances"])}
        own = {method: x for method, x in found.get("own", {}).items() if method not in redo}
        for method in OWN:
            if method not in own and method in methods and METHODS[method].installed:
                own[method] = float(f"{own_error(name, method, found['metric'], folder):.5g}")
        kept[name] = found | {"own": own}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf8")


def of_others(errors: pd.DataFrame) -> dict[str, Any]:
    """The best published methods, and CatBoost at its defaults and tuned, each with its error."""
    ranked = errors.sort_values("metric_error", kind="stable")
    families = ranked.drop_duplicates("config_type", keep="first")  # one of each: the best way to run it
    best = families[families["config_type"] != "CAT"].head(BEST)
    catboost = ranked[ranked["config_type"] == "CAT"].set_index("method_subtype")["metric_error"]
    return {
        "metric": str(ranked["metric"].iloc[0]),
        "best": [[method, short(x)] for method, x in zip(best["method"], best["metric_error"], strict=True)],
        "catboost": {kind: short(catboost[kind]) for kind in ("default", "tuned")},
        "methods": len(errors),
    }


def short(value: float) -> float:
    return float(f"{value:.5g}")


def own_error(name: str, method: str, metric: str, folder: Path | None) -> float:
    """The mean error over three folds, in the unit of the target."""
    warnings.filterwarnings("ignore")  # of opponents
    X, y = load(name, folder)
    task = TABLES[name].task
    splitter = KFold if task == "regression" else StratifiedKFold
    found = []
    for train, test in splitter(FOLDS, shuffle=True, random_state=0).split(X, y):
        model: Any = METHODS[method].make(task, 0, categories(X))
        model.fit(X.iloc[train], y[train])
        if metric == "rmse":
            found.append(float(np.sqrt(np.mean((np.ravel(model.predict(X.iloc[test])) - y[test]) ** 2))))
        else:
            found.append(1 - float(roc_auc_score(y[test], model.predict_proba(X.iloc[test])[:, 1])))
    print(f"{name:14}{method:10}two thirds of the rows: {np.mean(found):.4g}", flush=True)
    return float(np.mean(found))


def rows_of(kept: Kept) -> list[list[str]]:
    """The lines of a table: ours, CatBoost here and there, and the best that are published."""
    lines = [["", "measure", "ATLAS", "CatBoost here", "CatBoost there, tuned", "the best published"]]
    for name, found in kept.items():
        there = " (".join(f"{found['catboost'][kind]:.4g}" for kind in ("default", "tuned")) + ")"
        best = ", ".join(f"{method} {error:.4g}" for method, error in found["best"])
        own = [f"{found['own'][method]:.4g}" if method in found["own"] else "–" for method in OWN]
        lines.append([name, MEASURES[found["metric"]], *own, there, best])
    return lines
