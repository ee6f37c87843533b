//! The guide shows the code that is tested here.

const GUIDE: &str = include_str!("../../../../docs/guides/same-transaction.md");

const SOURCES: [&str; 7] = [
    include_str!("../../src/api.rs"),
    include_str!("../../src/bank.rs"),
    include_str!("../../src/main.rs"),
    include_str!("../../src/schema.sql"),
    include_str!("pool.rs"),
    include_str!("with_tokio_postgres.rs"),
    include_str!("with_sqlx.rs"),
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
