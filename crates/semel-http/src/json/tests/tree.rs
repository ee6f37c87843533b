//! A model of JSON values: trees that are made at random, printed in many ways, changed in one
//! place, and read back from the canonical form.

use std::collections::BTreeMap;
use std::fmt::Write;

use proptest::prelude::*;

use crate::json::Pointer;

/// A JSON value. Two are equal exactly when their canonical forms must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tree {
    Word(&'static str),
    Number(String),
    Text(String),
    List(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
    /// What an ignored element becomes; never printed.
    Ignored,
}

/// A place in a tree: the steps that a pointer takes, unescaped.
pub(super) type Path = Vec<String>;

/// Choices that look random but follow from a seed.
pub(super) struct Dice(pub(super) u64);

// === impl Dice ===

impl Dice {
    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed >> 32) % sides as u64).unwrap()
    }
}

// === making ===

/// Any tree of up to five levels, of about 30 values on average. Texts and names come from a small
/// alphabet of awkward characters, so that they often collide.
pub(super) fn any_tree() -> impl Strategy<Value = Tree> {
    (0..4).fold(any_scalar().boxed(), |inner, _| {
        prop_oneof![
            1 => any_scalar(),
            3 => prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
            4 => prop::collection::btree_map(any_text(), inner, 0..6).prop_map(Tree::Object),
        ]
        .boxed()
    })
}

fn any_scalar() -> impl Strategy<Value = Tree> {
    let words = prop::sample::select(vec!["true", "false", "null"]);
    let tiny = prop::sample::select(vec!["0", "-0", "1", "1.0", "1e0", "10"]);
    prop_oneof![
        words.prop_map(Tree::Word),
        tiny.prop_map(|token| Tree::Number(token.into())),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,4})?".prop_map(Tree::Number),
        any_text().prop_map(Tree::Text),
    ]
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[ab01~/\",{}\\\\\u{0}\u{1f}\n é\u{ff}\u{301}\u{fffd}😀]{0,3}",
        1 => any::<String>(),
    ]
}

// === printing ===

impl Tree {
    /// A text of this value, one of many.
    pub(super) fn print(&self, dice: &mut Dice) -> String {
        let mut out = String::new();
        self.print_to(&mut out, dice);
        out
    }

    fn print_to(&self, out: &mut String, dice: &mut Dice) {
        print_space(out, dice);
        match self {
            Self::Word(token) => out.push_str(token),
            Self::Number(token) => out.push_str(token),
            Self::Text(text) => print_text(text, out, dice),
            Self::List(items) => print_list(items, out, dice),
            Self::Object(members) => print_object(members, out, dice),
            Self::Ignored => unreachable!("only a form has it"),
        }
        print_space(out, dice);
    }
}

fn print_list(items: &[Tree], out: &mut String, dice: &mut Dice) {
    out.push('[');
    print_space(out, dice);
    for (index, item) in items.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { "," });
        item.print_to(out, dice);
    }
    out.push(']');
}

fn print_object(members: &BTreeMap<String, Tree>, out: &mut String, dice: &mut Dice) {
    let mut left: Vec<_> = members.iter().collect();
    out.push('{');
    print_space(out, dice);
    while !left.is_empty() {
        let (name, value) = left.remove(dice.roll(left.len()));
        print_space(out, dice);
        print_text(name, out, dice);
        print_space(out, dice);
        out.push(':');
        value.print_to(out, dice);
        out.push_str(if left.is_empty() { "" } else { "," });
    }
    out.push('}');
}

fn print_space(out: &mut String, dice: &mut Dice) {
    while dice.roll(4) == 0 {
        out.push([' ', '\t', '\n', '\r'][dice.roll(4)]);
    }
}

fn print_text(text: &str, out: &mut String, dice: &mut Dice) {
    out.push('"');
    for character in text.chars() {
        let short = "\"\"\\\\//\u{8}b\u{c}f\nn\rr\tt".chars().collect::<Vec<_>>();
        let short = short.chunks(2).find(|pair| pair[0] == character).map(|pair| pair[1]);
        let may_be_plain = character >= ' ' && character != '"' && character != '\\';
        match (short, dice.roll(3)) {
            (_, 0) if may_be_plain => out.push(character),
            (Some(letter), 1) => out.extend(['\\', letter]),
            _ => print_code_units(character, out, dice),
        }
    }
    out.push('"');
}

