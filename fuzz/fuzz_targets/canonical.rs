//! Any bytes as JSON, judged by another reader of it.
//!
//! The input is a line of JSON Pointers with spaces between them, then the text.
#![no_main]

#[path = "canonical/tree.rs"]
mod tree;

use libfuzzer_sys::fuzz_target;
use semel_http::json::{NotCanonical, Pointer, Scalar, canonical, find};

use tree::{Spelling, Tree};

/// No route ignores as many.
const POINTERS_MAX: usize = 8;

fuzz_target!(|data: &[u8]| {
    let (line, text) = match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (&data[..0], data),
    };
    let line = String::from_utf8_lossy(line);
    let words = line.split(' ').filter(|word| !word.is_empty()).take(POINTERS_MAX);
    let pointers: Vec<Pointer> = words.filter_map(|word| Pointer::parse(word).ok()).collect();
    for pointer in &pointers {
        assert_eq!(Pointer::parse(&pointer.to_string()).as_ref(), Ok(pointer));
    }

    let form = canonical(text, &[]);
    assert_one_verdict(text, &pointers, form.as_ref().err());
    match form {
        Ok(form) => {
            let tree = Tree::read(text).expect("what has a form is JSON");
            assert_spelling_does_not_matter(text, &form, &tree);
            assert_each_scalar_matters(&form, &tree);
            assert_found(text, &pointers, &tree);
            assert_ignored(text, &pointers, &tree);
            // The whole text, which a line of words cannot name.
            let root = [Pointer::parse("").expect("a pointer")];
            assert_found(text, &root, &tree);
            assert_ignored(text, &root, &tree);
            assert_eq!(form_of(text, &root), form_of(b"null", &root));
        }
        // The judge goes deeper.
        Err(NotCanonical::TooDeep { .. }) => {}
        Err(error) => assert!(Tree::read(text).is_none(), "{error}, says only one of two readers"),
    }
});

/// What is accepted depends neither on what is ignored nor on what is looked for.
fn assert_one_verdict(text: &[u8], pointers: &[Pointer], error: Option<&NotCanonical>) {
    assert_eq!(canonical(text, pointers).as_ref().err(), error);
    for pointer in pointers {
        assert_eq!(find(text, pointer).as_ref().err(), error);
    }
}

fn assert_spelling_does_not_matter(text: &[u8], form: &[u8], tree: &Tree) {
    assert!(form.len() <= text.len());
    assert_eq!(form_of(&[b" \t", text, b"\r\n"].concat(), &[]), form);
    for spelling in [Spelling::Plain, Spelling::Backwards] {
        assert_eq!(form_of(tree.print(spelling).as_bytes(), &[]), form);
    }
}

fn assert_each_scalar_matters(form: &[u8], tree: &Tree) {
    let mut changed = tree.clone();
    let count = changed.scalars().len();
    // Some of them, or long texts take too long.
    for number in (0..count).step_by(count / 8 + 1) {
        let before = changed.clone();
        changed.scalars()[number].change();
        let text = changed.print(Spelling::Backwards);
        assert_ne!(form_of(text.as_bytes(), &[]), form, "{text}");
        changed = before;
    }
}

fn assert_found(text: &[u8], pointers: &[Pointer], tree: &Tree) {
    for pointer in pointers {
        let expected = tree.clone().at(&steps(pointer)).map(|found| match found {
            Tree::Text(text) => Scalar::String(text.clone()),
            Tree::Bare(token) if token.starts_with(['t', 'f', 'n']) => Scalar::Other,
            Tree::Bare(token) => Scalar::Number(token.clone()),
            Tree::List(_) | Tree::Object(_) => Scalar::Other,
        });
        assert_eq!(find(text, pointer), Ok(expected), "{pointer}");
    }
}

/// What lies under an ignored pointer does not matter.
fn assert_ignored(text: &[u8], pointers: &[Pointer], tree: &Tree) {
    let form = form_of(text, pointers);
    let (mut emptied, mut lost) = (tree.clone(), Lost::Nothing);
    let mut ways: Vec<_> = pointers.iter().map(steps).collect();
    // The shortest first: what lies in something that is ignored leaves no mark of its own.
    ways.sort_by_key(Vec::len);
    for steps in ways {
        lost = lost.max(ignore(&mut emptied, &steps));
    }
    let emptied = emptied.print(Spelling::Backwards);
    assert_eq!(form_of(emptied.as_bytes(), pointers), form);
    // An ignored element keeps its place, and the form has a mark there that no text has.
    assert_eq!(form_of(emptied.as_bytes(), &[]) == form, lost <= Lost::Member);
}

/// What an ignored pointer takes away.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lost {
    Nothing,
    Member,
    Other,
}

fn ignore(tree: &mut Tree, steps: &[String]) -> Lost {
    let Some(place) = tree.at(steps) else { return Lost::Nothing };
    *place = Tree::Bare("null".into());
    let parent = steps.split_last().and_then(|(last, steps)| Some((last, tree.at(steps)?)));
    match parent {
        Some((name, Tree::Object(members))) => {
            members.remove(name).map_or(Lost::Nothing, |_| Lost::Member)
        }
        _ => Lost::Other,
    }
}

/// The steps of a pointer, unescaped.
fn steps(pointer: &Pointer) -> Vec<String> {
    let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
    pointer.to_string().split('/').skip(1).map(unescaped).collect()
}

fn form_of(text: &[u8], ignore: &[Pointer]) -> Vec<u8> {
    canonical(text, ignore).expect("another spelling of a text that has a form")
}
