//! A JSON value as `serde_json` sees it: printed in other ways, changed in one place.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

#[derive(Clone)]
pub(crate) enum Tree {
    /// A number, `true`, `false` or `null`, as it was written.
    Bare(String),
    Text(String),
    List(Vec<Tree>),
    Object(BTreeMap<String, Tree>),
}

/// How a value is written.
#[derive(Clone, Copy)]
pub(crate) enum Spelling {
    /// As short as can be.
    Plain,
    /// Members from last to first, all characters escaped, white space everywhere.
    Backwards,
}

/// The members of an object, each as often as it is there.
struct Members<'a>(Vec<(String, &'a RawValue)>);

struct MembersVisitor;

// === impl Tree ===

impl Tree {
    /// The value of a text, or `None` if it is not JSON or has a member twice.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let text = str::from_utf8(text).ok()?;
        Self::of(serde_json::from_str(text).ok()?)
    }

    fn of(raw: &RawValue) -> Option<Self> {
        let text = raw.get();
        Some(match text.as_bytes()[0] {
            b'"' => Self::Text(serde_json::from_str(text).ok()?),
            b'[' => {
                let items: Vec<&RawValue> = serde_json::from_str(text).ok()?;
                Self::List(items.into_iter().map(Self::of).collect::<Option<_>>()?)
            }
            b'{' => {
                let Members(members) = serde_json::from_str(text).ok()?;
                let count = members.len();
                let members = members.into_iter().map(|(name, raw)| Some((name, Self::of(raw)?)));
                let members: BTreeMap<_, _> = members.collect::<Option<_>>()?;
                (members.len() == count).then_some(Self::Object(members))?
            }
            _ => Self::Bare(text.to_owned()),
        })
    }

    pub(crate) fn print(&self, spelling: Spelling) -> String {
        let mut out = String::new();
        self.print_to(spelling, &mut out);
        out
    }

    fn print_to(&self, spelling: Spelling, out: &mut String) {
        out.push_str(spelling.space());
        match self {
            Self::Bare(token) => out.push_str(token),
            Self::Text(text) => spelling.print_text(text, out),
            Self::List(items) => {
                out.push('[');
                for (index, item) in items.iter().enumerate() {
                    out.push_str(if index == 0 { spelling.space() } else { "," });
                    item.print_to(spelling, out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (index, (name, tree)) in spelling.ordered(members).into_iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    spelling.print_text(name, out);
                    out.push(':');
                    tree.print_to(spelling, out);
                }
                out.push('}');
            }
        }
        out.push_str(spelling.space());
    }

    /// The place that the steps of a pointer lead to.
    pub(crate) fn at(&mut self, steps: &[String]) -> Option<&mut Self> {
        let Some((step, rest)) = steps.split_first() else { return Some(self) };
        match self {
            Self::List(items) => {
                let index = (0..items.len()).find(|index| index.to_string() == *step)?;
                items[index].at(rest)
            }
            Self::Object(members) => members.get_mut(step)?.at(rest),
            Self::Bare(_) | Self::Text(_) => None,
        }
    }

    /// All that is neither a list nor an object.
    pub(crate) fn scalars(&mut self) -> Vec<&mut Self> {
        match self {
            Self::List(items) => items.iter_mut().flat_map(Self::scalars).collect(),
            Self::Object(members) => members.values_mut().flat_map(Self::scalars).collect(),
            scalar => vec![scalar],
        }
    }

    /// Makes another scalar of one, as like it as can be.
    pub(crate) fn change(&mut self) {
        match self {
            Self::Text(text) => text.push('0'),
            Self::Bare(token) if token.starts_with(['t', 'f', 'n']) => {
                *self = Self::Text(token.clone());
            }
            Self::Bare(token) if token.contains(['.', 'e', 'E']) => token.push('0'),
            Self::Bare(token) => token.push_str(".0"),
            Self::List(_) | Self::Object(_) => unreachable!("no scalar"),
        }
    }
}

// === impl Members ===

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(Members(members))
    }
}

// === impl Spelling ===

impl Spelling {
    fn space(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Backwards => " \n",
        }
    }

    fn ordered(self, members: &BTreeMap<String, Tree>) -> Vec<(&String, &Tree)> {
        match self {
            Self::Plain => members.iter().collect(),
            Self::Backwards => members.iter().rev().collect(),
        }
    }

    fn print_text(self, text: &str, out: &mut String) {
        out.push('"');
        for character in text.chars() {
            match (self, character) {
                (Self::Plain, '"' | '\\') => out.extend(['\\', character]),
                (Self::Plain, ' '..) => out.push(character),
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        let _ = write!(out, "\\u{unit:04x}");
                    }
                }
            }
        }
        out.push('"');
    }
}
