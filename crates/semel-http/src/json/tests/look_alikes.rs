//! Texts that look alike but could mean different things. None may pass for another.

use std::collections::HashMap;

use super::*;

#[rustfmt::skip]
const LOOK_ALIKES: &[&str] = &[
    // Numbers keep their characters.
    "0", "-0", "0.0", "-0.0", "0e0", "0E0", "1", "1.0", "1.00", "1e0", "1E0", "1e+0", "1e-0",
    "1e00",
    "10", "1e1", "1e01", "100", "1e2", "-1", "0.1", "0.10", "0.10000000000000001", "1e400", "1e401",
    "9007199254740992", "9007199254740993", "9007199254740993.0", "18446744073709551615",
    "18446744073709551616", "123456789012345678901234567890", "123456789012345678901234567891",
    "0.30000000000000004", "0.300000000000000044", "0.3",
    // Kinds are not mixed up.
    "\"0\"", "\"1\"", "\"1.0\"", "true", "\"true\"", "false", "\"false\"", "null", "\"null\"",
    "\"\"",
    "[]", "\"[]\"", "{}", "\"{}\"", "[[]]", "[{}]", "{\"\":{}}", "{\"\":[]}", "{\"\":\"\"}",
    "[\"\"]",
    "[null]", "{\"\":null}", "\"~\"", "[\"~\"]",
    // Arrays: order, number and nesting of elements.
    "[1]", "[1,1]", "[1,2]", "[2,1]", "[12]", "[\"1,2\"]", "[\"1\",\"2\"]", "[\"1\",2]", "[[1],2]",
    "[1,[2]]", "[[1,2]]", "[[1],[2]]", "[[],[]]", "[[[]]]", "[[],[[]]]", "[[[]],[]]", "[1,null]",
    "[null,1]", "[\"a\",\"b\"]", "[\"a\\\",\\\"b\"]", "[\"ab\"]", "[\"a,b\"]", "[\"\",\"\"]",
    // Objects: which name has which value, at which level.
    r#"{"a":1}"#, r#"{"a":"1"}"#, r#"{"a":[1]}"#, r#"{"b":1}"#, r#"{"A":1}"#, r#"{"a":null}"#,
    r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, r#"{"a":1,"b":null}"#, r#"{"a":{"b":1}}"#,
    r#"{"a.b":1}"#,
    r#"{"a/b":1}"#, r#"{"a":{"b":1,"c":2}}"#, r#"{"a":{"b":1},"c":2}"#, r#"{"a":{},"b":1}"#,
    r#"{"a":{"b":{}}}"#, r#"{"a":{},"b":{}}"#, r#"[{"a":1},{"b":2}]"#, r#"[{"a":1,"b":2}]"#,
    r#"[{"a":1},{}]"#, r#"[{},{"a":1}]"#, r#"["a",1]"#, r#"[["a",1]]"#, r#"{"a":"b"}"#,
    r#"{"b":"a"}"#,
    r#"{"a":1,"":2}"#, r#"{"":1,"a":2}"#, r#"{"a\":1,\"b":2}"#, r#"{"a,b":2}"#, r#"{"ab":1}"#,
    r#"{"a":"1,\"b\":2"}"#, r#"{"a ":1}"#, r#"{" a":1}"#, r#"{"0":1}"#, r#"{"a":[],"b":[]}"#,
    // Strings keep each character.
    r#""a""#, r#""A""#, r#"" a""#, r#""a ""#, r#""a\u0000""#, r#""\u0000""#, r#""\u0000\u0000""#,
    r#""\\u0000""#, r#""\\""#, r#""\\\\""#, r#""\"""#, r#""\\\"""#, r#""/""#, r#""\\/""#, r#""\n""#,
    r#""\\n""#, r#""n""#, r#""\r\n""#, r#""\r""#, r#""\t""#, r#"" ""#, r#""\u00a0""#, r#""\ufeff""#,
    r#""\u200b""#, r#""\u2028""#, r#""\ufffd""#, r#""\uffff""#, r#""\u00ff""#, r#""a\u00ff""#,
    "\"\u{e9}\"", "\"e\u{301}\"", "\"\u{c5}\"", "\"\u{212b}\"", "\"A\u{30a}\"", "\"\u{fb01}\"",
    "\"fi\"",
    "\"ß\"", "\"ss\"", "\"😀\"", r#""\\ud83d\\ude00""#, "\"\u{1f600}\u{fe0f}\"", "\"\u{430}\"",
    r#"{"\u00e9":1}"#, r#"{"e\u0301":1}"#, r#"{"\u0000":1}"#, r#"{"\\u0000":1}"#,
];

#[test]
fn no_text_passes_for_another() {
    let mut seen = HashMap::new();
    for text in LOOK_ALIKES {
        let former = seen.insert(form(text).unwrap(), text);
        assert_eq!(former, None, "has the form of {text}");
    }
}

#[test]
fn no_text_passes_for_another_as_a_part_of_one() {
    let mut seen = HashMap::new();
    for text in LOOK_ALIKES {
        for whole in
            [format!("[{text}]"), format!("[1,{text}]"), format!(r#"{{"b":{text},"a":1}}"#)]
        {
            let former = seen.insert(form(&whole).unwrap(), whole.clone());
            assert!(former.is_none_or(|former| former == whole), "has the form of {whole}");
        }
    }
}

/// Two values side by side are the same only if each is: nothing flows from one into the next.
#[test]
fn no_pair_of_texts_passes_for_another() {
    let mut seen = HashMap::new();
    for first in LOOK_ALIKES {
        for second in LOOK_ALIKES {
            for whole in [format!("[{first},{second}]"), format!(r#"{{"b":{first},"a":{second}}}"#)]
            {
                let former = seen.insert(form(&whole).unwrap(), whole);
                assert_eq!(former, None);
            }
        }
    }
}
