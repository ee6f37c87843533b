//! Each setting: what it takes, what it refuses, and where it goes.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue, StatusCode};
use semel_core::{InFlight, KeyFormat, OnAbandoned, OnStoreDown, OnUnknown};
use semel_embedded::Durability;
use semel_engine::Rate;
use semel_http::{JwtUnverified, KeyRule, Mode, OnMissingScope, Preset, Profile, RoutePolicy};

use super::{complete, good, load};
use crate::Forwarded;
use crate::config::settings::{self, Kind, Section};
use crate::config::{LogFormat, StoreChoice, values::Values};

fn policy_of(text: &str) -> RoutePolicy {
    good(&format!("[policy]\n{text}")).routes.all()[0].policy().clone()
}

#[test]
fn without_settings_all_is_as_documented() {
    let config = good("");
    assert_eq!(config.listen, SocketAddr::from(([127, 0, 0, 1], 8080)));
    assert_eq!(config.admin, Some(SocketAddr::from(([127, 0, 0, 1], 8081))));
    assert_eq!(config.upstream.to_string(), "http://127.0.0.1:3000");
    assert_eq!(config.forwarded, Forwarded::Replace);
    assert_eq!(config.store, StoreChoice::Embedded(PathBuf::from("./semel-data")));
    assert_eq!(config.durability, Durability::Power);
    assert_eq!(config.namespace, "http");
    assert_eq!(config.log, tracing::Level::INFO);
    assert_eq!(config.log_format, LogFormat::Text);
    assert_eq!(config.workers, 0);
    assert!(config.worker_count() > 0);
    assert_eq!(config.tls, None);
    assert_eq!(config.upstream_tls, super::super::UpstreamTls::default());
    let policy = config.routes.all()[0].policy();
    assert_eq!(*policy, RoutePolicy::builder().build().unwrap());
}

#[test]
fn settings_of_the_top_are_kept() {
    let config = good(
        r#"
        listen = "0.0.0.0:0"
        admin = "off"
        forwarded = "append"
        store = "memory:"
        namespace = "billing-2"
        log = "debug"
        log_format = "json"
        workers = 3
        tls.certificate = "a.pem"
        tls.key = "b.pem"
        "#,
    );
    assert_eq!(config.listen, "0.0.0.0:0".parse().unwrap());
    assert_eq!(config.admin, None);
    assert_eq!(config.forwarded, Forwarded::Append);
    assert_eq!(config.store, StoreChoice::Memory);
    assert_eq!(config.namespace, "billing-2");
    assert_eq!(config.log, tracing::Level::DEBUG);
    assert_eq!(config.log_format, LogFormat::Json);
    assert_eq!(config.worker_count(), 3);
    let tls = config.tls.unwrap();
    assert_eq!((tls.certificate, tls.key), (PathBuf::from("a.pem"), PathBuf::from("b.pem")));
}

#[test]
fn settings_of_the_upstream_are_kept() {
    let text = r#"
        upstream = "https://api.example.com/base"
        durability = "process"
        [upstream_tls]
        ca = "ca.pem"
        server_name = "api.internal"
    "#;
    let config = load(text).unwrap();
    assert!(config.upstream.is_https());
    assert_eq!((config.upstream.port, config.upstream.base_path.as_str()), (443, "/base"));
    assert_eq!(config.durability, Durability::Process);
    assert_eq!(config.upstream_tls.ca, Some(PathBuf::from("ca.pem")));
    assert_eq!(config.upstream_tls.server_name.as_deref(), Some("api.internal"));
}

#[test]
fn limits_are_kept() {
    let limits = good(
        r#"
        [limits]
        max_connections = 1
        max_header_bytes = "8KiB"
        max_headers = 50
        header_timeout = "1s"
        idle_timeout = "2s"
        body_idle_timeout = "3s"
        max_executions_per_connection = 9
        max_resets_per_connection = 10
        max_upstream_connections = 11
        connect_timeout = "4s"
        pool_idle_timeout = "5s"
        pool_max_idle = 6
        shutdown_timeout = "0s"
        max_executions = 7
        max_waiters = 8
        cache_bytes = 0
        "#,
    )
    .limits;
    let times = [
        limits.header_timeout,
        limits.idle_timeout,
        limits.body_idle_timeout,
        limits.connect_timeout,
        limits.pool_idle_timeout,
        limits.shutdown_timeout,
    ];
    assert_eq!(times.map(|time| time.as_secs()), [1, 2, 3, 4, 5, 0]);
    assert_eq!(
        (limits.max_connections, limits.max_header_bytes, limits.max_headers),
        (1, 8192, 50)
    );
    assert_eq!((limits.pool_max_idle, limits.max_executions, limits.max_waiters), (6, 7, 8));
    let counts = (limits.max_executions_per_connection, limits.max_resets_per_connection);
    assert_eq!((counts, limits.max_upstream_connections), ((9, 10), 11));
    assert_eq!(limits.cache_bytes, 0);
}

