use super::{Item, Kind, Section, Setting};

const fn jwt(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::Jwt, name, kind, doc)
}

pub(super) const SETTINGS: &[Setting] = &[
    jwt(
        "keys",
        Kind::Keys,
        "Where the issuer's keys are: a file with public keys in PEM, a JSON Web Key Set or (for HS256 and \
         its kin) a secret, or the https:// URL of a key set. It turns verification on.",
    ),
    jwt(
        "algorithms",
        Kind::List(Item::Algorithm),
        "What tokens may be signed by. It must be set with `keys`.",
    ),
    jwt("issuer", Kind::Text, "What tokens must have in `iss`. It must be set with `keys`."),
    jwt(
        "audience",
        Kind::List(Item::Audience),
        "One of these tokens must have in `aud`. Without it, tokens for other services of the issuer count too.",
    ),
    jwt(
        "leeway",
        Kind::Time { min: "0s", max: "5m" },
        "How far the clocks of issuer and gateway may differ.",
    )
    .or(r#""30s""#),
    jwt(
        "refresh",
        Kind::Time { min: "100ms", max: "7d" },
        "How often the keys are read again. A file that changes is read within a second.",
    )
    .or(r#""5m""#),
    jwt(
        "min_refresh",
        Kind::Time { min: "10ms", max: "1h" },
        "How soon after one look at the keys a token with an unknown key may cause the next.",
    )
    .or(r#""10s""#),
    jwt(
        "ca",
        Kind::Path,
        "PEM file with the certificates to trust at an https:// URL of keys, instead of those of the system.",
    ),
];
