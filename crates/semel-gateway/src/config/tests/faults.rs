//! Faulty files, and what is said about them.

use std::fmt::Write as _;

use super::{complete, load, text_of};

/// What follows the line with the upstream, and its fault.
#[rustfmt::skip]
const FAULTY: &[(&str, &str)] = &[
    // Names.
    ("lisen = \"127.0.0.1:1\"", "2:1: `lisen` is not known here"),
    ("lease = \"30s\"", "2:1: `lease` is not known here"),
    ("something = 1", "2:1: `something` is not known here"),
    ("[policy]\nleese = \"30s\"", "3:1: `leese` is not a setting of [policy]"),
    ("[policy]\nlisten = \"127.0.0.1:1\"", "3:1: `listen` is not a setting of [policy]"),
    ("[policy]\nmatch = \"POST /a\"", "3:1: `match` is not a setting of [policy]"),
    ("[limits]\n  max-headers = 50", "3:3: `max-headers` is not a setting of [limits]"),
    ("[tls]\ncert = \"a\"", "3:1: `cert` is not a setting of [tls]"),
    ("[limit]\nmax_headers = 50", "2:2: `limit` is not known here"),
    ("[[routes]]\nmatch = \"POST /a\"", "2:3: `routes` is not known here"),
    ("[policy.limits]\na = 1", "2:9: `limits` is not a setting of [policy]"),
    ("\"a\\u001b[1m\" = 1", "2:1: `a\\u{1b}[1m` is not known here"),
    // Tables.
    ("policy = 3", "2:10: `policy` is 3, which is not a table"),
    ("[[policy]]\nlease = \"20s\"", "2:1: `policy` is a list of tables"),
    ("[route]\nmatch = \"POST /a\"", "2:1: `route` is a single table"),
    ("route = [\"POST /a\"]", "2:10: \"POST /a\" is not a route"),
    ("route = \"POST /a\"", "2:9: `route` is \"POST /a\", which is not a list of tables"),
    ("[[route]]\npreset = \"api\"", "2:1: the route has no `match`"),
    // Values.
    ("listen = \"localhost:80\"", "2:10: `listen` is \"localhost:80\", which is not an address"),
    ("listen = 8080", "2:10: `listen` is 8080, which is not an address"),
    ("admin = \"none\"", "2:9: `admin` is \"none\", which is not an address"),
    ("store = \"mysql://:secret@h/0\"", "2:9: `store` is \"mysql://***\", which is not a store"),
    ("store = \"etcd://a,b\"", "2:9: `store` is \"etcd://a,b\", which is not a store"),
    ("wait_replicas = 1", "2:17: `wait_replicas` is 1, and `store` (\"embedded:./semel-data\") is not Redis"),
    ("store = \"memory:\"\nrequire_durable = true", "3:19: `require_durable` is true, and `store` (\"memory:\") forgets everything"),
    ("durability = \"process\"\nrequire_durable = true", "3:19: `require_durable` is true, and `durability` (\"process\") is lost in a power cut"),
    ("store = \"sqlite:a\"", "2:9: `store` is \"sqlite:a\", which is not a store"),
    ("store = \"embedded:\"", "2:9: `store` is \"embedded:\", which names no directory"),
    ("store = \"embedded://data\"", "2:9: `store` is \"embedded://data\", which is not a directory"),
    ("log = \"Debug\"", "2:7: `log` is \"Debug\", which is not known here"),
    ("workers = -1", "2:11: `workers` is -1, and must be from 0 to 256"),
    ("namespace = \"a b\"", "2:13: `namespace` is \"a b\", which is not a name"),
    ("[policy]\nmode = \"shadwo\"", "3:8: `mode` is \"shadwo\", which is not known here"),
    ("[policy]\nlease = 30", "3:9: `lease` is 30, which is not a duration"),
    ("[policy]\nlease = \"1ms\"", "3:9: `lease` is \"1ms\", and must be from 10ms to 3650d"),
    ("[policy]\nttl = \"1.5h\"", "3:7: `ttl` is \"1.5h\", which is not a duration"),
    ("[policy]\nwait_timeout = \"2h\"", "3:16: `wait_timeout` is \"2h\", and must be from 1ms to 1h"),
    ("[policy]\nmax_request_body = \"1mb\"", "3:20: `max_request_body` is \"1mb\", which is not a size"),
    ("[policy]\nmax_reply_body = \"2GiB\"", "3:18: `max_reply_body` is \"2GiB\", and must be from 0B to 1GiB"),
    ("[policy]\nmismatch_status = 200", "3:19: `mismatch_status` is 200, and must be from 400 to 499"),
    ("[policy]\nreplay_cookies = \"yes\"", "3:18: `replay_cookies` is \"yes\", which is neither true nor false"),
    ("[policy]\nnew_keys_per_scope = 100", "3:22: `new_keys_per_scope` is 100, which is not a rate"),
    ("[policy]\nnew_keys_per_scope = \"100/d\"", "3:22: `new_keys_per_scope` is \"100/d\", which is not a rate"),
    ("[policy]\nmax_executions_per_scope = 0", "3:28: `max_executions_per_scope` is 0, and must be from 1 to 10000000"),
    ("[policy]\nscope = \"global\"", "3:9: `scope` is \"global\", which is not a list"),
    ("[policy]\nkey_from = []", "3:12: `key_from` is empty"),
    ("[policy]\nkey_from = [\n  \"header:a\",\n  \"cookie:b\",\n]", "5:3: `key_from` has \"cookie:b\", which is not a place of a key"),
    ("[policy]\nscope = []", "3:9: `scope` is empty"),
    ("[policy]\nscope = [\"global\", \"client-ip\"]", "3:9: `scope` has \"global\" beside others"),
    ("[policy]\nscope = [\"clientip\"]", "3:10: `scope` has \"clientip\", which is not a source of identity"),
    ("[policy]\nfingerprint_ignore = [\"timestamp\"]", "3:23: `fingerprint_ignore` has \"timestamp\", which is not a JSON Pointer"),
    ("[policy]\nfingerprint_ignore = [\"\"]", "3:23: `fingerprint_ignore` has \"\", which stands for the whole body"),
    ("[policy]\nrelease_statuses = [429]", "3:21: `release_statuses` has 429, which is not a text"),
    ("[policy]\nreplay_headers = [\"Set-Cookie: a\"]", "3:19: `replay_headers` has \"Set-Cookie: a\", which the reply itself may carry"),
    ("[limits]\nmax_header_bytes = \"4KiB\"", "3:20: `max_header_bytes` is \"4KiB\", and must be from 8KiB to 16MiB"),
    ("[[route]]\nmatch = \"post /a\"", "3:9: `match` is \"post /a\", which is not a route"),
    ("[[route]]\nmatch = \"POST /{*a}/b\"", "3:9: `match` is \"POST /{*a}/b\", whose path is not a pattern"),
    // Relations.
    ("admin = \"127.0.0.1:8080\"", "2:9: `admin` is \"127.0.0.1:8080\", which `listen` (\"127.0.0.1:8080\") uses"),
    ("listen = \"0.0.0.0:8081\"", "2:10: `admin` is \"127.0.0.1:8081\", which `listen` (\"0.0.0.0:8081\") uses"),
    ("listen = \"0.0.0.0:3000\"", "1:12: `upstream` is \"http://127.0.0.1:3000\", the gateway's own `listen`"),
    ("admin = \"127.0.0.1:3000\"", "1:12: `upstream` is \"http://127.0.0.1:3000\", the gateway's own `admin`"),
    ("store = \"memory:\"\ndurability = \"power\"", "3:14: `durability` is \"power\", and `store` (\"memory:\") is not embedded"),
    ("store = \"memory:\"\n[policy]\npreset = \"payments\"", "4:10: `preset` is \"payments\", and `store` (\"memory:\") forgets everything"),
    ("store = \"memory:\"\n[[route]]\nmatch = \"POST /a\"\npreset = \"api\"\n[[route]]\nmatch = \"POST /b\"\npreset = \"payments\"", "8:10: `preset` is \"payments\", and `store` (\"memory:\") forgets everything"),
    ("[tls]\nkey = \"a.pem\"", "3:7: `key` is set without `certificate`"),
    ("[upstream_tls]\nca = \"a.pem\"", "3:6: `ca` is for TLS, and `upstream` (\"http://127.0.0.1:3000\") is plain HTTP"),
    ("[policy]\nlease = \"25h\"", "3:9: `lease` is \"25h\", longer than `ttl` (\"24h\")"),
    ("[policy]\nttl = \"30s\"\nupstream_timeout = \"1s\"", "3:7: `lease` is \"30s\", as long as `ttl` (\"30s\")"),
    ("[policy]\nttl = \"40s\"", "3:7: `upstream_timeout` is \"60s\", longer than `ttl` (\"40s\")"),
    ("[policy]\nttl = \"5m\"\nin_flight = \"wait\"\nwait_timeout = \"10m\"", "5:16: `wait_timeout` is \"10m\", longer than `ttl` (\"5m\")"),
    ("[policy]\nlease = \"5h\"\n[[route]]\nmatch = \"POST /a\"\npreset = \"notifications\"", "6:10: `lease` is \"5h\", longer than `ttl` (\"4h\", preset notifications)"),
    ("[[route]]\nmatch = \"POST /a\"\nlease = \"24h\"", "4:9: `lease` is \"24h\", as long as `ttl` (\"24h\")"),
    ("[policy]\nrelease_statuses = [\"502\"]\nunknown_statuses = [\"502\"]", "3:20: `release_statuses` has \"502\", which `unknown_statuses` has too"),
    ("[policy]\nrelease_statuses = [\"500\"]\n[[route]]\nmatch = \"POST /a\"\npreset = \"payments\"", "6:10: `release_statuses` has \"500\", which `unknown_statuses` (preset payments) has too"),
    ("[[route]]\nmatch = \"POST /a/{id}\"\n[[route]]\nmatch = \"POST /a/{name}\"", "5:9: `match` is \"POST /a/{name}\", which matches the same requests as \"POST /a/{id}\" in line 3"),
    // The language itself.
    ("[policy]\nlease = 30s", "3:9: this is not a value"),
    ("[policy]\nlease = ", "3:8: a value is missing"),
    ("[policy\nlease = \"30s\"", "2:8: unclosed table: expected `]`"),
    ("listen", "2:7: key with no value"),
    ("log = \"info\"\nlog = \"warn\"", "3:1: it is set twice"),
    ("log = \"info", "2:12: this text has no end, or characters it cannot have"),
    ("store = \"embedded:C:\\data\"", "2:22: this is no escape"),
    ("[policy]\nscope = [\"global\"", "3:18: unclosed array: expected `]`"),
];

