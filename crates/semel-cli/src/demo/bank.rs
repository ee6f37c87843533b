//! The bank: every charge it makes is a line in its ledger. What the demo shows is counted here.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// Charges cards, for ever.
#[derive(Clone)]
pub(crate) struct Bank {
    ledger: PathBuf,
}

// === impl Bank ===

impl Bank {
    pub(crate) fn open(directory: &Path) -> anyhow::Result<Self> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
        let ledger = directory.join("ledger.txt");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&ledger)
            .with_context(|| format!("cannot write {}", ledger.display()))?;
        Ok(Self { ledger })
    }

    /// Charges a card: the side effect that must not happen twice.
    pub(crate) fn charge(&self, order: &str, amount: u32) -> anyhow::Result<String> {
        let mut ledger = OpenOptions::new().append(true).open(&self.ledger)?;
        let line = format!("{order} {amount} EUR\n");
        ledger.write_all(line.as_bytes())?;
        File::sync_all(&ledger)?;
        Ok(format!("{{\"charge\":\"ch_{:08x}\",\"amount\":{amount}}}", rand::random::<u32>()))
    }

    /// How often an order was charged.
    pub(crate) fn charges(&self, order: &str) -> anyhow::Result<usize> {
        let text = std::fs::read_to_string(&self.ledger)?;
        Ok(text.lines().filter(|line| line.split(' ').next() == Some(order)).count())
    }
}
