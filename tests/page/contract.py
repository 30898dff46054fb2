"""docs/api/openapi.yaml as a judge of answers: as much of JSON Schema as it uses, and an error for
all else, so that nothing in it goes unchecked."""

import datetime
import pathlib

from strictyaml import ruamel

PATH = pathlib.Path(__file__).resolve().parents[2] / "docs" / "api" / "openapi.yaml"
DOCUMENT = ruamel.YAML(typ="safe").load(PATH.read_text(encoding="utf-8"))

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
KEYWORDS = {"type", "properties", "required", "additionalProperties", "items", "enum", "oneOf",
            "$ref", "format", "description", "minimum", "maximum", "minItems"}


def resolve(node):
    while "$ref" in node:
        at = DOCUMENT
        for part in node["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        node = at
    return node


def is_of(value, name):
    if name in ("integer", "number"):
        numbers = int if name == "integer" else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def problems(value, schema, where="$"):
    schema = resolve(schema)
    assert set(schema) <= KEYWORDS, f"{where}: keywords that nobody checks: {schema}"
    if "oneOf" in schema:
        ways = [list(problems(value, one, where)) for one in schema["oneOf"]]
        if sum(not way for way in ways) != 1:
            yield f"{where}: is not one of these: {ways}"
        return
    types = [schema["type"]] if isinstance(schema["type"], str) else schema["type"]
    if not any(is_of(value, name) for name in types):
        yield f"{where}: {value!r} is no {types}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if isinstance(value, str) and schema.get("format") == "date-time":
        try:
            datetime.datetime.fromisoformat(value)
        except ValueError:
            yield f"{where}: {value!r} is no time"
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from problems(item, schema["items"], f"{where}[{at}]")
    if isinstance(value, dict):
        known = schema["properties"]
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: {key} is missing"
        for key, item in value.items():
            if key not in known:
                yield f"{where}: nobody knows {key}"
            else:
                yield from problems(item, known[key], f"{where}.{key}")


def check(path, status, answer):
    """That `answer` is what the document says of GET `path`."""
    responses = DOCUMENT["paths"][path]["get"]["responses"]
    response = resolve(responses.get(str(status), responses["default"]))
    schema = response["content"]["application/json"]["schema"]
    found = list(problems(answer, schema))
    assert not found, (path, status, found[:10])