#[test]
fn settings_of_a_policy_are_kept() {
    let policy = policy_of(
        r#"
        mode = "shadow"
        profile = "ietf"
        preset = "batch"
        key = "required"
        key_from = ["header:PayPal-Request-Id", "json:/key"]
        key_format = "uuid"
        key_max_length = 36
        scope = ["client-ip", "jwt:sub"]
        on_missing_scope = "reject"
        jwt_unverified = "behind-a-verifier"
        max_executions_per_scope = 50
        new_keys_per_scope = "600/m"
        max_records_per_scope = 70000
        max_record_bytes_per_scope = "3GiB"
        lease = "250ms"
        ttl = "7d"
        in_flight = "wait"
        wait_timeout = "3s"
        on_abandoned = "fail"
        on_unknown = "hold"
        on_store_down = "open"
        fingerprint_headers = ["x-tenant"]
        fingerprint_ignore = ["/sent_at"]
        release_statuses = ["503"]
        unknown_statuses = ["5xx"]
        mismatch_status = 418
        replay_headers = ["X-Cache-Lookup: HIT"]
        replay_cookies = true
        result_from = "json:/id"
        max_request_body = 10
        request_body_timeout = "5s"
        max_reply_body = "2kB"
        upstream_timeout = "1h"
        "#,
    );
    let seconds = Duration::from_secs;
    let expected = RoutePolicy::builder()
        .profile(Profile::Ietf)
        .preset(Preset::Batch)
        .mode(Mode::Shadow)
        .key(KeyRule::Required)
        .key_from(vec!["header:paypal-request-id".parse().unwrap(), "json:/key".parse().unwrap()])
        .key_format(KeyFormat::Uuid)
        .key_max_length(36)
        .scope(vec!["client-ip".parse().unwrap(), "jwt:sub".parse().unwrap()])
        .on_missing_scope(OnMissingScope::Reject)
        .jwt_unverified(JwtUnverified::BehindAVerifier)
        .max_executions_per_scope(50)
        .new_keys_per_scope(Some(Rate::new(NonZero::new(600).unwrap(), Duration::from_mins(1))))
        .max_records_per_scope(NonZero::new(70_000))
        .max_record_bytes_per_scope(NonZero::new(3 << 30))
        .lease(Duration::from_millis(250))
        .ttl(seconds(7 * 86_400))
        .in_flight(InFlight::Wait(seconds(3)))
        .on_abandoned(OnAbandoned::Fail)
        .on_unknown(OnUnknown::Hold)
        .on_store_down(OnStoreDown::Open)
        .fingerprint_headers(vec![HeaderName::from_static("x-tenant")])
        .fingerprint_ignore(vec![semel_http::json::Pointer::parse("/sent_at").unwrap()])
        .release_statuses(vec!["503".parse().unwrap()])
        .unknown_statuses(vec!["5xx".parse().unwrap()])
        .mismatch_status(StatusCode::IM_A_TEAPOT)
        .replay_headers(vec![(
            HeaderName::from_static("x-cache-lookup"),
            HeaderValue::from_static("HIT"),
        )])
        .replay_cookies(true)
        .result_from(Some("json:/id".parse().unwrap()))
        .max_request_body(10)
        .request_body_timeout(seconds(5))
        .max_reply_body(2000)
        .upstream_timeout(seconds(3600))
        .build()
        .unwrap();
    assert_eq!(policy, expected);
}

#[test]
fn every_word_is_understood() {
    for row in settings::all() {
        let Kind::Word(words) = row.kind else { continue };
        let heading =
            if row.section == Section::Top { String::new() } else { row.section.heading() };
        for word in words {
            good(&format!("{heading}\n{} = {word:?}", row.name));
        }
    }
}

#[test]
fn every_default_of_the_table_can_be_read_and_is_used() {
    let values = Values::defaults();
    for row in settings::all().filter(|row| row.default.is_some()) {
        let entry = values.entry(row).unwrap_or_else(|| panic!("{}", row.name));
        assert_eq!(Some(entry.shown.as_str()), row.default, "{}", row.name);
    }
    for row in settings::of(Section::Policy) {
        assert!(row.apply.is_some(), "{}", row.name);
    }
}

