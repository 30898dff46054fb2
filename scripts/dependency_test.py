"""Proves that the dependency table of cmake/modules.cmake is what the build really has.

Usage: dependency_test.py BUILD_DIR, after a build. Three kinds of proof, each with a control that
shows that the check can fail:
 1. configuring refuses an include or a link that the table does not list;
 2. the symbols that each module's archive asks for belong to modules in its declared closure;
 3. modules that may not touch Arrow or Parquet link whole with their closure and the few libraries
    that are named here.
"""

import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Modules that must link without Arrow and Parquet, with these libraries alone. A planner needs none
# but that of its row positions.
BITMAPS = ["-lroaring"]
STORES = [*BITMAPS, "-lcurl", "-lcrypto", "-lcjose", "-lexpat"]
CODECS = [*STORES, "-lz", "-lzstd", "-lsnappy"]
LINK_ALONE = {"base": BITMAPS, "storage": STORES, "plan": BITMAPS, "sql": BITMAPS,
              "table": CODECS, "commit": [*CODECS, "-lsqlite3"]}
PURE = ("plan", "sql")
# What a pure module never asks of the system: files, sockets, clocks, threads.
IMPURE = re.compile(r"^(open|openat|read|write|pread|pwrite|fopen|socket|connect|clock_gettime|"
                    r"gettimeofday|time|pthread_create|getenv|nanosleep|std::chrono::_V2::.*now)\b")
# module -> a module that its archive is known to call: without these the symbol test proves
# nothing.
CONTROLS = {"commit": "table", "job": "plan", "embed": "job"}
# What gets a token for a client itself. The module that acts for callers asks for none of it: it
# could not act as a machine if it wanted to (R003). embed, which opens catalogs for the command
# line, is known to.
MACHINE_TOKENS = re.compile(r"\blithify::net::(MakeClientCredentialsSource|AskTokenEndpoint)\b")


def parse_table():
    with open(os.path.join(ROOT, "cmake", "modules.cmake"), encoding="utf-8") as file:
        text = file.read()
    modules = re.search(r"^set\(LITHIFY_MODULES ([^)]*)\)", text, re.M).group(1).split()
    uses = {module: [] for module in modules}
    for module, names in re.findall(r"^set\(LITHIFY_MAY_USE_(\w+)([^)]*)\)", text, re.M):
        uses[module] = names.split()
    return uses


def closure(uses, module, seen=()):
    if module in seen:
        raise SystemExit(f"dependency cycle: {' -> '.join(seen + (module,))}")
    out = [module]
    for used in uses[module]:
        out += [name for name in closure(uses, used, seen + (module,)) if name not in out]
    return out


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)


def check_configuring(problems):
    """A tree of two tiny modules, once as the table allows and four times not."""
    cases = {
        "allowed": ('#include "base/value.h"\n', "USES base", True),
        "unlisted module included": ('#include "storage/store.h"\n', "USES base", False),
        "third-party header": ("#include <nlohmann/json.hpp>\n", "USES base", False),
        "Arrow header": ("#include <arrow/api.h>\n", "USES base", False),
        "unlisted module linked": ('#include "base/value.h"\n', "USES base storage", False),
    }
    with tempfile.TemporaryDirectory() as top:
        for module in ("base", "plan"):
            os.makedirs(f"{top}/src/{module}")
        with open(f"{top}/src/base/value.h", "w", encoding="utf-8") as file:
            file.write("inline int Value() { return 1; }\n")
        with open(f"{top}/src/base/value.cc", "w", encoding="utf-8") as file:
            file.write('#include "base/value.h"\n')
        for name, (include, uses, allowed) in cases.items():
            with open(f"{top}/src/plan/plan.cc", "w", encoding="utf-8") as file:
                file.write(include)
            with open(f"{top}/CMakeLists.txt", "w", encoding="utf-8") as file:
                file.write("cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n"
                           "add_library(lithify_flags INTERFACE)\n"
                           f"include({ROOT}/cmake/modules.cmake)\n"
                           "lithify_module(base SOURCES src/base/value.cc)\n"
                           f"lithify_module(plan {uses} SOURCES src/plan/plan.cc)\n")
            result = run("cmake", "-S", top, "-B", f"{top}/build")
            if (result.returncode == 0) != allowed:
                problems.append(f"configuring, case '{name}': exit {result.returncode}, "
                                f"output:\n{result.stdout}")
            elif not allowed and "cmake/modules.cmake" not in result.stdout:
                problems.append(f"configuring, case '{name}': the message does not name the table")
    print(f"dependencies: {len(cases)} configurations as the table says")


