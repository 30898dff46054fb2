"""Proves that the half that acts for callers and the half that acts on its own never reach each
other (docs/decisions/2026-11-30-two-identities.md), and that each proof can fail.

Usage: separation_test.py BUILD_DIR, after a build.
 1. configuring refuses a table of modules in which one reaches the other by whatever way, and a
    file of one that includes a header of the other;
 2. each half links whole with its declared closure alone, and what calls the other half does not;
 3. the programs have no symbol of the half that they are not, and the symbols that are looked for
    are found in the programs that do have them;
 4. lithifyd alone has both;
 5. lithify-worker, which is told names and has nothing else, links without a catalog, a planner, a
    committer, an identity and all that uses them, and does not without what it does use;
 6. the compiler refuses to copy a job's credential, to make one or to print it.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

from dependency_test import ROOT, archives, closure, parse_table

HALVES = {"serve": "maintain", "maintain": "serve"}
TABLE = os.path.join(ROOT, "cmake", "modules.cmake")
# (program that must have it, program that must not, what). The first of each is the control.
SYMBOLS = (
    ("lithify-maintain", "lithify-serve", r"\blithify::maintain::"),
    ("lithify-maintain", "lithify-serve", r"\bPrincipalConfig\b"),
    ("lithify-maintain", "lithify-serve", r"\bJobCredential\b"),
    ("lithify-maintain", "lithify-serve", r"\blithify::net::SignClientAssertion\b"),
    ("lithify-serve", "lithify-maintain", r"\blithify::serve::"),
    ("lithify-serve", "lithify-maintain", r"\blithify::sql::"),
    ("lithify-serve", "lithify-maintain", r"\blithify::flightsql::"),
    ("lithify-serve", "lithify-maintain", r"\bduckdb_open"),
    # What a person types acts as that person.
    ("lithify-maintain", "lithify", r"\blithify::maintain::"),
    ("lithify-serve", "lithify", r"\blithify::serve::"),
    # A worker reads tables by their metadata alone.
    ("lithify-serve", "lithify-worker", r"\blithify::catalog::"),
    ("lithify-serve", "lithify-worker", r"\blithify::plan::"),
    ("lithify-serve", "lithify-worker", r"\blithify::commit::"),
    ("lithify-serve", "lithify-worker", r"\blithify::job::"),
    ("lithify-serve", "lithify-worker", r"\blithify::sql::"),
    ("lithify-serve", "lithify-worker", r"\blithify::serve::"),
    ("lithify-serve", "lithify-worker", r"\bsqlite3_open"),
    ("lithify-maintain", "lithify-worker", r"\blithify::maintain::"),
    ("lithify-maintain", "lithify-worker", r"\bJobCredential\b"),
    ("lithify-worker", "lithify-maintain", r"\blithify::fleet::FlightWorker\b"),
)
# What a worker must not be linked with, by module; config is, for the reading of one section.
WORKER = "lithify-worker"
NOT_OF_A_WORKER = ("catalog", "commit", "embed", "flightsql", "job", "maintain", "observe", "plan",
                   "serve", "sql")
# The only program with both halves, and what tells them.
COORDINATOR = "lithifyd"
OF_HALF = {"serve": r"\blithify::serve::", "maintain": r"\blithify::maintain::"}
# (name, statements, whether they compile).
SNIPPETS = (
    ("a credential is minted and moved",
     'auto c = p.Mint("j"); JobCredential d(std::move(*c)); d = std::move(*c);', True),
    ("copied", 'auto c = p.Mint("j"); JobCredential d(*c);', False),
    ("assigned", 'auto c = p.Mint("j"); auto d = p.Mint("k"); *d = *c;', False),
    ("made of nothing", "JobCredential d{};", False),
    ("made of its parts", 'JobCredential d("j", "u", nullptr);', False),
    ("printed", 'auto c = p.Mint("j"); std::cout << *c;', False),
    ("a secret is printed, as three stars", "std::cout << lithify::Secret();", True),
    ("the principal's configuration is printed", "std::cout << PrincipalConfig();", False),
    ("the principal is asked for a token", "p.Token();", False),
    ("the principal is copied", "const Principal& q = p; Principal r(q);", False),
)
# The same for what the interactive half is configured by: there is no such field.
CONFIG_SNIPPETS = (
    ("its own fields are there", "(void)c.auth.client_id; (void)c.server.listen;", True),
    ("a principal", "(void)c.principal;", False),
    ("a principal of the server", "(void)c.server.principal;", False),
    ("maintenance", "(void)c.maintenance;", False),
)


def run(*command, cwd=None):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, cwd=cwd)


def configure(top, table, modules):
    """Configures a tree with `table`; `modules` is a list of (name, uses, text of its file)."""
    calls = []
    for name, uses, text in modules:
        os.makedirs(f"{top}/src/{name}", exist_ok=True)
        with open(f"{top}/src/{name}/{name}.cc", "w", encoding="utf-8") as file:
            file.write(text)
        calls.append(f"lithify_module({name} {uses} SOURCES src/{name}/{name}.cc)\n")
    with open(f"{top}/modules.cmake", "w", encoding="utf-8") as file:
        file.write(table)
    with open(f"{top}/CMakeLists.txt", "w", encoding="utf-8") as file:
        file.write("cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n"
                   "add_library(lithify_flags INTERFACE)\n"
                   f"include({top}/modules.cmake)\n" + "".join(calls))
    return run("cmake", "-S", top, "-B", f"{top}/build", "-DCMAKE_CXX_COMPILER_WORKS=1")


def check_configuring(problems):
    with open(TABLE, encoding="utf-8") as file:
        table = file.read()
    base = ("base", "", "")

    def listing(module, more):
        line = f"set(LITHIFY_MAY_USE_{module}"
        if table.count(line) != 1:
            problems.append(f"configuring: the table has not one line for {module}")
        return table.replace(line, f"{line} {more}")

    include = '#include "{}/x.h"\n'
    cases = [
        ("the table as it is", table, [base], True),
        ("serve lists maintain", listing("serve", "maintain"), [base], False),
        ("maintain lists serve", listing("maintain", "serve"), [base], False),
        # embed is used by both: whatever it lists, both reach.
        ("embed lists maintain", listing("embed", "maintain"), [base], False),
        ("embed lists serve", listing("embed", "serve"), [base], False),
        ("serve includes embed", table, [base, ("serve", "", include.format("embed"))], True),
        ("serve includes maintain", table, [base, ("serve", "", include.format("maintain"))],
         False),
        ("maintain includes embed", table, [base, ("maintain", "", include.format("embed"))],
         True),
        ("maintain includes serve", table, [base, ("maintain", "", include.format("serve"))],
         False),
        ("maintain includes sql", table, [base, ("maintain", "", include.format("sql"))], False),
        ("maintain includes DuckDB", table, [base, ("maintain", "", "#include <duckdb.h>\n")],
         False),
    ]
    # By a module of which nobody has thought yet.
    for name, listed, allowed in (("a module between them", "base", True),
                                  ("a module that joins them", "maintain", False)):
        joined = listing("serve", "between").replace(
            "\n# What acts for callers",
            f"\nset(LITHIFY_MAY_USE_between {listed})\n# What acts for callers")
        cases.append((name, joined, [base], allowed))
    for name, changed, modules, allowed in cases:
        with tempfile.TemporaryDirectory() as top:
            result = configure(top, changed, modules)
        if (result.returncode == 0) != allowed:
            problems.append(f"configuring, case '{name}': exit {result.returncode}, output:\n"
                            f"{result.stdout}")
        elif not allowed and "modules.cmake" not in result.stdout:
            problems.append(f"configuring, case '{name}': the message does not name the table")
    print(f"separation: {len(cases)} configurations as they must be")


def link_inputs(build, program, uses):
    """What the build links `program` of: its own objects, and all libraries but the modules."""
    commands = run("ninja", "-C", build, "-t", "commands", f"bin/{program}").stdout.splitlines()
    link = [c for c in commands if f"-o bin/{program} " in c][-1]
    words = [w for w in shlex.split(link) if w.startswith(("-L", "-l", "-Wl,-rpath"))
             or re.search(r"\.(so[.0-9]*|a|o)$", w)]
    objects = [w for w in words if w.endswith(".o")]
    modules = {f"liblithify_{module}.a" for module in uses}
    others = [w for w in words if not w.endswith(".o") and os.path.basename(w) not in modules]
    return objects, others


def link(build, objects, members, others, work):
    command = ["g++", "-fuse-ld=mold", "-o", f"{work}/linked", *objects, "-Wl,--whole-archive",
               *members, "-Wl,--no-whole-archive", *others, "-pthread"]
    return run(*command, cwd=build)


def with_workers(uses, *halves):
    """The modules of a program: its halves, and the fleet and the page, which programs bring and
    halves do not need."""
    return sorted({name for module in (*halves, "fleet", "page") for name in closure(uses, module)})


def check_linking(build, uses, problems):
    libraries = {name: os.path.abspath(path) for name, path in archives(build, uses).items()}
    with tempfile.TemporaryDirectory() as work:
        main = f"{work}/main.cc"
        with open(main, "w", encoding="utf-8") as file:
            file.write("int main() { return 0; }\n")
        for half, other in HALVES.items():
            objects, others = link_inputs(build, f"lithify-{half}", uses)
            own = [libraries[name] for name in closure(uses, half)]
            if libraries[other] in own:
                problems.append(f"the closure of {half} has {other} in it")
            whole = link(build, [main], own, others, work)
            if whole.returncode != 0:
                problems.append(f"{half} does not link whole without {other}:\n"
                                f"{whole.stdout[:2000]}")
            # The program of the other half calls the other half: with this one it must not link.
            strange, more = link_inputs(build, f"lithify-{other}", uses)
            program = [libraries[name] for name in with_workers(uses, half)]
            linked = link(build, objects, program, others, work)
            if linked.returncode != 0:
                problems.append(f"control: lithify-{half} does not link of its own modules:\n"
                                f"{linked.stdout[:2000]}")
            result = link(build, strange, program, [*others, *more], work)
            if result.returncode == 0:
                problems.append(f"control: the program of {other} linked without {other}: "
                                "the link test is empty")
            elif f"lithify::{other}::" not in result.stdout:
                problems.append(f"control: the program of {other} failed to link for another "
                                f"reason:\n{result.stdout[:2000]}")
    print("separation: each half links whole without the other")


def symbols_of(build, program, cache={}):
    if program not in cache:
        path = os.path.join(build, "bin", program)
        out = run("nm", "-C", path).stdout + run("nm", "-D", "-C", path).stdout
        cache[program] = out.splitlines()
    return cache[program]


def check_symbols(build, problems):
    for has, lacks, what in SYMBOLS:
        pattern = re.compile(what)
        if not any(pattern.search(line) for line in symbols_of(build, has)):
            problems.append(f"control: {has} was expected to have {what}")
        found = [line for line in symbols_of(build, lacks) if pattern.search(line)]
        if found:
            problems.append(f"{lacks} has {what}: {found[0].strip()}")
    print(f"separation: {len(SYMBOLS)} symbols where they must be, and nowhere else")


def check_programs(build, problems):
    programs = sorted(os.listdir(os.path.join(build, "bin")))
    joined = [program for program in programs
              if all(any(re.search(pattern, line) for line in symbols_of(build, program))
                     for pattern in OF_HALF.values())]
    if joined != [COORDINATOR]:
        problems.append(f"programs with both halves: {', '.join(joined) or 'none'}; must be "
                        f"{COORDINATOR} alone")
    print(f"separation: of {len(programs)} programs {COORDINATOR} alone has both halves")


def check_coordinator(build, uses, problems):
    """It calls both halves: of either one alone it does not link."""
    libraries = {name: os.path.abspath(path) for name, path in archives(build, uses).items()}
    with tempfile.TemporaryDirectory() as work:
        objects, others = link_inputs(build, COORDINATOR, uses)
        both = [libraries[name] for name in with_workers(uses, "serve", "maintain")]
        result = link(build, objects, both, others, work)
        if result.returncode != 0:
            problems.append(f"control: {COORDINATOR} does not link of both halves:\n"
                            f"{result.stdout[:2000]}")
        for half, other in HALVES.items():
            own = [libraries[name] for name in with_workers(uses, half)]
            result = link(build, objects, own, others, work)
            if result.returncode == 0 or f"lithify::{other}::" not in result.stdout:
                problems.append(f"{COORDINATOR} should not link without {other}:\n"
                                f"{result.stdout[:2000]}")
    print(f"separation: {COORDINATOR} needs both halves")


def check_worker(build, uses, problems):
    """Its module links whole with its closure, and the program without what a worker has not."""
    libraries = {name: os.path.abspath(path) for name, path in archives(build, uses).items()}
    own = closure(uses, "fleet")
    for module in NOT_OF_A_WORKER:
        if module in own:
            problems.append(f"the closure of fleet has {module} in it")
    objects, others = link_inputs(build, WORKER, uses)
    # Of config the parts that are needed, not all: those would bring the planner.
    config = [libraries["config"], *(libraries[name] for name in own)]
    with tempfile.TemporaryDirectory() as work:
        members = [libraries[name] for name in own]
        result = link(build, objects, members, [*config, *others], work)
        if result.returncode != 0:
            problems.append(f"{WORKER} does not link without {', '.join(NOT_OF_A_WORKER)}:\n"
                            f"{result.stdout[:2000]}")
        # The controls: what it uses is missed, and what uses the others does not link so.
        without = [libraries[name] for name in own if name != "group"]
        result = link(build, objects, without,
                      [libraries["config"], *without, *others], work)
        if result.returncode == 0 or "lithify::group::" not in result.stdout:
            problems.append(f"control: {WORKER} linked without module group: the test is empty")
        strange, more = link_inputs(build, "lithify-serve", uses)
        result = link(build, strange, members, [*config, *others, *more], work)
        if result.returncode == 0:
            problems.append("control: lithify-serve linked of a worker's modules")
    print(f"separation: {WORKER} links without {', '.join(NOT_OF_A_WORKER)}")


def compiles(text, work):
    path = f"{work}/snippet.cc"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return run("g++", "-std=c++23", "-fsyntax-only", f"-I{ROOT}/src", f"-I{ROOT}/include", path)


def check_types(problems):
    head = ('#include <iostream>\n#include <utility>\n#include "maintain/principal.h"\n'
            "using namespace lithify::maintain;\nvoid F(Principal& p) {\n(void)p;\n")
    config = ('#include "config/config.h"\n'
              "void F(lithify::config::HiveConfig& c) {\n(void)c;\n")
    with tempfile.TemporaryDirectory() as work:
        for start, snippets in ((head, SNIPPETS), (config, CONFIG_SNIPPETS)):
            for name, statements, good in snippets:
                result = compiles(start + statements + "\n}\n", work)
                if (result.returncode == 0) != good:
                    problems.append(f"types, case '{name}': exit {result.returncode}, output:\n"
                                    f"{result.stdout[:2000]}")
    print(f"separation: {len(SNIPPETS) + len(CONFIG_SNIPPETS)} snippets compile or do not, as "
          "they must")


def main(build):
    problems = []
    uses = parse_table()
    check_configuring(problems)
    check_types(problems)
    check_linking(build, uses, problems)
    check_symbols(build, problems)
    check_programs(build, problems)
    check_coordinator(build, uses, problems)
    check_worker(build, uses, problems)
    for problem in problems:
        print(f"FAILED: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