#[test]
fn profiles_and_presets_are_read_as_the_library_writes_them() {
    for bundle in Profile::bundles() {
        let expected = RoutePolicy::builder().profile(bundle.word.parse().unwrap());
        let policy = policy_of(&format!("profile = {:?}", bundle.word));
        assert_eq!(policy, expected.build().unwrap());
    }
    for bundle in Preset::bundles() {
        let expected = RoutePolicy::builder().preset(bundle.word.parse().unwrap());
        let policy = policy_of(&format!("preset = {:?}", bundle.word));
        assert_eq!(policy, expected.build().unwrap());
    }
}

#[test]
fn a_description_has_all_that_a_bundle_sets() {
    for (kind, bundles) in [("profile", Profile::bundles()), ("preset", Preset::bundles())] {
        for bundle in bundles {
            let shown = good(&format!("[policy]\n{kind} = {:?}", bundle.word)).describe();
            for (name, value) in bundle.settings {
                let row = format!("  {name:<24}  {value:<34}  {kind} {}\n", bundle.word);
                assert!(shown.contains(&row), "{row}{shown}");
            }
        }
    }
}

/// Values that no setting of the kind takes.
fn bad_values(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Word(_) => &[r#""""#, r#""nonsense""#, "1", "true", "[]"],
        Kind::Switch => &[r#""true""#, "1", r#""""#],
        Kind::Integer { .. } => &[r#""10""#, "-1", "1.5", "99999999999999999999", "[1]"],
        Kind::Time { .. } => &["30", r#""30""#, r#""""#, r#""-1s""#, r#""9999999d""#, "1.5"],
        Kind::Size { .. } => &[r#""10""#, r#""1KB""#, "-1", r#""99999GiB""#, "true", "0.5"],
        Kind::RateOrOff => &["100", r#""100""#, r#""0/s""#, r#""100/d""#, r#""-1/s""#, "true"],
        Kind::Address | Kind::AddressOrOff => {
            &[r#""localhost:1""#, r#"":8080""#, r#""127.0.0.1""#, "8080", r#""127.0.0.1:99999""#]
        }
        Kind::Upstream => &[r#""""#, r#""127.0.0.1:3000""#, r#""ftp://h""#, "3000"],
        Kind::Store => &[r#""""#, r#""memory""#, r#""embedded:""#, r#""redis:h""#, "{}"],
        Kind::Namespace => &[r#""""#, r#""a b""#, "1"],
        Kind::Host => &[r#""""#, r#""a b""#, r#""https://h""#],
        Kind::Keys => &[r#""""#, r#""ftp://h/keys""#, r#""http://h/keys""#, "1", "[]"],
        Kind::Path | Kind::Text => &[r#""""#, "1", "[]"],
        Kind::Match => &[r#""""#, r#""/a""#, r#""post /a""#, r#""POST /{""#, "1"],
        Kind::Source => &[r#""""#, r#""id""#, r#""json:id""#, "[]"],
        Kind::List(_) => &[r#""a""#, "[1]", "[[]]", r#"["a b"]"#, r#"[""]"#, "{}"],
    }
}

#[test]
fn every_setting_refuses_what_it_does_not_take() {
    for setting in settings::all() {
        for value in bad_values(setting.kind) {
            let line = format!("{} = {value}\n", setting.name);
            let text = match setting.section {
                Section::Top if setting.name == "upstream" => line.clone(),
                Section::Top => complete(&line),
                Section::Route => complete(&format!("[[route]]\n{line}")),
                section => complete(&format!("{}\n{line}", section.heading())),
            };
            let faults = load(&text).expect_err(&line);
            let named = format!("`{}`", setting.name);
            let count = faults.iter().filter(|fault| fault.what().contains(&named)).count();
            assert_eq!(count, 1, "{line}\n{faults}");
            assert!(faults.iter().all(|fault| !fault.cure().ends_with("such as")), "{faults}");
        }
    }
}

#[test]
fn names_are_used_once_in_a_section_and_variables_once_at_all() {
    let mut variables: Vec<_> = settings::all().filter_map(settings::Row::variable).collect();
    let count = variables.len();
    variables.sort();
    variables.dedup();
    assert_eq!(variables.len(), count);
    let mut names: Vec<_> = settings::of(Section::Route).map(|setting| setting.name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}
