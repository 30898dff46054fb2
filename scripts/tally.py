"""Sums JUnit XML reports and prints the closing line `N passed, N failed`.

Usage: tally.py REPORT.xml… (ctest --output-junit and pytest --junitxml write them).
Exits with 1 if anything failed, if a report is missing, or if no test ran at all: a suite that ran
nothing must not look like one that passed.
"""

import sys
import xml.etree.ElementTree as ElementTree


def was_asked_for(case):
    """True if the test skipped itself. ctest says "skipped" as well of a test whose program is not
    there."""
    skip = case.find("skipped")
    if (skip.get("type") or "").startswith("pytest."):
        return True
    return (skip.get("message") or "").startswith(("SKIP", "Disabled"))


def count(path):
    """Returns (passed, [names of failed], [names of skipped]) of one report."""
    passed, failed, skipped = 0, [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = f"{case.get('classname') or ''}.{case.get('name')}".lstrip(".")
        if case.find("skipped") is not None and was_asked_for(case):
            skipped.append(name)
        elif case.get("status", "run") != "run" or any(
                case.find(tag) is not None for tag in ("failure", "error", "skipped")):
            failed.append(name)
        else:
            passed += 1
    return passed, failed, skipped


def main(paths):
    passed, failed, skipped = 0, [], []
    for path in paths:
        try:
            more_passed, more_failed, more_skipped = count(path)
        except (OSError, ElementTree.ParseError) as error:
            more_passed, more_failed, more_skipped = 0, [f"{path}: no report ({error})"], []
        passed += more_passed
        failed += more_failed
        skipped += more_skipped
    for name in skipped:
        print(f"skipped: {name}")
    for name in failed:
        print(f"FAILED: {name}")
    if passed + len(failed) == 0:
        print("no test ran")
        failed.append("nothing ran")
    print(f"{passed} passed, {len(failed)} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