/// All of them as a user sees them.
pub(super) fn rendered() -> String {
    let mut out = String::new();
    for (text, _) in FAULTY {
        let faults = load(&complete(text)).expect_err(text);
        writeln!(out, "{faults}\n").unwrap();
    }
    out
}

#[test]
fn every_faulty_file_has_its_fault() {
    for (text, expected) in FAULTY {
        let faults = load(&complete(text)).expect_err(text);
        assert_eq!(text_of(&faults), format!("semel.toml:{expected}"), "{text}");
    }
}

#[test]
fn faults_are_shown_as_a_compiler_would() {
    let faults = load(&complete("\n\n\n\n[policy]\nlease = \"25h\"")).unwrap_err();
    assert_eq!(
        faults.to_string(),
        r#"semel.toml:7:9: `lease` is "25h", longer than `ttl` ("24h")
    7 | lease = "25h"
      |         ^^^^^
    cure: shorten the lease, or keep records longer with ttl"#
    );
}

#[test]
fn all_faults_are_told_at_once_in_their_order() {
    let text = r#"lisen = "127.0.0.1:80"
store = "mysql://h"

[limits]
max_headers = 5

[policy]
lease = "forever"
mode = shadow

[[route]]
match = "POST /a"
ttl = "10s"

[[route]]
match = "POST /a"
preset = "payment"
key_from = ["header:a", "header:b c", "body:/d"]
"#;
    let faults = load(text).unwrap_err();
    assert_eq!(
        text_of(&faults),
        r#"semel.toml:1:1: `lisen` is not known here
semel.toml:2:9: `store` is "mysql://h", which is not a store
semel.toml:5:15: `max_headers` is 5, and must be from 10 to 10000
semel.toml:8:9: `lease` is "forever", which is not a duration
semel.toml:9:8: this is not a value
semel.toml:13:7: `upstream_timeout` is "60s", longer than `ttl` ("10s")
semel.toml:16:9: `match` is "POST /a", which matches the same requests as "POST /a" in line 12
semel.toml:17:10: `preset` is "payment", which is not known here
semel.toml:18:25: `key_from` has "header:b c", which is not a place of a key
semel.toml:18:39: `key_from` has "body:/d", which is not a place of a key"#
    );
    assert_eq!(faults.len(), 10);
}

