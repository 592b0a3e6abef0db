"""Judges JSON documents, separated by NUL on standard input, by the schemas in a folder. A field that a schema does not describe is wrong here,
although readers must accept it."""
import json
import pathlib
import sys

from jsonschema import Draft202012Validator


def strict(node):
    if isinstance(node, list):
        for value in node:
            strict(value)
    elif isinstance(node, dict):
        if "properties" in node:
            node.setdefault("additionalProperties", False)
        for value in node.values():
            strict(value)


schemas = {}
for path in pathlib.Path(sys.argv[1]).glob("*.json"):
    schema = json.loads(path.read_text())
    Draft202012Validator.check_schema(schema)
    strict(schema)
    schemas[f"segno.{path.stem}"] = Draft202012Validator(schema)
for text in sys.stdin.read().split("\0"):
    document = json.loads(text)
    if list(document)[:2] != ["schema", "version"]:
        print(f"schema and version are not first: {text[:80]}")
    elif document["schema"] not in schemas:
        print(f"there is no schema {document['schema']}")
    else:
        for error in schemas[document["schema"]].iter_errors(document):
            print(f"{document['schema']}: {error.json_path}: {error.message}"[:400])
