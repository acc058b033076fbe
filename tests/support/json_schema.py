"""The part of JSON Schema that netproof's descriptions use, checked: types, enums, constants, objects and arrays."""

from __future__ import annotations

from typing import Any

KINDS: dict[str, Any] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
KNOWN = {"$schema", "title", "type", "description", "enum", "const", "properties", "required", "items"}


def problems(value: Any, schema: dict[str, Any], at: str = "$") -> list[str]:
    """What does not fit, each with its place."""
    assert set(schema) <= {*KNOWN, "additionalProperties"}, schema
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if not any(isinstance(value, KINDS[kind]) and (kind == "boolean") == isinstance(value, bool) for kind in kinds):
        return [f"{at} is {type(value).__name__}, not {kinds}"]
    if "enum" in schema and value not in schema["enum"]:
        return [f"{at} is {value!r}"]
    if "const" in schema and value != schema["const"]:
        return [f"{at} is {value!r}"]
    found = []
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{at}.{key} is missing" for key in schema.get("required", ()) if key not in value]
        more = schema.get("additionalProperties", True)
        for key, item in value.items():
            if key in known:
                found += problems(item, known[key], f"{at}.{key}")
            elif more is False:
                found.append(f"{at}.{key} is not described")
            elif isinstance(more, dict):
                found += problems(item, more, f"{at}.{key}")
    if isinstance(value, list) and "items" in schema:
        found += [line for k, item in enumerate(value) for line in problems(item, schema["items"], f"{at}[{k}]")]
    return found