fn print_code_units(character: char, out: &mut String, dice: &mut Dice) {
    for unit in character.encode_utf16(&mut [0; 2]) {
        match dice.roll(2) {
            0 => write!(out, "\\u{unit:04x}").unwrap(),
            _ => write!(out, "\\u{unit:04X}").unwrap(),
        }
    }
}

// === places ===

impl Tree {
    /// The path to each value in the tree, the root first.
    pub(super) fn paths(&self) -> Vec<Path> {
        let inner: Vec<(String, &Self)> = match self {
            Self::List(items) => {
                items.iter().enumerate().map(|(index, item)| (index.to_string(), item)).collect()
            }
            Self::Object(members) => {
                members.iter().map(|(name, value)| (name.clone(), value)).collect()
            }
            _ => Vec::new(),
        };
        let below = inner.into_iter().flat_map(|(step, tree)| {
            tree.paths().into_iter().map(move |path| [vec![step.clone()], path].concat())
        });
        std::iter::once(Vec::new()).chain(below).collect()
    }

    pub(super) fn at(&mut self, path: &[String]) -> Option<&mut Self> {
        let Some((step, rest)) = path.split_first() else { return Some(self) };
        match self {
            Self::List(items) => {
                let index = (0..items.len()).find(|index| index.to_string() == *step)?;
                items[index].at(rest)
            }
            Self::Object(members) => members.get_mut(step)?.at(rest),
            _ => None,
        }
    }

    /// The tree as it counts when the values at `paths` are ignored.
    pub(super) fn without(&self, paths: &[Path]) -> Self {
        let mut tree = self.clone();
        for path in paths {
            tree.ignore(path);
        }
        tree
    }

    fn ignore(&mut self, path: &[String]) {
        let parent = path.split_last().and_then(|(last, parent)| Some((last, self.at(parent)?)));
        if let Some((name, Self::Object(members))) = parent {
            members.remove(name);
        } else if let Some(tree) = self.at(path) {
            *tree = Self::Ignored;
        }
    }

    /// A tree that differs in one place, or, seldom, not at all.
    pub(super) fn changed(&self, with: Self, dice: &mut Dice) -> Self {
        let mut tree = self.clone();
        let paths = tree.paths();
        let place = tree.at(&paths[dice.roll(paths.len())]).unwrap();
        place.change(with, dice);
        tree
    }

    fn change(&mut self, with: Self, dice: &mut Dice) {
        match (self, dice.roll(5)) {
            (Self::List(items), 0) => items.insert(dice.roll(items.len() + 1), with),
            (Self::List(items), 1) if !items.is_empty() => {
                items.remove(dice.roll(items.len()));
            }
            (Self::List(items), 2) if !items.is_empty() => items.rotate_left(1),
            (Self::Object(members), 0) => drop(members.insert("new".into(), with)),
            (Self::Object(members), 1 | 2) if !members.is_empty() => {
                let name = members.keys().nth(dice.roll(members.len())).unwrap().clone();
                let value = members.remove(&name).unwrap();
                if dice.roll(2) == 0 {
                    members.insert(name + "a", value);
                }
            }
            (Self::Text(text), 0) => text.push('0'),
            (Self::Number(token), 0) if token.contains(['.', 'e', 'E']) => token.push('0'),
            (Self::Number(token), 0) => token.push_str(".0"),
            (tree @ Self::Number(_), 1) => {
                let Self::Number(token) = tree.clone() else { unreachable!() };
                *tree = Self::Text(token);
            }
            (tree, 3) => *tree = Self::List(vec![tree.clone()]),
            (tree, _) => *tree = with,
        }
    }
}

/// The pointer that names a path.
pub(super) fn pointer(path: &[String]) -> Pointer {
    let step = |name: &String| format!("/{}", name.replace('~', "~0").replace('/', "~1"));
    Pointer::parse(&path.iter().map(step).collect::<String>()).unwrap()
}
