#!/usr/bin/env python3
"""check_schemas.py [--grafana DIR] [--kubernetes DIR] - docs/fleet's dashboard and manifests against the JSON
schemas of the projects that read them. Prints each fault and exits with 1.

Neither project is needed to build or test vramwise, so the schemas are not here. Grafana's are the folder
jsonschema/ of github.com/grafana/grafana-foundation-sdk. Those of Kubernetes are a folder
v1.*-standalone-strict, as github.com/yannh/kubernetes-json-schema has them. Needs python3-jsonschema and
python3-yaml. tests/fleet/test_prometheus.py checks what needs no schema.
"""
import argparse
import json
import pathlib
import sys

import jsonschema
import yaml

# What Grafana's own definitions (CUE) leave open, and the JSON schemas made from them do not.
OPEN_FIELDS = {("MatcherConfig", "options"): {}, ("DynamicConfigValue", "value"): {},
               ("VariableModel", "query"): {"type": ["string", "object"]}}

FLEET = pathlib.Path(__file__).resolve().parent.parent / "docs/fleet"


def faults(schema: dict, value, where: str) -> list:
    checker = jsonschema.Draft7Validator(schema)
    return [f"{where}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
            for error in checker.iter_errors(value)]


class Grafana:
    """A dashboard is a schema of its own; what a panel shows is its plugin's, and a query its data source's."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder

    def schema(self, name: str, definition: str) -> dict:
        whole = json.loads((self.folder / f"{name}.jsonschema.json").read_text(encoding="utf-8"))
        known = whole["definitions"]
        for (name, field), meant in OPEN_FIELDS.items():
            if name in known:
                known[name]["properties"][field] = meant
        return {"$ref": f"#/definitions/{definition}", "definitions": known}

    def panel(self, panel: dict, where: str) -> list:
        if panel["type"] == "row":
            return faults(self.schema("dashboard", "RowPanel"), panel, where)
        found = faults(self.schema("dashboard", "Panel"), panel, where)
        found += faults(self.schema(panel["type"], "Options"), panel["options"], f"{where} options")
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom is not None:
            found += faults(self.schema(panel["type"], "FieldConfig"), custom, f"{where} custom")
        for target in panel["targets"]:
            found += faults(self.schema("prometheus", "Dataquery"), target, f"{where} {target['refId']}")
        return found

    def dashboard(self, path: pathlib.Path) -> list:
        board = json.loads(path.read_text(encoding="utf-8"))
        found = faults(self.schema("dashboard", "Dashboard"), {**board, "panels": []}, path.name)
        for panel in board["panels"]:
            found += self.panel(panel, f"{path.name}, panel '{panel['title']}'")
        return found


def manifest(folder: pathlib.Path, path: pathlib.Path) -> list:
    """Each document of the file, by its kind: DaemonSet of apps/v1 is daemonset-apps-v1.json."""
    found = []
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        name = "-".join([document["kind"].lower(), *document["apiVersion"].split("/")])
        schema = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        found += faults(schema, document, f"{path.name}, {document['kind']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--grafana", type=pathlib.Path)
    parser.add_argument("--kubernetes", type=pathlib.Path)
    given = parser.parse_args()
    if given.grafana is None and given.kubernetes is None:
        parser.error("expected --grafana or --kubernetes")
    found, count = [], 0
    for path in sorted((FLEET / "grafana").glob("*.json")) if given.grafana else ():
        found += Grafana(given.grafana).dashboard(path)
        count += 1
    for path in sorted((FLEET / "kubernetes").glob("*.yaml")) if given.kubernetes else ():
        found += manifest(given.kubernetes, path)
        count += 1
    print("\n".join(found) or f"{count} files are as their schemas want them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
