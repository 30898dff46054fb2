"""The registry of telemetry names (semconv/registry), checked, and what is made of it.

Usage: semconv.py check | write. `check` fails where the registry is not in the format of
OpenTelemetry's weaver, where a name breaks the house's rules, or where a file that is made of it is
not what it would be; `write` makes those files: src/base/metric_names.h and docs/METRICS.md.

The rules of the format are those of weaver's published schema of registries (version 1, groups);
who has weaver runs `weaver registry check -r semconv/registry` as well.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
REGISTRY = ROOT / "semconv" / "registry"
HEADER = ROOT / "src" / "base" / "metric_names.h"
PAGE = ROOT / "docs" / "METRICS.md"
FILES = {"manifest.yaml", "attributes.yaml", "metrics.yaml", "events.yaml"}

STABILITY = {"stable", "development", "alpha", "beta", "release_candidate"}
GROUP_KEYS = {"id", "type", "brief", "note", "extends", "stability", "deprecated", "display_name",
              "attributes", "annotations", "entity_associations"}
KEYS_OF_TYPE = {
    "attribute_group": set(),
    "metric": {"metric_name", "instrument", "unit", "metric_requirement_level"},
    "event": {"name", "body"},
    "span": {"span_kind", "events"},
}
NEEDED_OF_TYPE = {
    "attribute_group": {"attributes"},
    "metric": {"metric_name", "instrument", "unit", "stability"},
    "event": {"name", "stability"},
    "span": {"span_kind", "stability"},
}
ATTRIBUTE_KEYS = {"id", "type", "brief", "note", "examples", "tag", "stability", "deprecated",
                  "requirement_level", "sampling_relevant", "annotations", "role"}
REFERENCE_KEYS = (ATTRIBUTE_KEYS - {"id", "type"}) | {"ref"}
MEMBER_KEYS = {"id", "value", "brief", "note", "stability", "deprecated", "annotations"}
SIMPLE_TYPES = {"string", "int", "double", "boolean", "any", "string[]", "int[]", "double[]",
                "boolean[]"}
INSTRUMENTS = {"counter": "kCounter", "updowncounter": "kUpDownCounter", "gauge": "kGauge",
               "histogram": "kHistogram"}
LEVELS = {"required", "recommended", "opt_in"}
CONDITIONS = {"conditionally_required", "recommended", "opt_in"}
# Ours: what an annotation `lithify` of a metric may say.
ANNOTATIONS = {"buckets", "observable", "zero", "sqe"}
NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*(?:\.[a-z][a-z0-9]*(?:_[a-z0-9]+)*)+")
UNIT = re.compile(r"1|s|By|\{[a-z_]+\}")
UNIT_SUFFIX = re.compile(r"(?:[._](?:total|bytes|seconds|millis|ms|count|ratio))$")


class Unique(yaml.SafeLoader):
    """A key that is there twice is an error, not the last one."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"'{key}' twice",
                                                        node.start_mark)
        return super().construct_mapping(node, deep)


