//! The guide shows the code that is tested here.

const GUIDE: &str = include_str!("../../../../docs/guides/natural-idempotency.md");

const SOURCES: [&str; 7] = [
    include_str!("../../src/business_key.rs"),
    include_str!("../../src/upsert.rs"),
    include_str!("../../src/version.rs"),
    include_str!("../../src/tables.sql"),
    include_str!("business_key.rs"),
    include_str!("upsert.rs"),
    include_str!("version.rs"),
];

#[test]
fn the_guide_shows_tested_code() {
    let blocks: Vec<&str> = ["```rust\n", "```sql\n"]
        .iter()
        .flat_map(|fence| GUIDE.split(fence).skip(1))
        .filter_map(|rest| rest.split("\n```").next())
        .collect();
    assert!(blocks.len() > 4, "{blocks:?}");
    for block in blocks {
        assert!(SOURCES.iter().any(|source| source.contains(block)), "not tested: {block}");
    }
}
