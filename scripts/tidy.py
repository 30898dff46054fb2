"""The style guide as a test (docs/STYLE.md): what a formatter and a compiler do not see.

Usage: tidy.py [ROOT]. Prints one line per finding, `path:line: what`, and exits with 1 if there is
an error. Warnings do not fail. Looks at every file that git tracks or would track.
"""

import os
import re
import subprocess
import sys

CODE = (".h", ".cc")
TEXT = CODE + (".py", ".sh", ".md", ".cmake", ".txt", ".toml", ".yaml")
WIDTH_MAX = 100
FUNCTION_LINES_MAX = 70
FILE_BYTES_MAX = 256 * 1024
BANNED_FILE_WORDS = ("util", "utils", "helper", "helpers", "manager", "common")
# Spelled in pieces, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X)\b(?!\(#\d+\))")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+)/")
REGISTRY_HOST = re.compile(
    r"\b(?:files\.python" + r"hosted|py" + r"pi)\.org|registry\.npm" + r"js\.org|repo1?\.ma"
    + r"ven\.(?:apache\.)?org|crates\.i" + r"o/api|proxy\.go" + r"lang\.org|deb\.deb" + r"ian\.org")
# What breaks the house's rules on errors, randomness, time and output in src/.
BANNED_CALLS = (
    (re.compile(r"\busing\s+namespace\s+(?!std::\w*literals)"), "using namespace"),
    (re.compile(r"(?<![\w:.>])(?:s?rand|system|strcpy|strcat|sprintf|gets)\s*\("),
     "banned C function"),
    (re.compile(r"#\s*pragma\s+once"), "use header guards"),
    (re.compile(r"\bconst_cast\b"), "const_cast"),
)
BANNED_IN_SRC = (
    (re.compile(r"\bstd::(?:cout|cerr)\b"), "src/ does not print: report through observe"),
    (re.compile(r"\b(?:std::chrono::)?system_clock::now\s*\("), "time comes from base/clock.h"),
    (re.compile(r"\bstd::(?:random_device|mt19937)"), "randomness comes from base/random.h"),
)
CLOCK_AND_RANDOM = ("src/base/clock.cc", "src/base/random.cc")


class Findings:
    """Errors and warnings, in the order they were found."""

    def __init__(self):
        self.errors = 0
        self.warnings = 0

    def error(self, path, line, what):
        self.errors += 1
        print(f"{path}:{line}: {what}")

    def warn(self, path, line, what):
        self.warnings += 1
        print(f"{path}:{line}: warning: {what}")


