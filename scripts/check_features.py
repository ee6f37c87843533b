#!/usr/bin/env python3
"""Checks that every feature of every library of the product compiles without the others.

    scripts/check_features.py

Each library is checked with no features, and then with each of its features alone. What `--all-features` covers is not
repeated: a library with fewer than two features needs one check.
"""

import json
import subprocess
import sys
import time

# Features that only tests turn on, or that other features imply one by one.
SKIPPED = {"default", "planted-bugs"}


def packages():
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    found = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    return [one for one in found["packages"] if "/crates/" in one["manifest_path"]]


def check(name, features):
    command = ["cargo", "check", "--quiet", "-p", name, "--lib", "--no-default-features"]
    if features:
        command += ["--features", features]
    began = time.monotonic()
    ended = subprocess.run(command, check=False)
    mark = "ok    " if ended.returncode == 0 else "FAILED"
    print(f"{mark} {name} [{features}] in {time.monotonic() - began:.0f} s", flush=True)
    return ended.returncode == 0


def main():
    passed, failed = 0, 0
    for package in packages():
        if not any("lib" in target["kind"] for target in package["targets"]):
            continue
        features = [name for name in package["features"] if name not in SKIPPED]
        for wanted in ["", *features]:
            if check(package["name"], wanted):
                passed += 1
            else:
                failed += 1
    print(f"{passed} combinations compile, {failed} do not")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
