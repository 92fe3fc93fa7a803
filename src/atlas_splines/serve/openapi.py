"""The description of a service for programs, in OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

import atlas_splines
from atlas_splines.serve.snapshot import Snapshot

__all__ = ["description"]

Schema = dict[str, Any]
NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
CSV_AND_ARROW = ("text/csv", "application/vnd.apache.arrow.stream")


def description(snapshot: Snapshot) -> Schema:
    """What can be asked of a version, with its columns as the schema of a row."""
    row = _row_schema(snapshot)
    target = _target_schema(snapshot)
    learned = {**row, "properties": {**row["properties"], snapshot.target: target}}
    learned["required"] = [*row["required"], snapshot.target]
    query, flags = _queries(), ("accept", "assess", "new_columns")
    notes = [_query(name, TEXT, text) for name, text in _NOTES.items()]
    learning = [*notes, *(query[name] for name in flags)]
    return {
        "openapi": "3.1.0",
        "info": {"title": "atlas serve", "version": atlas_splines.__version__},
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {
                "Row": row,
                "LearnedRow": learned,
                "Error": {"type": "object", "required": ["error"], "properties": {"error": TEXT}},
            },
        },
        "paths": {
            "/predict": {
                "post": _operation(
                    "Predict rows; all of an answer comes from one version.",
                    _rows("Row", {"ids": {"type": "array", "items": TEXT}}),
                    [query[name] for name in ("interval", "support", "probabilities", "explain", "keep")],
                    answers={"predictions": {"type": "array", "items": target}, "version": TEXT},
                )
            },
            "/learn": {
                "post": _operation(
                    "Learn rows with their targets; acknowledged once the model's file holds them.",
                    _rows("LearnedRow"),
                    [*learning, query["dry_run"], _KEY],
                    answers={"update": {"type": ["integer", "null"]}, "version": TEXT},
                    secured=True,
                )
            },
            "/outcomes": {
                "post": _operation(
                    "Learn targets of predictions that were kept.",
                    _json({"type": "object", "properties": {"outcomes": {"type": "object"}}}),
                    [*learning, _KEY],
                    answers={"update": {"type": ["integer", "null"]}, "version": TEXT},
                    secured=True,
                )
            },
            "/revert/{id}": {
                "post": _operation(
                    "Revert an update, bit for bit.",
                    None,
                    [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}, _KEY],
                    answers={"reverted": {"type": "integer"}, "version": TEXT},
                    secured=True,
                )
            },
            "/forget": {
                "post": _operation(
                    "Forget rows, and answer with a receipt.",
                    _rows("LearnedRow"),
                    [_KEY],
                    answers={"receipt": {"type": "object"}, "version": TEXT},
                    secured=True,
                )
            },
            **{path: {"get": _operation(text, None, [])} for path, text in _TOLD.items()},
        },
    }


_NOTES = {"author": "Who, for the log.", "message": "Why, for the log.", "ignore": "Columns to leave out."}
_TOLD = {
    "/log": "Entries of the log, oldest first.",
    "/model": "Columns, target and version.",
    "/health": "Whether the process runs.",
    "/ready": "Whether requests should come here.",
    "/metrics": "Metrics for Prometheus.",
    "/openapi.json": "This description.",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": TEXT,
    "description": "A request that is sent again with the same key is answered, and not done twice.",
}


def _row_schema(snapshot: Snapshot) -> Schema:
    """A row of JSON."""
    properties: Schema = {}
    for column in snapshot.encoding.columns:
        kind = "number" if column.categories is None and column.calendar is None else "string"
        found: Schema = {"type": [kind, "null"] if snapshot.takes_missing else kind}
        if column.categories is not None and len(column.categories) <= 50:
            found["examples"] = [*column.categories]
        properties[column.name] = found
    required = [] if snapshot.takes_missing else snapshot.encoding.names
    return {"type": "object", "properties": properties, "required": required}


def _target_schema(snapshot: Snapshot) -> Schema:
    return NUMBER if snapshot.encoding.classes is None else {"examples": list(snapshot.encoding.classes)}


def _query(name: str, schema: Schema, text: str) -> Schema:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _queries() -> dict[str, Schema]:
    flags = {
        "support": "How much evidence stands behind each row, from 0 to 1.",
        "probabilities": "Of each class.",
        "explain": "Shapley values of each column.",
        "keep": "Keep the rows until their outcomes come.",
        "accept": "Learn rows that seem faulty as a whole, or were learned before.",
        "assess": "Tell how well the rows are predicted by all others.",
        "new_columns": "Learn columns that the model has not seen.",
        "dry_run": "Only tell what would be done.",
    }
    found = {name: _query(name, {"enum": [0, 1]}, text) for name, text in flags.items()}
    found["interval"] = _query(
        "interval", {"type": "array", "items": NUMBER}, "Where so large a share of targets lies, such as 0.9."
    )
    return found


def _json(schema: Schema) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _rows(name: str, more: Schema | None = None) -> Schema:
    """A body of rows, as JSON, CSV or Arrow."""
    items = {"type": "array", "minItems": 1, "items": {"$ref": f"#/components/schemas/{name}"}}
    body = _json({"type": "object", "required": ["rows"], "properties": {"rows": items, **(more or {})}})
    body["content"] |= {kind: {"schema": {"type": "string", "format": "binary"}} for kind in CSV_AND_ARROW}
    return body


def _operation(
    text: str,
    body: Schema | None,
    parameters: list[Schema],
    answers: Schema | None = None,
    secured: bool = False,
) -> Schema:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    schema = {"type": "object", "properties": answers} if answers else {}
    found: Schema = {
        "summary": text,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {"application/json": {"schema": schema}}},
            "default": {"description": "What is wrong, and what to do.", "content": error},
        },
    }
    if body is not None:
        found["requestBody"] = body
    if secured:
        found["security"] = [{"token": []}, {}]
    return found
