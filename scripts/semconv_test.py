"""scripts/semconv.py finds what is wrong with a registry: each of these changes, one at a time."""

import pathlib
import shutil
import sys
import tempfile

import semconv

CHANGES = (
    ("metrics.yaml", "unit: \"By\"", "unit: \"bytes\"", "unit 'bytes'"),
    ("metrics.yaml", "instrument: counter", "instrument: count", "instrument 'count'"),
    ("metrics.yaml", "metric_name: ourios.compaction.sweeps",
     "metric_name: ourios.compaction.sweeps_total", "neither unit nor"),
    ("metrics.yaml", "ref: ourios.tenant", "ref: ourios.tenants", "no attribute"),
    ("metrics.yaml", "stability: development", "stable: true", "unknown key 'stable'"),
    ("metrics.yaml", "    brief: Sweeps that ended.\n", "", "'brief' is missing"),
    ("metrics.yaml", "[0.1, 0.5,", "[0.5, 0.1,", "do not rise"),
    ("attributes.yaml", "        examples: [acme]\n", "", "a text needs examples"),
    ("attributes.yaml", "value: write", "value: read", "members with one value"),
    ("attributes.yaml", "id: ourios.tenant", "id: Ourios.tenant", "no dotted lower-case name"),
    ("attributes.yaml", "type: string", "type: text", "type 'text'"),
    ("events.yaml", "requirement_level: required", "requirement_level: must", "'must' is none"),
    ("events.yaml", "type: event", "type: log", "type 'log'"),
    ("manifest.yaml", "semconv_version", "version", "no text 'semconv_version'"),
)


def problems_with(change):
    with tempfile.TemporaryDirectory() as directory:
        registry = pathlib.Path(directory) / "registry"
        shutil.copytree(semconv.REGISTRY, registry)
        change(registry)
        return semconv.Registry(registry).problems


def replaced(name, old, new):
    def change(registry):
        text = (registry / name).read_text()
        assert old in text, f"{name} has no {old!r} any more"
        (registry / name).write_text(text.replace(old, new, 1))
    return change


def main():
    missed = 0
    cases = [(f"{old!r} to {new!r}", replaced(name, old, new), wanted)
             for name, old, new, wanted in CHANGES]
    cases += [("a stray file", lambda r: (r / "more.yaml").write_text("groups: []"), "is no file"),
              ("a file gone", lambda r: (r / "events.yaml").unlink(), "is missing")]
    for what, change, wanted in cases:
        problems = problems_with(change)
        if not any(wanted in problem for problem in problems):
            print(f"not found: {what}, wanted {wanted!r}, got {problems}")
            missed += 1
    if problems_with(lambda registry: None):
        print("the registry as it is has problems")
        missed += 1
    return missed


if __name__ == "__main__":
    sys.exit(main() != 0)
