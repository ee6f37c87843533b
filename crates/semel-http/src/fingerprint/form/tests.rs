use proptest::prelude::*;

use super::super::readers::form_readings;
use super::*;

fn same(one: &str, other: &str) -> bool {
    let forms = [one, other].map(|form| fields(form.as_bytes()));
    // What is compared as it came is the same only if it is.
    if forms[0].is_none() || forms[1].is_none() { one == other } else { forms[0] == forms[1] }
}

#[test]
fn fields_may_come_in_another_order() {
    assert!(same("amount=100&currency=eur", "currency=eur&amount=100"));
    assert!(same("a=1&b=2&a=3", "b=2&a=1&a=3"));
    assert!(same("card[number]=42&card[year]=30&a=1", "a=1&card[year]=30&card[number]=42"));
    assert!(same("i[0][id]=1&i[0][n]=2&i[1][id]=3", "i[1][id]=3&i[0][n]=2&i[0][id]=1"));
    assert!(same("a[]=1&b=x&a[]=2", "a[]=1&a[]=2&b=x"));
    assert!(same("a&b=", "b=&a"));
}

#[test]
fn other_fields_are_another_form() {
    for (one, other) in [
        ("a=1&b=2", "a=2&b=1"),
        ("a=1", "a=1&a=1"),
        ("a=1&b=2", "a=1"),
        ("a", "a="),
        ("a=b&c", "a&b=c"),
        ("a=1&b=2", "a=1%26b=2"),
        ("a=+", "a=%20"),
        ("a[b]=1", "a%5Bb%5D=1"),
        ("a=1", "A=1"),
    ] {
        assert!(!same(one, other), "{one} {other}");
    }
}

#[test]
fn fields_keep_the_order_that_a_server_may_go_by() {
    for (one, other, why) in [
        ("a=1&a=2", "a=2&a=1", "values of one name"),
        ("a=1&%61=2", "%61=2&a=1", "which may be escaped"),
        ("a=1&A=2", "A=2&a=1", "some ignore case"),
        ("a[]=1&a[]=2", "a[]=2&a[]=1", "elements of a list"),
        ("a[][i]=1&a[][n]=2&a[][i]=3", "a[][i]=1&a[][i]=3&a[][n]=2", "and what is in them"),
        ("a[0]=1&a[]=2", "a[]=2&a[0]=1", "elements with and without a number"),
        ("a=1&a[b]=2", "a[b]=2&a=1", "a value and an object"),
        ("a[b]=1&a[b][c]=2", "a[b][c]=2&a[b]=1", "also further in"),
        ("a[b]=1&a[b][c]=2&a[x]=3", "a[x]=3&a[b]=1&a[b][c]=2", "and what is beside it"),
        ("a.b=1&a_b=2", "a_b=2&a.b=1", "a dot is an underscore to PHP"),
        ("a=1&+a=2", "+a=2&a=1", "which drops blanks"),
        ("a=1&a%00b=2", "a%00b=2&a=1", "and what follows a zero"),
        ("a[b=1&a_b=2", "a_b=2&a[b=1", "and closes no bracket"),
        ("a=1;b=2&b=3", "b=3&a=1;b=2", "a semicolon is an ampersand to some"),
        ("a=1&%zz=2", "%zz=2&a=1", "a broken escape"),
        ("a=1&%4=2", "%4=2&a=1", "a broken escape at the end"),
        ("a=1&\u{e9}=2", "\u{e9}=2&a=1", "case that not all fold alike"),
        ("a=1&=2", "=2&a=1", "no name"),
        ("a=1&&b=2", "b=2&&a=1", "no field"),
    ] {
        assert!(!same(one, other), "{why}: {one} {other}");
        assert!(same(one, one), "{one}");
    }
}

/// Some servers stop after a thousand fields.
#[test]
fn long_forms_keep_their_order() {
    let form = |names: &mut dyn Iterator<Item = usize>| {
        names.map(|name| format!("f{name}=1")).collect::<Vec<_>>().join("&")
    };
    assert!(same(&form(&mut (0..1000)), &form(&mut (0..1000).rev())));
    assert!(!same(&form(&mut (0..1001)), &form(&mut (0..1001).rev())));
}

/// Fields of few names, which servers may take for each other.
fn soup() -> impl Strategy<Value = Vec<String>> {
    let names = [
        "a", "A", "%61", "a[]", "a%5B%5D", "a[b]", "a[B]", "a[b][c]", "a[0]", "a[][i]", "a[][n]",
        "a.b", "a_b", "a+b", "+a", "a%00", "a[b", "a]", "a[[b]]", "é", "", "b", "b[c]",
    ];
    let values = ["", "=", "=1", "=2", "=1;a=2", "=%41", "=]=1"];
    let field = (prop::sample::select(names.to_vec()), prop::sample::select(values.to_vec()));
    prop::collection::vec(field.prop_map(|(name, value)| format!("{name}{value}")), 1..6)
}

proptest! {
    /// No server reads two forms differently that are one here.
    #[test]
    fn forms_in_another_order_are_one_only_if_all_servers_agree(
        (form, other) in soup().prop_flat_map(|form| (Just(form.clone()), Just(form).prop_shuffle()))
    ) {
        let (form, other) = (form.join("&"), other.join("&"));
        if same(&form, &other) {
            prop_assert_eq!(form_readings(form.as_bytes()), form_readings(other.as_bytes()));
        }
    }

    #[test]
    fn the_order_is_one_whatever_it_was(
        (form, other) in prop::collection::btree_set("[a-z]{1,2}(\\[[a-z]\\])?", 1..9)
            .prop_map(|names| names.into_iter().collect::<Vec<_>>())
            .prop_flat_map(|form| (Just(form.clone()), Just(form).prop_shuffle()))
    ) {
        let roots: Vec<_> = form.iter().map(|name| name.split('[').next()).collect();
        // `a` beside `a[b]` is another matter.
        let is_mixed = form.iter().any(|name| !name.contains('[') && roots.iter().filter(|root| **root == Some(name)).count() > 1);
        prop_assume!(!is_mixed);
        prop_assert!(same(&form.join("&"), &other.join("&")));
    }
}