class Registry:
    """The groups of all files, and what is wrong with them."""

    def __init__(self, directory):
        self.problems = []
        self.attributes = {}
        self.groups = []
        found = {path.name for path in directory.iterdir()}
        for name in sorted(found ^ FILES):
            self.problem(name, "is missing" if name in FILES else "is no file of the registry")
        self.read_manifest(directory / "manifest.yaml")
        for name in sorted(found & FILES - {"manifest.yaml"}):
            self.read(directory / name)
        for where, group in self.groups:
            self.check_group(where, group)
        for where, group in self.groups:
            self.check_references(where, group)

    def problem(self, where, what):
        self.problems.append(f"{where}: {what}")

    def load(self, path):
        try:
            value = yaml.load(path.read_text(), Unique)
        except (OSError, yaml.YAMLError) as error:
            self.problem(path.name, " ".join(str(error).split()))
            return {}
        if not isinstance(value, dict):
            self.problem(path.name, "is no mapping")
            return {}
        return value

    def read_manifest(self, path):
        manifest = self.load(path)
        for key in ("name", "semconv_version", "schema_base_url"):
            if not isinstance(manifest.get(key), str):
                self.problem(path.name, f"no text '{key}'")

    def read(self, path):
        document = self.load(path)
        for key in document.keys() - {"groups"}:
            self.problem(path.name, f"unknown key '{key}'")
        groups = document.get("groups")
        if not isinstance(groups, list):
            self.problem(path.name, "'groups' is no list")
            return
        for number, group in enumerate(groups):
            if not isinstance(group, dict) or not isinstance(group.get("id"), str):
                self.problem(path.name, f"group {number} has no id")
                continue
            where = f"{path.name}: {group['id']}"
            if any(group["id"] == other["id"] for _, other in self.groups):
                self.problem(where, "twice")
            self.groups.append((where, group))

    def keys(self, where, what, allowed, needed):
        for key in what.keys() - allowed:
            self.problem(where, f"unknown key '{key}'")
        for key in needed - what.keys():
            self.problem(where, f"'{key}' is missing")

    def check_group(self, where, group):
        kind = group.get("type")
        if kind not in KEYS_OF_TYPE:
            self.problem(where, f"type '{kind}' is not one of {', '.join(sorted(KEYS_OF_TYPE))}")
            return
        self.keys(where, group, GROUP_KEYS | KEYS_OF_TYPE[kind],
                  {"id", "brief"} | NEEDED_OF_TYPE[kind])
        for key in ("brief", "note", "display_name", "unit", "metric_name", "name"):
            if not isinstance(group.get(key, ""), str):
                self.problem(where, f"'{key}' is no text")
        self.check_stability(where, group)
        attributes = group.get("attributes", [])
        if not isinstance(attributes, list) or not all(isinstance(a, dict) for a in attributes):
            self.problem(where, "'attributes' is no list of mappings")
            group["attributes"] = []
            return
        for attribute in attributes:
            self.check_attribute(where, attribute)
        if kind == "metric":
            self.check_metric(where, group)
        if kind == "event":
            self.check_name(where, group.get("name"))

    def check_stability(self, where, what):
        if "stability" in what and what["stability"] not in STABILITY:
            self.problem(where, f"stability '{what['stability']}' is none")

    def check_name(self, where, name):
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.problem(where, f"'{name}' is no dotted lower-case name")

    def check_attribute(self, where, attribute):
        if "ref" in attribute:
            self.keys(where, attribute, REFERENCE_KEYS, {"ref"})
        else:
            where = f"{where}: {attribute.get('id')}"
            self.keys(where, attribute, ATTRIBUTE_KEYS, {"id", "type", "brief", "stability"})
            self.check_name(where, attribute.get("id"))
            if attribute.get("id") in self.attributes:
                self.problem(where, "twice")
            self.attributes[attribute.get("id")] = attribute
            self.check_type(where, attribute)
        self.check_stability(where, attribute)
        level = attribute.get("requirement_level", "recommended")
        conditional = (isinstance(level, dict) and len(level) == 1 and level.keys() <= CONDITIONS
                       and all(isinstance(text, str) for text in level.values()))
        if not conditional and (isinstance(level, dict) or level not in LEVELS):
            self.problem(where, f"requirement_level '{level}' is none")

    def check_type(self, where, attribute):
        kind = attribute.get("type")
        if isinstance(kind, str):
            simple = re.fullmatch(r"template\[(.+)\]", kind)
            if (simple.group(1) if simple else kind) not in SIMPLE_TYPES:
                self.problem(where, f"type '{kind}' is none")
            if kind.startswith("string") and not attribute.get("examples"):
                self.problem(where, "a text needs examples")
            return
        members = kind.get("members") if isinstance(kind, dict) else None
        if not isinstance(members, list) or not members or kind.keys() != {"members"}:
            self.problem(where, "type is neither a name nor 'members'")
            return
        for member in members:
            self.keys(f"{where}: {member.get('id')}", member, MEMBER_KEYS,
                      {"id", "value", "stability"})
            self.check_stability(where, member)
        for key in ("id", "value"):
            values = [member.get(key) for member in members]
            if len(set(values)) != len(values):
                self.problem(where, f"members with one {key}")

    def check_metric(self, where, metric):
        name, unit = metric.get("metric_name"), metric.get("unit")
        self.check_name(where, name)
        if metric["id"] != f"metric.{name}":
            self.problem(where, "the id of a metric is 'metric.' and its name")
        if metric.get("instrument") not in INSTRUMENTS:
            self.problem(where, f"instrument '{metric.get('instrument')}' is none")
        if not isinstance(unit, str) or not UNIT.fullmatch(unit):
            self.problem(where, f"unit '{unit}' is not one of UCUM that is used here")
        if isinstance(name, str) and UNIT_SUFFIX.search(name):
            self.problem(where, "a name says neither unit nor '_total' (R249)")
        ours = metric.get("annotations", {}).get("lithify", {})
        for key in ours.keys() - ANNOTATIONS:
            self.problem(where, f"unknown annotation lithify.{key}")
        buckets = ours.get("buckets")
        if (metric.get("instrument") == "histogram") != (buckets is not None):
            self.problem(where, "histograms, and no others, have buckets")
        if buckets and buckets != sorted(set(buckets)):
            self.problem(where, "buckets do not rise")

    def check_references(self, where, group):
        seen = set()
        for attribute in group.get("attributes", []):
            name = attribute.get("ref", attribute.get("id"))
            if name not in self.attributes:
                self.problem(where, f"no attribute '{name}'")
            if name in seen:
                self.problem(where, f"attribute '{name}' twice")
            seen.add(name)

    def of_type(self, kind):
        key = {"metric": "metric_name", "event": "name"}[kind]
        return sorted((group for _, group in self.groups if group["type"] == kind),
                      key=lambda group: group[key])