def archives(build, uses):
    found = {}
    for module in uses:
        path = os.path.join(build, "src", module, f"liblithify_{module}.a")
        if os.path.exists(path):
            found[module] = path
    return found


def undefined_symbols(archive):
    out = run("nm", "-C", "--undefined-only", archive).stdout
    return {line.strip()[2:] for line in out.splitlines() if line.strip().startswith("U ")}


def check_symbols(libraries, uses, problems):
    calls = {}
    for module, path in libraries.items():
        symbols = undefined_symbols(path)
        asked = {name for symbol in symbols for name in re.findall(r"\blithify::(\w+)::", symbol)
                 if name in uses}
        calls[module] = asked
        for other in sorted(asked - set(closure(uses, module))):
            example = next(s for s in sorted(symbols) if f"lithify::{other}::" in s)
            problems.append(f"module {module} calls {other}, which the table does not allow: "
                            f"{example}")
        if module in PURE:
            for symbol in sorted(symbols):
                if IMPURE.match(symbol):
                    problems.append(f"{module} is not pure: it asks for {symbol}")
    for module, other in CONTROLS.items():
        if module in libraries and other not in calls[module]:
            problems.append(f"control: {module} was expected to call {other}; the symbol test "
                            "sees nothing")
    if "storage" in libraries and not any(
            IMPURE.match(s) for s in undefined_symbols(libraries["storage"])):
        problems.append("control: storage was expected to do I/O; the purity test sees nothing")
    for module, asks in (("serve", False), ("embed", True), ("maintain", True)):
        found = [s for s in undefined_symbols(libraries[module]) if MACHINE_TOKENS.search(s)] \
            if module in libraries else []
        if found and not asks:
            problems.append(f"{module} acts for callers only, but asks for {found[0]}")
        if not found and asks and module in libraries:
            problems.append(f"control: {module} was expected to ask for a client's own token")
    print(f"dependencies: symbols of {len(libraries)} archives within their closures")


def link_whole(libraries, members, work, others=()):
    command = ["g++", "-o", f"{work}/linked", f"{work}/main.cc", "-Wl,--whole-archive"]
    command += [libraries[member] for member in members if member in libraries]
    command += ["-Wl,--no-whole-archive", *others, "-pthread", "-fuse-ld=mold"]
    return run(*command)


def check_linking(libraries, uses, problems):
    linked = 0
    with tempfile.TemporaryDirectory() as work:
        with open(f"{work}/main.cc", "w", encoding="utf-8") as file:
            file.write("int main() { return 0; }\n")
        for module, others in LINK_ALONE.items():
            if module not in libraries:
                continue
            result = link_whole(libraries, closure(uses, module), work, others)
            linked += 1
            if result.returncode != 0:
                problems.append(f"{module} does not link with its closure alone:\n"
                                f"{result.stdout[:2000]}")
        if "commit" in libraries and link_whole(libraries, ["commit"], work,
                                                LINK_ALONE["commit"]).returncode == 0:
            problems.append("control: commit linked without its closure; the link test is empty")
    print(f"dependencies: {linked} modules link whole with their closure alone")


def main(build):
    uses = parse_table()
    problems = []
    for module in uses:
        closure(uses, module)
    libraries = archives(build, uses)
    missing = [module for module in uses
               if os.path.exists(f"{ROOT}/src/{module}/CMakeLists.txt") and module not in libraries]
    if missing or not libraries:
        problems.append(f"no archive of {', '.join(missing) or 'any module'} in {build}: "
                        "build first")
    check_configuring(problems)
    check_symbols(libraries, uses, problems)
    check_linking(libraries, uses, problems)
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
