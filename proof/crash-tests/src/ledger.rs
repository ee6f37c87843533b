//! Acknowledgements, and the records that a store must therefore still have.

use std::collections::HashMap;

use anyhow::{Context as _, bail, ensure};
use semel_core::{
    Attempt, Fence, Fingerprint, Key, Owner, Record, RecordId, Reply, Scope, Settlement, State,
};
use semel_store::Store;

/// The last acknowledgement for one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledged {
    /// It has a lease, and may have done more since.
    Claimed,
    /// It handed the lease back, and did no more.
    Released,
    /// It settled, and did no more.
    Settled,
}

/// One record of a writer: which run wrote it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Name {
    /// The number of the writer's run.
    pub run: u32,
    /// The number of the record within the run.
    pub number: u32,
}

/// Everything that was acknowledged.
#[derive(Debug, Default)]
pub struct Ledger(HashMap<Name, Acknowledged>);

// === impl Acknowledged ===

impl Acknowledged {
    /// The word that a writer prints for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Released => "released",
            Self::Settled => "settled",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Claimed, Self::Released, Self::Settled].into_iter().find(|ack| ack.word() == word)
    }
}

// === impl Name ===

impl Name {
    /// The id of the record.
    pub fn id(self) -> RecordId {
        let text = format!("{}-{}", self.run, self.number);
        let key = Key::parse(&text).expect("digits and a dash are a key");
        RecordId::new("crash", &Scope::global(), &key)
    }

    /// What its request must be equal in.
    pub fn fingerprint(self) -> Fingerprint {
        Fingerprint::new([("run", self.run.to_be_bytes()), ("number", self.number.to_be_bytes())])
    }

    /// A fresh attempt on it.
    pub fn attempt(self) -> Attempt {
        Attempt::new(self.id(), self.fingerprint(), Owner::from_u128(rand::random()))
    }

    /// The one outcome it is ever settled with.
    pub fn settlement(self) -> Settlement {
        let text = format!("{} {} ", self.run, self.number);
        // Most are small. Some are large, so that the engine has tables to write and logs to rotate.
        let base = if self.number % 10 == 5 { 96 << 10 } else { 1 };
        let len = base + (self.number as usize * 37) % 700;
        let bytes: Vec<u8> = text.bytes().cycle().take(len).collect();
        Settlement::Completed(Reply::new(bytes))
    }
}

// === impl Ledger ===

impl Ledger {
    /// Records one line of a writer. A line that was cut off by a kill is ignored.
    pub fn note(&mut self, line: &str) -> anyhow::Result<()> {
        let mut words = line.split(' ');
        let mut next = || words.next().with_context(|| format!("a bad line: {line:?}"));
        let (word, run, number) = (next()?, next()?.parse()?, next()?.parse()?);
        let acknowledged = Acknowledged::from_word(word).with_context(|| format!("{line:?}"))?;
        self.0.insert(Name { run, number }, acknowledged);
        Ok(())
    }

    /// How many records something was acknowledged about.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks the store against the acknowledgements; returns the first record that is missing or wrong.
    pub async fn verify(&self, store: &impl Store) -> anyhow::Result<()> {
        for (&name, &acknowledged) in &self.0 {
            let record = store.inspect(name.id()).await.with_context(|| format!("{name:?}"))?;
            check(name, acknowledged, record)
                .with_context(|| format!("{name:?} was acknowledged as {acknowledged:?}"))?;
        }
        Ok(())
    }

    /// How many acknowledged records are missing or wrong.
    pub async fn lost(&self, store: &impl Store) -> anyhow::Result<usize> {
        let mut lost = 0;
        for (&name, &acknowledged) in &self.0 {
            let record = store.inspect(name.id()).await?;
            lost += usize::from(check(name, acknowledged, record).is_err());
        }
        Ok(lost)
    }
}

fn check(name: Name, acknowledged: Acknowledged, record: Option<Record>) -> anyhow::Result<()> {
    let record = record.context("it is gone")?;
    ensure!(record.fingerprint == name.fingerprint(), "its fingerprint is another's");
    ensure!(record.fence == Fence::FIRST, "its fence is {}", record.fence);
    let settled = State::Settled(name.settlement());
    let may_be = match acknowledged {
        Acknowledged::Settled => record.state == settled,
        Acknowledged::Released => record.state == State::Released,
        // What it did next may have been written without being acknowledged.
        Acknowledged::Claimed => {
            matches!(record.state, State::Leased { .. } | State::Released)
                || record.state == settled
        }
    };
    if !may_be {
        bail!("it is {:?}", record.state);
    }
    Ok(())
}