#[test]
fn a_missing_upstream_is_told_with_the_file() {
    let faults = load("[policy]\nlease = \"25h\"\n").unwrap_err();
    let lines: Vec<_> = faults.iter().map(super::super::Fault::at).collect();
    assert_eq!(lines, ["semel.toml", "semel.toml:2:9"]);
    assert!(faults.iter().next().unwrap().cure().contains("--upstream"));
}

#[test]
fn a_fault_of_the_policy_is_told_once_for_all_routes() {
    let text =
        "[policy]\nlease = \"25h\"\n[[route]]\nmatch = \"POST /a\"\n[[route]]\nmatch = \"POST /b\"";
    let faults = load(&complete(text)).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults}");
}

#[test]
fn one_body_fits_into_the_memory_for_all() {
    let text = "[limits]\nmax_buffered = \"2MiB\"\n[policy]\nmax_reply_body = \"2MiB\"\n\
                [[route]]\nmatch = \"POST /a\"\nmax_request_body = \"3MiB\"\n\
                [[route]]\nmatch = \"POST /b\"";
    let faults = load(&complete(text)).unwrap_err();
    assert_eq!(
        text_of(&faults),
        "semel.toml:8:20: `max_request_body` is \"3MiB\", more than `max_buffered` (\"2MiB\")"
    );
    let faults = load(&complete("[limits]\nmax_buffered = \"1MiB\"")).unwrap_err();
    assert_eq!(faults.len(), 1, "{faults}");
    assert_eq!(faults.iter().next().unwrap().at(), "semel.toml:3:16");
}

