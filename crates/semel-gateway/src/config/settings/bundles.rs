//! What profiles and presets set, as `semel_http` has it; a test compares the two.

/// Settings that one word makes together.
#[derive(Debug)]
pub(in crate::config) struct Bundle {
    pub(in crate::config) word: &'static str,
    pub(in crate::config) doc: &'static str,
    /// Names of policy settings, with values as in the file.
    pub(in crate::config) settings: &'static [(&'static str, &'static str)],
}

pub(in crate::config) const PROFILES: &[Bundle] = &[
    Bundle {
        word: "classic",
        doc: "409 for a mismatch",
        settings: &[
            ("release_statuses", r#"["408", "425", "429", "5xx"]"#),
            ("mismatch_status", "409"),
            ("key_max_length", "128"),
            ("replay_headers", r#"["X-Idempotency-Replayed: true"]"#),
        ],
    },
    Bundle {
        word: "ietf",
        doc: "As the IETF draft has it: 422 for a mismatch",
        settings: &[
            ("release_statuses", r#"["408", "425", "429", "5xx"]"#),
            ("mismatch_status", "422"),
            ("key_max_length", "128"),
            ("replay_headers", r#"["X-Idempotency-Replayed: true"]"#),
        ],
    },
    Bundle {
        word: "stripe",
        doc: "As Stripe documents it: 400 for a mismatch, 5xx kept too",
        settings: &[
            ("release_statuses", r#"["408", "425", "429"]"#),
            ("mismatch_status", "400"),
            ("key_max_length", "255"),
            ("replay_headers", r#"["Idempotent-Replayed: true"]"#),
        ],
    },
];

pub(in crate::config) const PRESETS: &[Bundle] = &[
    Bundle {
        word: "payments",
        doc: "Rather held than twice",
        settings: &[
            ("on_store_down", r#""closed""#),
            ("on_abandoned", r#""hold""#),
            ("on_unknown", r#""hold""#),
            ("unknown_statuses", r#"["500", "502", "504"]"#),
            ("on_missing_scope", r#""reject""#),
            ("jwt_unverified", r#""refuse""#),
            ("ttl", r#""48h""#),
        ],
    },
    Bundle { word: "api", doc: "Most APIs", settings: &[("ttl", r#""24h""#)] },
    Bundle {
        word: "notifications",
        doc: "Rather twice than never",
        settings: &[
            ("on_store_down", r#""open""#),
            ("on_abandoned", r#""reexecute""#),
            ("ttl", r#""4h""#),
        ],
    },
    Bundle { word: "batch", doc: "Long runs", settings: &[("ttl", r#""7d""#)] },
];