def constant(name):
    return "k" + "".join(word.capitalize() for word in re.split(r"[._]", name))


def one_line(text):
    return " ".join(text.split())


def comment(text, indent=""):
    return textwrap.wrap(one_line(text), 100, initial_indent=indent + "// ",
                         subsequent_indent=indent + "// ", break_on_hyphens=False)


def metric_lines(metric):
    name = metric["metric_name"]
    ours = metric.get("annotations", {}).get("lithify", {})
    lines = comment(metric["brief"] + (" " + metric["note"] if "note" in metric else ""))
    buckets = "{}"
    if "buckets" in ours:
        buckets = constant(name) + "Buckets"
        values = ", ".join(str(value) for value in ours["buckets"])
        lines += [f"inline constexpr double {buckets}[] = {{{values}}};"]
    names = ", ".join(f'"{attribute["ref"]}"' for attribute in metric.get("attributes", []))
    keys = "{}"
    if names:
        keys = constant(name) + "Attributes"
        lines += [f"inline constexpr std::string_view {keys}[] = {{{names}}};"]
    brief = one_line(metric["brief"]).replace('"', '\\"')
    lines += [f'inline constexpr Instrument {constant(name)} = {{.name = "{name}",',
              f'.unit = "{metric["unit"]}",', f'.brief = "{brief}",',
              f".kind = Kind::{INSTRUMENTS[metric['instrument']]},",
              f".observable = {'true' if ours.get('observable') else 'false'},",
              f".zero = {'true' if ours.get('zero') else 'false'},",
              f".attributes = {keys},", f".buckets = {buckets}}};"]
    return lines


