//! What ignored pointers leave out, and what they do not.

use super::*;

#[test]
fn an_ignored_member_counts_as_absent() {
    let absent = form(r#"{"a":1,"c":3}"#).unwrap();
    for text in [
        r#"{"a":1,"c":3}"#,
        r#"{"a":1,"b":2,"c":3}"#,
        r#"{"b":null,"c":3,"a":1}"#,
        r#"{"c":3,"a":1,"b":{"z":[{"y":1,"x":2}],"a":1}}"#,
        r#"{"c":3,"a":1,"\u0062":"~"}"#,
    ] {
        assert_eq!(form_without(text, &["/b"]), absent, "{text}");
    }
    assert_eq!(form_without(r#"{"b":1}"#, &["/b"]), form("{}").unwrap());
    assert_eq!(form_without(r#"{"a":1,"b":2,"c":3}"#, &["/c", "/a", "/b"]), form("{}").unwrap());
}

#[test]
fn an_ignored_member_may_lie_deep() {
    let text = r#"{"b":{"lines":[{"z":1,"at":1},{"z":2,"at":2}],"at":3},"at":4}"#;
    let without = form_without(text, &["/b/lines/1/at", "/b/at"]);
    let expected = form(r#"{"at":4,"b":{"lines":[{"at":1,"z":1},{"z":2}]}}"#).unwrap();
    assert_eq!(without, expected);
}

#[test]
fn an_ignored_element_keeps_its_place() {
    let without = |text| form_without(text, &["/1"]);
    assert_eq!(without("[1,2,3]"), without("[1,{\"b\":1,\"a\":[]},3]"));
    for other in ["[1,3]", "[1,3,2]", "[1,2]", "[1,2,3,4]", "[1]", "[]", "[[1,2,3]]"] {
        assert_ne!(without("[1,2,3]"), without(other), "{other}");
    }
    // No value stands for the mark.
    for other in ["[1,null,3]", "[1,\"~\",3]", "[1,\"\",3]", "[1,[],3]", "[1,{},3]"] {
        assert_ne!(without("[1,2,3]"), form(other).unwrap(), "{other}");
    }
}

#[test]
fn the_empty_pointer_ignores_everything() {
    for text in ["1", "[]", r#"{"b":{"d":1,"c":2},"a":1}"#, " \"x\" "] {
        assert_eq!(form_without(text, &[""]), form_without("null", &[""]), "{text}");
        assert_eq!(form_without(text, &["/a", "", "/a/b"]), form_without("null", &[""]), "{text}");
    }
    assert_ne!(form_without("null", &[""]), form("null").unwrap());
}

#[test]
fn a_shorter_pointer_covers_a_longer_one() {
    let text = r#"{"c":0,"a":{"c":1,"b":1}}"#;
    for ignored in [["/a", "/a/b"], ["/a/b", "/a"]] {
        assert_eq!(form_without(text, &ignored), form(r#"{"c":0}"#).unwrap());
    }
}

#[test]
fn a_pointer_that_leads_nowhere_ignores_nothing() {
    let text = r#"{"a":[1,{"b":2}],"0":{"1":3},"c~d/":"x","":4}"#;
    for nowhere in [
        "/b",
        "/a/b",
        "/a/2",
        "/a/-",
        "/a/01",
        "/a/1/b/c",
        "/a/0/0",
        "/0/0",
        "/A",
        "/a/",
        "/a/ 1",
        "//",
        "/c~0d",
        "/c",
        "/c~0d~1/0",
        "/a/99999999999999999999",
        "/\\u0061",
    ] {
        assert_eq!(form_without(text, &[nowhere]), form(text).unwrap(), "{nowhere}");
    }
    for somewhere in ["/a", "/a/0", "/a/1/b", "/0/1", "/c~0d~1", "/"] {
        assert_ne!(form_without(text, &[somewhere]), form(text).unwrap(), "{somewhere}");
    }
}

#[test]
fn a_pointer_does_not_reach_into_other_branches() {
    let text = r#"{"a":{"x":1},"b":{"x":2},"c":[{"x":3}],"x":4}"#;
    let expected = form(r#"{"a":{"x":1},"b":{},"c":[{"x":3}],"x":4}"#).unwrap();
    assert_eq!(form_without(text, &["/b/x"]), expected);
    let many = ["/b/x", "/b/y", "/q/x", "/c/1/x", "/a/x/y"];
    assert_eq!(form_without(text, &many), expected);
}

#[test]
fn ignored_values_are_still_checked() {
    let ignored = ["/a", "/1", ""].map(|text| Pointer::parse(text).unwrap());
    for pointers in [&ignored[..2], &ignored[..]] {
        for (text, error) in [
            (r#"{"a":{"b":1,"b":2}}"#, NotCanonical::DuplicateMember),
            (r#"{"a":1,"a":1}"#, NotCanonical::DuplicateMember),
            (r#"{"a":1,"b":1,"\u0061":1}"#, NotCanonical::DuplicateMember),
            (r#"[0,[{"b":1,"c":1,"b":2}]]"#, NotCanonical::DuplicateMember),
            (r#"{"a":01}"#, NotCanonical::Syntax { at: 6 }),
            (r#"{"a":"\ud800"}"#, NotCanonical::LoneSurrogate),
        ] {
            assert_eq!(canonical(text.as_bytes(), pointers), Err(error), "{text}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(128));
        assert_eq!(canonical(deep.as_bytes(), pointers), Err(NotCanonical::TooDeep { max: 128 }));
    }
}
