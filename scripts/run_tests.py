#!/usr/bin/env python3
"""Builds all tests of the workspace and runs several of their programs at once.

    scripts/run_tests.py [--jobs N] [--again "ENV=VALUE [PACKAGE/]TEST ARGUMENTS"]...
        [--narrow "[PACKAGE/]TEST ARGUMENTS"]... -- CARGO_ARGUMENTS

--again runs a program once more in another setting; --narrow gives a program arguments, such as the tests to skip.

Most tests wait: for servers that start, for leases that run out. cargo runs one test program after
the other, so that the machine idles; here they share it. A program's output is shown when it fails,
and with --show NAME; lines that say NOT RUN are always shown. Documentation tests are cargo's own
business.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field

# Those that take longest, so that none of them is left for the end.
LONGEST = ["short", "planted", "contract", "conformance", "transaction", "faults", "damage", "model"]
LONGEST += ["end_to_end"]
# Nothing here takes so long, also on a slow machine and with the waiting of one for another; what does hangs.
LIMIT_SECONDS = 25 * 60
# How much of a failed program's output is repeated at the end.
FAILURE_LINES = 60


@dataclass
class Program:
    name: str
    path: str
    directory: str
    settings: dict = field(default_factory=dict)
    arguments: list = field(default_factory=list)

    @property
    def label(self):
        return " ".join([self.name] + [f"{key}={value}" for key, value in self.settings.items()])

    def rank(self):
        target = self.name.split(" ")[-1]
        return LONGEST.index(target) if target in LONGEST else len(LONGEST)


def build(arguments):
    command = ["cargo", "test", "--no-run", "--quiet", "--message-format=json-render-diagnostics"]
    built = subprocess.run(command + arguments, stdout=subprocess.PIPE, text=True, check=False)
    if built.returncode != 0:
        sys.exit(built.returncode)
    programs = []
    for line in built.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact" or not message.get("executable"):
            continue
        if not message["profile"]["test"]:
            # The program itself: tests that start it need not build it again.
            if message["target"]["name"] == "semel":
                os.environ["TORTURE_PROGRAM"] = message["executable"]
            continue
        directory = os.path.dirname(message["manifest_path"])
        name = f"{os.path.basename(directory)} {message['target']['name']}"
        programs.append(Program(name, message["executable"], directory))
    return programs


def named(programs, test):
    """The programs of this name."""
    name = f" {test}".replace("/", " ")
    found = [program for program in programs if f" {program.name}".endswith(name)]
    if not found:
        sys.exit(f"no test program is called {test}")
    return found


def again(programs, wish):
    """The same tests once more, in another setting."""
    setting, test, *arguments = wish.split()
    key, value = setting.split("=")
    found = named(programs, test)
    return [Program(one.name, one.path, one.directory, {key: value}, arguments) for one in found]


def narrow(programs, wish):
    """Gives programs arguments."""
    test, *arguments = wish.split()
    for program in named(programs, test):
        program.arguments = arguments


def run(program, options):
    command = [program.path, "--show-output"] + program.arguments
    if options.threads:
        command += [f"--test-threads={options.threads}"]
    settings = {"CARGO_MANIFEST_DIR": program.directory, **program.settings}
    began = time.monotonic()
    try:
        ended = subprocess.run(
            command,
            cwd=program.directory,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=LIMIT_SECONDS,
            check=False,
        )
        said, code = ended.stdout, ended.returncode
    except subprocess.TimeoutExpired as late:
        said, code = f"{late.stdout}\nstill running after {LIMIT_SECONDS} s\n", 1
    return said, code, time.monotonic() - began


def counts(said):
    found = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", said, re.M)
    return tuple(map(int, found[-1])) if found else (0, 0, 0)


def shown(said, is_whole):
    """All of it, or what must be known of tests that passed."""
    return said if is_whole else "\n".join(re.findall(r"^NOT RUN.*$", said, re.M))


def failures(said):
    """The names of the tests that failed, and the end of the output."""
    names = re.findall(r"^test .* \.\.\. FAILED$", said, re.M)
    return "\n".join(names + said.splitlines()[-FAILURE_LINES:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=3, help="programs at once")
    parser.add_argument("--threads", type=int, help="tests at once in each program")
    parser.add_argument("--show", default="", help="a package whose output is shown")
    parser.add_argument("--again", action="append", default=[], help="one of them again, so")
    parser.add_argument("--narrow", action="append", default=[], help="arguments for one of them")
    parser.add_argument("cargo", nargs="*", help="arguments for cargo test")
    options = parser.parse_args()

    began = time.monotonic()
    built = build(options.cargo)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)
    for wish in options.narrow:
        narrow(built, wish)
    repeated = [program for wish in options.again for program in again(built, wish)]
    programs = sorted(built + repeated, key=Program.rank)
    lock, failed, totals = threading.Lock(), {}, [0, 0, 0]

    def work(program):
        said, code, took = run(program, options)
        passed = counts(said)
        with lock:
            if code != 0:
                failed[program.label] = said
            text = shown(said, code != 0 or options.show in program.name.split(" "))
            if text:
                print(text)
            for index, count in enumerate(passed):
                totals[index] += count
            mark = "ok    " if code == 0 else "FAILED"
            if sum(passed) or code:
                print(f"{mark} {program.label}: {passed[0]} passed in {took:.0f} s", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, programs))
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} ignored, {len(programs)} programs")
    if failed:
        # Once more, since what keeps the log of a long run may keep its end only.
        for label, said in failed.items():
            print(f"\n== failed: {label}\n{failures(said)}")
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