#[test]
fn a_refused_value_casts_no_doubt_on_others() {
    // Neither the lease nor the preset can be judged against a ttl that is not known.
    for text in ["ttl = \"soon\"\nlease = \"25h\"", "preset = \"bach\"\nlease = \"25h\""] {
        let faults = load(&complete(&format!("[policy]\n{text}"))).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults}");
    }
    let faults = load("upstream = 1\nlisten = \"1\"\nadmin = \"127.0.0.1:8080\"").unwrap_err();
    assert_eq!(faults.len(), 2, "{faults}");
}

#[test]
fn settings_behind_a_broken_heading_are_not_judged() {
    let faults =
        load(&complete("workers = 999\n[policy\nlease = \"30s\"\nfoo = 1\n[limits]\nbar = 2"));
    let lines: Vec<_> = faults.as_ref().unwrap_err().iter().map(super::super::Fault::at).collect();
    assert_eq!(lines, ["semel.toml:2:11", "semel.toml:3:8"]);
}

#[test]
fn what_is_wrong_in_the_file_counts_also_when_a_flag_wins() {
    let flags = super::Flags { listen: Some("127.0.0.1:1".to_owned()), ..super::Flags::default() };
    let faults = super::load_with(&complete("listen = 1"), &[], &flags).unwrap_err();
    assert_eq!(text_of(&faults), "semel.toml:2:10: `listen` is 1, which is not an address");
}