def header(registry):
    lines = ["// Made by scripts/semconv.py of semconv/registry: change that, and write this anew.",
             "#ifndef LITHIFY_BASE_METRIC_NAMES_H_", "#define LITHIFY_BASE_METRIC_NAMES_H_", "",
             "#include <span>", "#include <string_view>", "", "namespace lithify::metric {", "",
             "enum class Kind { kCounter, kUpDownCounter, kGauge, kHistogram };", "",
             "struct Instrument {", "std::string_view name;", "std::string_view unit;  // UCUM.",
             "std::string_view brief;", "Kind kind;",
             "bool observable;  // Absolute values, which replace those before.",
             "bool zero;        // Told from the start, with zero.",
             "std::span<const std::string_view> attributes;",
             "std::span<const double> buckets;  // Upper bounds, of histograms.", "};", ""]
    metrics = registry.of_type("metric")
    for metric in metrics:
        lines += metric_lines(metric)
    lines += ["", "inline constexpr const Instrument* kAll[] = {"]
    lines += [f"&{constant(metric['metric_name'])}," for metric in metrics]
    lines += ["};", "", "}  // namespace lithify::metric", "", "namespace lithify::attribute {", ""]
    for name, attribute in sorted(registry.attributes.items()):
        lines += comment(attribute["brief"])
        lines += [f'inline constexpr const char* {constant(name)} = "{name}";']
        if isinstance(attribute["type"], dict):
            lines += [f'inline constexpr const char* {constant(name + "." + member["id"])} = '
                      f'"{member["value"]}";' for member in attribute["type"]["members"]]
    lines += ["", "}  // namespace lithify::attribute", "", "namespace lithify::event {", ""]
    for event in registry.of_type("event"):
        lines += comment(event["brief"])
        lines += [f'inline constexpr const char* {constant(event["name"])} = "{event["name"]}";']
    lines += ["", "}  // namespace lithify::event", "", "#endif  // LITHIFY_BASE_METRIC_NAMES_H_",
              ""]
    return formatted("\n".join(lines))


def formatted(text):
    tool = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else "clang-format"
    return subprocess.run([str(tool), f"--assume-filename={HEADER}"], input=text, text=True,
                          check=True, capture_output=True, cwd=ROOT).stdout


def page(registry):
    lines = ["# Metrics", "",
             "Made by `scripts/semconv.py` of `semconv/registry`, which is in the format of",
             "OpenTelemetry's weaver: change that, and write this anew. How they are sent:",
             "[TELEMETRY.md](TELEMETRY.md).", "", "## Metrics", "",
             "| name | kind | unit | attributes | what | in SQE |", "|---|---|---|---|---|---|"]
    for metric in registry.of_type("metric"):
        ours = metric.get("annotations", {}).get("lithify", {})
        attributes = ", ".join(f"`{a['ref']}`" for a in metric.get("attributes", []))
        what = one_line(metric["brief"] + (" " + metric["note"] if "note" in metric else ""))
        sqe = f"`{ours['sqe']}`" if "sqe" in ours else ""
        lines += [f"| `{metric['metric_name']}` | {metric['instrument']} | `{metric['unit']}` | "
                  f"{attributes} | {what} | {sqe} |"]
    lines += ["", "## Attributes", "", "| name | values | what |", "|---|---|---|"]
    for name, attribute in sorted(registry.attributes.items()):
        kind = attribute["type"]
        values = kind if isinstance(kind, str) else ", ".join(
            f"`{member['value']}`" for member in kind["members"])
        lines += [f"| `{name}` | {values} | {one_line(attribute['brief'])} |"]
    lines += ["", "## Events", "", "| name | attributes | what |", "|---|---|---|"]
    for event in registry.of_type("event"):
        attributes = ", ".join(f"`{a['ref']}`" for a in event.get("attributes", []))
        lines += [f"| `{event['name']}` | {attributes} | {one_line(event['brief'])} |"]
    return "\n".join(lines) + "\n"


def main():
    registry = Registry(REGISTRY)
    for problem in registry.problems:
        print(f"semconv/registry/{problem}")
    if registry.problems:
        return 1
    drift = 0
    for path, text in ((HEADER, header(registry)), (PAGE, page(registry))):
        if sys.argv[1] == "write":
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            print(f"{path.relative_to(ROOT)}: is not what the registry says: "
                  "bash scripts/semconv.sh write")
            drift = 1
    return drift


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("check", "write"):
        sys.exit(__doc__)
    sys.exit(main())
