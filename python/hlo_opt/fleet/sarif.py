"""The remarks of all dumps as one run of SARIF, which code hosts take as one upload."""
from __future__ import annotations

import json
from pathlib import Path


def merged(documents: list[str], here: Path) -> str:
    """One document with each remark once: dumps of one program at several shapes say the same of a line. Files below `here` are named from there."""
    documents = [document.replace(f'"{here.as_uri()}/', '"') for document in documents]
    loaded = [json.loads(document) for document in documents]
    if not loaded:
        return json.dumps({"version": "2.1.0", "runs": []}) + "\n"
    results = {json.dumps(result, sort_keys=True): result for document in loaded for run in document["runs"] for result in run["results"]}
    first = loaded[0]["runs"][0]
    return json.dumps({"$schema": loaded[0]["$schema"], "version": "2.1.0",
                       "runs": [{"tool": first["tool"], "results": list(results.values())}]}, indent=1) + "\n"
