//! The reference page of all settings.

use semel_http::jwt::TokenAlgorithm;
use semel_http::{Bundle, Preset, Profile};

use super::settings::{self, Item, Kind, Row, Section};
use super::value::listed;

/// The page `docs/reference/configuration.md`, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    for section in [Section::Top, Section::Tls, Section::UpstreamTls, Section::Jwt, Section::Limits]
    {
        let (title, intro) = match section {
            Section::Top => ("At the top of the file", ""),
            Section::Tls => ("`[tls]`: towards clients", "Both, or neither.\n\n"),
            Section::UpstreamTls => {
                ("`[upstream_tls]`: towards the upstream", "Only with an `https://` upstream.\n\n")
            }
            Section::Jwt => (
                "`[jwt]`: tokens that say who a client is",
                "For routes with a `jwt:CLAIM` in `scope`; see [tokens](../guides/tokens.md).\n\n",
            ),
            _ => ("`[limits]`", ""),
        };
        page.extend(["\n## ", title, "\n\n", intro]);
        page.push_str(&table(section));
    }
    page.push_str(POLICY);
    page.push_str(&table(Section::Policy));
    page.push_str("\n### Profiles\n\n");
    page.push_str(&bundles(&Profile::bundles()));
    page.push_str("\n### Presets\n\n");
    page.push_str(&bundles(&Preset::bundles()));
    page.push_str(RELATIONS);
    page
}

const HEAD: &str = "\
<!-- Written by `cargo test -p semel-gateway --lib config -- --ignored write_snapshots`
     from the table in crates/semel-gateway/src/config/settings; change it there. -->

# Configuration

The gateway reads one TOML file ([a sample](../../examples/semel.toml)). Environment variables win over the file,
the flags `--listen`, `--admin`, `--upstream` and `--store` over both. All of it is checked before anything
is opened: all faults are reported at once, with place and cure, and the process exits with 2.
`semel check --config FILE` does only that, and prints every value in effect with where it comes from.

- **Durations** are a whole number and `ms`, `s`, `m`, `h` or `d`: `\"30s\"`.
- **Sizes** are a whole number and `B`, `KiB`, `MiB`, `GiB`, `kB`, `MB` or `GB` (`\"64KiB\"`), or a plain
  number of bytes.
- **Rates** are a whole number and `/s`, `/m` or `/h`: of `\"100/s\"` a hundred may come at once, and then one every
  10 ms.
- **Lists** in a variable are separated by commas, so no item can have one. An empty variable is an empty
  list.
- Names that are not known are faults, also those of variables that start with `SEMEL_`. Kubernetes
  makes such variables for a Service named `semel`: give the pod `enableServiceLinks: false`.
- *(restart)*: a change takes effect at the next start, not with a reload.
";

const POLICY: &str = "
## `[policy]` and `[[route]]`

`[policy]` holds for every request. A `[[route]]` says otherwise for the requests it matches; whatever it
leaves out it has from `[policy]`. Routes have no variables, and win over those of `[policy]`.

A `[[route]]` must have `match`: METHOD PATH, such as `\"POST /v1/charges/{id}/refunds\"`. `{name}` stands for
one segment, `{*rest}` at the end for all that follow, `*` for any method.

The more specific wins: defaults, then profile, preset and settings of `[policy]`, then profile, preset and
settings of the route.

";

const RELATIONS: &str = "
## What must go together

- `lease` and `upstream_timeout` are shorter than `ttl`; `wait_timeout` is not longer, if duplicates wait.
- `release_statuses` and `unknown_statuses` have no pattern in common. Of a status and a class that covers it, the
  status wins.
- `max_request_body` and `max_reply_body` are not larger than `max_buffered`.
- `listen` and `admin` are two addresses, and `upstream` is neither.
- `durability` is only set for an embedded store, `wait_replicas` only for Redis.
- The preset `payments` does not go with a store in memory.
- `require_durable` does not go with a store in memory, nor with the durability `process`.
- `[tls]` has both files or none; `[upstream_tls]` goes with an `https://` upstream.
- `[jwt]` has `keys`, `algorithms` and `issuer`, or nothing; its algorithms all go with a secret or all with public
  keys, and a secret is in a file; `min_refresh` is not longer than `refresh`; a route has a `jwt:CLAIM` in `scope`.
