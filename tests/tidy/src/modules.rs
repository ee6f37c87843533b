//! One direction inside each crate: its top-level modules form no cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::files::{product_code, product_files, read, root};

/// The crates that are free of cycles, and stay so.
const ONE_DIRECTION: [&str; 7] = [
    "semel-core",
    "semel-store",
    "semel-engine",
    "semel-embedded",
    "semel-postgres",
    "semel-redis",
    "semel-gateway",
];

type Edges = BTreeMap<String, BTreeSet<String>>;

#[test]
fn modules_of_a_crate_depend_on_each_other_in_one_direction() {
    for name in ONE_DIRECTION {
        let source = root().join("crates").join(name).join("src");
        let edges = edges(&source);
        assert!(edges.len() > 5, "{name}: {edges:?}");
        let cycles = cycles(&edges);
        assert!(cycles.is_empty(), "{name} has cycles between {cycles:?}");
    }
}

#[test]
fn imports_are_read() {
    let code = "use crate::{One, two::{Inner, more}, three};\nlet it = crate::four::five();";
    let names: Vec<String> = crate_paths(code).into_iter().collect();
    assert_eq!(names, ["One", "four", "three", "two"]);
}

#[test]
fn a_cycle_is_found() {
    let edge = |(from, to): (&str, &str)| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    let edges = Edges::from([("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")].map(edge));
    assert_eq!(cycles(&edges), [BTreeSet::from(["b".to_owned(), "c".to_owned()])]);
}

/// Which top-level module names which others by a `crate::` path, re-exports of the root included.
fn edges(source: &Path) -> Edges {
    let root = read(&source.join("lib.rs"));
    let exports = exports(&root);
    let mut edges = Edges::new();
    for path in product_files(source) {
        let module = top_level(source, &path);
        if module == "lib" {
            continue;
        }
        let names = crate_paths(&product_code(&path));
        let modules = names.into_iter().filter_map(|name| {
            let module = exports.get(&name).cloned().unwrap_or(name);
            is_module(source, &module).then_some(module)
        });
        edges.entry(module.clone()).or_default().extend(modules.filter(|it| *it != module));
    }
    edges
}

/// Public names of the root, and the modules that they come from.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut exports = BTreeMap::new();
    for statement in root.split(';') {
        let Some((_, path)) = statement.rsplit_once("use ") else { continue };
        let Some((module, names)) = path.split_once("::") else { continue };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_') {
            exports.insert(name.to_owned(), module.trim().to_owned());
        }
    }
    exports
}

/// The first names after `crate::`, in `crate::name` and in `crate::{name, name::more}`.
fn crate_paths(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        match rest.strip_prefix('{') {
            Some(group) => names.extend(items(group).into_iter().map(first_name)),
            None => drop(names.insert(first_name(rest))),
        }
    }
    names.remove("");
    names
}

/// The items of a group of imports, which begins after its brace.
fn items(group: &str) -> Vec<&str> {
    let (mut depth, mut items, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' | ',' if depth == 0 => {
                items.push(group[start..at].trim());
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    items
}

fn first_name(path: &str) -> String {
    path.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// Groups of modules that depend on each other.
fn cycles(edges: &Edges) -> Vec<BTreeSet<String>> {
    let reach: Edges = edges.keys().map(|from| (from.clone(), reachable(edges, from))).collect();
    let mut found: Vec<BTreeSet<String>> = Vec::new();
    for (from, to) in reach.iter().filter(|(from, to)| to.contains(*from)) {
        let together = |other: &&String| reach.get(*other).is_some_and(|back| back.contains(from));
        let cycle: BTreeSet<String> = to.iter().filter(together).cloned().collect();
        if !found.contains(&cycle) {
            found.push(cycle);
        }
    }
    found
}

fn reachable(edges: &Edges, from: &str) -> BTreeSet<String> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = open.pop() {
        for next in edges.get(&module).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}

fn is_module(source: &Path, name: &str) -> bool {
    source.join(format!("{name}.rs")).exists() || source.join(name).is_dir()
}

fn top_level(source: &Path, path: &Path) -> String {
    let inside = path.strip_prefix(source).expect("a path inside");
    let first = inside.components().next().expect("a name").as_os_str().to_string_lossy();
    first.trim_end_matches(".rs").to_owned()
}