def tracked_files(root):
    out = subprocess.run(
        ["git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        check=True, capture_output=True).stdout.decode()
    return sorted(path for path in set(out.split("\0"))
                  if path and os.path.isfile(os.path.join(root, path)))


def check_name(path, findings):
    base = os.path.basename(path)
    stem, extension = os.path.splitext(base)
    if extension in CODE + (".py", ".sh") and not re.fullmatch(r"[a-z0-9_]+", stem):
        findings.error(path, 1, "file names are snake_case")
    words = set(stem.lower().split("_")) | set(path.split("/")[:-1])
    for word in BANNED_FILE_WORDS:
        if word in words:
            findings.error(path, 1, f"nothing is called '{word}': name what it is")


def check_lines(path, lines, findings):
    prose = not path.endswith(CODE + (".py", ".sh"))
    formatted = True  # Where the formatter is off, a table of one entry a line may be wider.
    for number, line in enumerate(lines, 1):
        if "// clang-format o" in line:
            formatted = "clang-format on" in line
        if formatted and not prose and len(line) > WIDTH_MAX and "://" not in line and "--hash=" not in line:
            findings.error(path, number, f"{len(line)} columns, at most {WIDTH_MAX}")
        if "\t" in line:
            findings.error(path, number, "tab")
        if line != line.rstrip() and not path.endswith(".md"):
            findings.error(path, number, "white space at the end of the line")
        if UNFINISHED.search(line):
            findings.error(path, number, "unfinished work: name its issue, e.g. (#12), or do it")
        if MACHINE_PATH.search(line):
            findings.error(path, number, "a path of one machine")
        if REGISTRY_HOST.search(line):
            findings.error(path, number, "a registry's host: use its ordinary client")


def check_calls(path, lines, findings):
    rules = list(BANNED_CALLS)
    if path.startswith("src/") and not path.endswith("_test.cc") and path not in CLOCK_AND_RANDOM:
        rules += BANNED_IN_SRC
    for number, line in enumerate(lines, 1):
        code = re.sub(r'"(?:[^"\\\\]|\\\\.)*"', '""', line).split("//")[0]
        for pattern, what in rules:
            if pattern.search(code) and "NOLINT" not in line:
                findings.error(path, number, what)


def check_guard(path, lines, findings):
    """LITHIFY_<MODULE>_<FILE>_H_, from the path as an #include sees it."""
    included_as = re.sub(r"^(src|include)/", "", path)
    guard = re.sub(r"[^A-Za-z0-9]", "_", included_as).upper() + "_"
    if not guard.startswith("LITHIFY_"):
        guard = "LITHIFY_" + guard
    text = "\n".join(lines)
    if f"#ifndef {guard}\n#define {guard}\n" not in text:
        findings.error(path, 1, f"header guard {guard} expected")


def check_functions(path, lines, findings):
    """A function (or block) ends at a lone '}' of indentation 0 or 2 and begins at the nearest line
    above of the same indentation that starts with a letter; good enough for formatted code."""
    begins = {0: 0, 2: 0}
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if indent not in begins:
            continue
        if re.match(r"[A-Za-z~]", line[indent:]):
            begins[indent] = number
        elif line[indent:] == "}" and number - begins[indent] - 1 > FUNCTION_LINES_MAX:
            findings.warn(path, begins[indent], f"function of {number - begins[indent] - 1} lines, "
                                                f"aim at {FUNCTION_LINES_MAX}")


def check_listed(root, files, findings):
    """Every .cc is named in a CMakeLists.txt of its own folder or one above: no dead file."""
    lists = {path: open(os.path.join(root, path), encoding="utf-8").read()
             for path in files if os.path.basename(path) == "CMakeLists.txt"}
    for path in files:
        if not path.endswith(".cc"):
            continue
        folder = os.path.dirname(path)
        listed = False
        while not listed:
            text = lists.get(os.path.join(folder, "CMakeLists.txt"), "")
            name = os.path.relpath(path, folder or ".")
            listed = re.search(r"(?<![\w.-])" + re.escape(name) + r"(?![\w.-])", text) is not None
            if not folder:
                break
            folder = os.path.dirname(folder)
        if not listed:
            findings.error(path, 1, "not built: no CMakeLists.txt lists it")


def check_links(root, path, lines, findings):
    """Relative links in Markdown lead somewhere."""
    for number, line in enumerate(lines, 1):
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", line):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(path), target)):
                findings.error(path, number, f"broken link to {target}")


def main(root):
    findings = Findings()
    files = tracked_files(root)
    for path in files:
        full = os.path.join(root, path)
        if os.path.getsize(full) > FILE_BYTES_MAX:
            findings.error(path, 1, f"larger than {FILE_BYTES_MAX} bytes")
            continue
        check_name(path, findings)
        if not path.endswith(TEXT) and os.path.basename(path) not in ("dev", "run"):
            continue
        with open(full, encoding="utf-8") as file:
            lines = file.read().split("\n")
        check_lines(path, lines, findings)
        if path.endswith(CODE):
            check_calls(path, lines, findings)
            check_functions(path, lines, findings)
        if path.endswith(".h"):
            check_guard(path, lines, findings)
        if path.endswith(".md"):
            check_links(root, path, lines, findings)
    check_listed(root, files, findings)
    print(f"tidy: {len(files)} files, {findings.errors} errors, {findings.warnings} warnings")
    return 1 if findings.errors or not files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
