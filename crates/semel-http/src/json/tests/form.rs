//! Reads a canonical form back. That it can be done shows that no two values share a form.

use std::collections::BTreeMap;

use super::tree::Tree;

/// The value that `form` was made of. Panics if it is no canonical form.
pub(super) fn decode(form: &[u8]) -> Tree {
    let (tree, rest) = value(form);
    assert!(rest.is_empty(), "left over: {rest:?}");
    tree
}

fn value(form: &[u8]) -> (Tree, &[u8]) {
    match form {
        [b'"', ..] => {
            let (text, rest) = string(form);
            (Tree::Text(text), rest)
        }
        [b'[', b']', rest @ ..] => (Tree::List(Vec::new()), rest),
        [b'[', items @ ..] => list(items),
        [b'{', members @ ..] => object(members),
        [b'~', rest @ ..] => (Tree::Ignored, rest),
        _ => bare(form),
    }
}

fn string(form: &[u8]) -> (String, &[u8]) {
    assert_eq!(form[0], b'"');
    let end = form.iter().position(|byte| *byte == 0xff).unwrap();
    (String::from_utf8(form[1..end].to_vec()).unwrap(), &form[end + 1..])
}

fn list(mut form: &[u8]) -> (Tree, &[u8]) {
    let mut items = Vec::new();
    loop {
        let (item, rest) = value(form);
        items.push(item);
        form = &rest[1..];
        match rest[0] {
            b',' => {}
            b']' => return (Tree::List(items), form),
            other => panic!("{other} after an element"),
        }
    }
}

fn object(mut form: &[u8]) -> (Tree, &[u8]) {
    let mut members = BTreeMap::new();
    while form[0] != b'}' {
        let (name, rest) = string(form);
        let (member, rest) = value(rest);
        assert!(members.last_key_value().is_none_or(|(last, _)| *last < name), "not in order");
        members.insert(name, member);
        assert_eq!(rest[0], b',');
        form = &rest[1..];
    }
    (Tree::Object(members), &form[1..])
}

/// A number or a word.
fn bare(form: &[u8]) -> (Tree, &[u8]) {
    let end = form.iter().position(|byte| b",]}".contains(byte)).unwrap_or(form.len());
    let token = str::from_utf8(&form[..end]).unwrap();
    let tree = match ["true", "false", "null"].iter().find(|word| **word == token) {
        Some(word) => Tree::Word(word),
        None => Tree::Number(token.into()),
    };
    assert!(!token.is_empty());
    (tree, &form[end..])
}
