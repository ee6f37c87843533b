//! What must hold for every value, held against the model of `tree`.

use proptest::prelude::*;

use super::form::decode;
use super::tree::{Dice, Path, Tree, any_tree, pointer};
use super::*;

/// Some of the paths of `tree`.
fn some_paths(tree: &Tree, dice: &mut Dice) -> Vec<Path> {
    let paths = tree.paths();
    (0..dice.roll(4)).map(|_| paths[dice.roll(paths.len())].clone()).collect()
}

fn form_at_random(tree: &Tree, ignored: &[Path], dice: &mut Dice) -> Vec<u8> {
    let ignored: Vec<Pointer> = ignored.iter().map(|path| pointer(path)).collect();
    let text = tree.print(dice);
    canonical(text.as_bytes(), &ignored).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Bytes that are often nearly JSON.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "{", "}", "[", "]", ",", ":", "\"", "\\", "\\u", "d83d", "\\ude00", "00", "0", "-", "1",
        ".", "e", "+", "true", "null", " ", "\n", "\0", "a", "\"a\"", "\"a\":", "{\"a\":", "é",
        "\u{feff}", "~",
    ];
    let piece = prop_oneof![
        20 => prop::sample::select(pieces.map(|piece| piece.as_bytes().to_vec()).to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

/// A text with one byte changed, put in or taken out.
fn spoiled(text: String, dice: &mut Dice) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    let at = dice.roll(bytes.len());
    let byte = b"{}[],:\"\\ut0e.- \x00\x1f\x7f\xff"[dice.roll(19)];
    match dice.roll(3) {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        _ => drop(bytes.remove(at)),
    }
    bytes
}

/// Whatever is accepted has one value, and any other text of that value has the same form. What is
/// accepted depends neither on what is ignored nor on what is looked for.
fn assert_sound(text: &[u8], dice: &mut Dice) {
    let form = canonical(text, &[]);
    let error = form.as_ref().err();
    for pointers in ["", "/a", "/0", "/a/0"].map(|text| [Pointer::parse(text).unwrap()]) {
        assert_eq!(canonical(text, &pointers).as_ref().err(), error);
        assert_eq!(find(text, &pointers[0]).as_ref().err(), error);
    }
    if let Ok(form) = form {
        assert!(form.len() <= text.len());
        assert_eq!(form_at_random(&decode(&form), &[], dice), form);
    }
}

proptest! {
    #[test]
    fn two_texts_of_one_value_have_one_form(tree in any_tree(), seed: u64) {
        let mut dice = Dice(seed);
        let first = form_at_random(&tree, &[], &mut dice);
        prop_assert_eq!(&first, &form_at_random(&tree, &[], &mut dice));
        prop_assert_eq!(decode(&first), tree);
    }

    #[test]
    fn a_change_in_one_place_changes_the_form(tree in any_tree(), with in any_tree(), seed: u64) {
        let mut dice = Dice(seed);
        let changed = tree.changed(with, &mut dice);
        let forms = [&tree, &changed].map(|tree| form_at_random(tree, &[], &mut dice));
        prop_assert_eq!(forms[0] == forms[1], tree == changed);
    }

    #[test]
    fn ignored_values_and_no_others_do_not_matter(
        tree in any_tree(), with in any_tree(), seed: u64
    ) {
        let mut dice = Dice(seed);
        let ignored = some_paths(&tree, &mut dice);
        let changed = tree.changed(with, &mut dice);
        for tree in [tree, changed] {
            let form = form_at_random(&tree, &ignored, &mut dice);
            prop_assert_eq!(decode(&form), tree.without(&ignored));
        }
    }

    #[test]
    fn a_change_below_an_ignored_pointer_changes_nothing(
        tree in any_tree(), with in any_tree(), seed: u64
    ) {
        let mut dice = Dice(seed);
        let paths = tree.paths();
        let ignored = [paths[dice.roll(paths.len())].clone()];
        let mut changed = tree.clone();
        let place = changed.at(&ignored[0]).unwrap();
        *place = place.changed(with, &mut dice);
        let forms = [tree, changed].map(|tree| form_at_random(&tree, &ignored, &mut dice));
        prop_assert_eq!(&forms[0], &forms[1]);
    }

    #[test]
    fn a_change_elsewhere_changes_the_form(tree in any_tree(), with in any_tree(), seed: u64) {
        let mut dice = Dice(seed);
        let ignored = some_paths(&tree, &mut dice);
        let changed = tree.changed(with, &mut dice);
        let forms = [&tree, &changed].map(|tree| form_at_random(tree, &ignored, &mut dice));
        let is_same = tree.without(&ignored) == changed.without(&ignored);
        prop_assert_eq!(forms[0] == forms[1], is_same);
    }

    #[test]
    fn every_value_is_found_where_it_is(mut tree in any_tree(), other in any_tree(), seed: u64) {
        let text = tree.print(&mut Dice(seed));
        for path in [tree.paths(), other.paths()].concat() {
            let expected = tree.at(&path).map(|found| match found.clone() {
                Tree::Text(text) => Scalar::String(text),
                Tree::Number(token) => Scalar::Number(token),
                _ => Scalar::Other,
            });
            prop_assert_eq!(find(text.as_bytes(), &pointer(&path)), Ok(expected));
        }
    }

    #[test]
    fn a_member_twice_is_always_refused(name in any::<String>(), tree in any_tree(), seed: u64) {
        let mut dice = Dice(seed);
        let name = Tree::Text(name);
        let mut member = || format!("{}:{}", name.print(&mut dice), tree.print(&mut dice));
        let text = format!("[{{{},\"a longer name\":0,{}}}]", member(), member());
        let pointers = [Pointer::parse("/0").unwrap()];
        prop_assert_eq!(canonical(text.as_bytes(), &[]), Err(NotCanonical::DuplicateMember));
        prop_assert_eq!(canonical(text.as_bytes(), &pointers), Err(NotCanonical::DuplicateMember));
        prop_assert_eq!(find(text.as_bytes(), &pointers[0]), Err(NotCanonical::DuplicateMember));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, soup in soup(), seed: u64) {
        assert_sound(&bytes, &mut Dice(seed));
        assert_sound(&soup, &mut Dice(seed));
    }

    #[test]
    fn a_spoiled_text_is_refused_or_has_a_value(tree in any_tree(), seed: u64) {
        let mut dice = Dice(seed);
        for _ in 0..8 {
            let text = spoiled(tree.print(&mut dice), &mut dice);
            assert_sound(&text, &mut dice);
        }
    }
}