- Without `[jwt]`, no route has a `jwt:CLAIM` whose `jwt_unverified` is `refuse`, as it is with the preset `payments`.
- With the preset `payments` and a `jwt:CLAIM`, `jwt_unverified` is `refuse` or `behind-a-verifier`.
- No two routes match the same requests.
";

fn table(section: Section) -> String {
    let mut table =
        String::from("| setting | variable | values | default | |\n|---|---|---|---|---|\n");
    for setting in settings::of(section) {
        table.push_str(&row(setting));
    }
    table
}

fn row(setting: &Row) -> String {
    let variable = setting.variable().map(|name| format!("`{name}`")).unwrap_or_default();
    let default = setting.default.map(|default| format!("`{default}`")).unwrap_or_default();
    let values = values(setting.kind);
    let restart = if setting.restart { " *(restart)*" } else { "" };
    format!(
        "| `{}` | {variable} | {values} | {default} | {}{restart} |\n",
        setting.name, setting.doc
    )
}

fn values(kind: Kind) -> String {
    match kind {
        Kind::Word(words) => {
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            listed(&words.iter().map(String::as_str).collect::<Vec<_>>())
        }
        Kind::Switch => "`true` or `false`".to_owned(),
        Kind::Integer { min, max } => format!("{min} to {max}"),
        Kind::Time { min, max } => format!("duration, {min} to {max}"),
        Kind::Size { min, max } => format!("size, {min} to {max}"),
        Kind::RateOrOff => "a number and `/s`, `/m` or `/h`, or `off`".to_owned(),
        Kind::Address => "IP address and port".to_owned(),
        Kind::AddressOrOff => "IP address and port, or `off`".to_owned(),
        Kind::Upstream => "`http://HOST:PORT/PATH` or `https://…`".to_owned(),
        Kind::Store => "`embedded:DIR`, `postgres://…`, `redis://…`, `rediss://…`, `unix://…`, `redis+sentinel://…`, `redis+cluster://…`, `tiered:redis://…\\|postgres://…` or `memory:`".to_owned(),
        Kind::Namespace => "1 to 64 letters, digits, `.`, `-`, `_`".to_owned(),
        Kind::Host => "name of a server".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Keys => "path, or `https://HOST/PATH`".to_owned(),
        Kind::Text => "text".to_owned(),
        Kind::Match => "METHOD PATH".to_owned(),
        Kind::Source => "`header:NAME` or `json:/pointer`".to_owned(),
        Kind::List(item) => match item {
            Item::KeySource | Item::ScopeSource => "list of sources, at least one".to_owned(),
            Item::HeaderName => "list of header names".to_owned(),
            Item::Method => "list of methods".to_owned(),
            Item::Algorithm => {
                let words: Vec<_> =
                    TokenAlgorithm::WORDS.iter().map(|word| format!("`{word}`")).collect();
                format!("list of {}", listed(&words.iter().map(String::as_str).collect::<Vec<_>>()))
            }
            Item::Audience => "list of texts".to_owned(),
            Item::Pointer => "list of JSON Pointers".to_owned(),
            Item::Status => "list of statuses (`\"429\"`) and classes (`\"5xx\"`)".to_owned(),
            Item::HeaderLine => "list of `\"Name: value\"`".to_owned(),
        },
    }
}

fn bundles(bundles: &[Bundle]) -> String {
    let mut table = String::from("| | | sets |\n|---|---|---|\n");
    for bundle in bundles {
        let sets: Vec<_> =
            bundle.settings.iter().map(|(name, value)| format!("`{name} = {value}`")).collect();
        table.extend(["| `", bundle.word, "` | ", bundle.summary, " | ", &sets.join(", "), " |\n"]);
    }
    table
}
