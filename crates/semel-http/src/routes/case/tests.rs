use super::*;

#[test]
fn letters_are_folded_where_a_pattern_has_text() {
    for (path, pattern, expected) in [
        ("/V1/Charges", "/v1/charges", "/v1/charges"),
        ("/V1/Charges/Ab/Refunds", "/v1/charges/{id}/refunds", "/v1/charges/Ab/refunds"),
        ("/Files/A/B/C", "/files/{*rest}", "/files/A/B/C"),
        ("/V1//Charges/", "/v1/charges", "/v1//charges/"),
        ("/V1//Ab/", "/v1/{id}", "/v1//Ab/"),
    ] {
        assert_eq!(folded_like(path, Some(pattern)), expected, "{path}");
    }
    assert_eq!(folded_like("/A/%2F%C3%A9B", None), "/a/%2F%C3%A9b");
    assert_eq!(folded("/A%2FB"), "/a%2Fb");
}

/// A name before a parameter is text of the pattern too.
#[test]
fn patterns_are_folded_but_for_their_parameters() {
    for (pattern, expected) in [
        ("/V1/{Id}/Refunds", "/v1/{Id}/refunds"),
        ("/Files/Of_{Name}/{*Rest}", "/files/of_{Name}/{*Rest}"),
        ("/A%2FB/", "/a%2Fb/"),
    ] {
        assert_eq!(folded_pattern(pattern), expected);
    }
}
