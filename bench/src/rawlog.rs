//! The yardstick: an append-only file with group commit and an index in memory. It has no
//! compaction, no expiry, no reading back and no recovery: about the least a durable claim can cost.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

pub(crate) struct RawLog {
    queue: Option<mpsc::Sender<Append>>,
    committer: Option<JoinHandle<()>>,
}

struct Append {
    id: [u8; 32],
    value: Vec<u8>,
    done: oneshot::Sender<bool>,
}

// === impl RawLog ===

impl RawLog {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file = File::create(path)?;
        let (queue, appends) = mpsc::channel(8_192);
        let committer = std::thread::spawn(move || commit(file, appends));
        Ok(Self { queue: Some(queue), committer: Some(committer) })
    }

    /// Appends unless the id is there; true if it was not.
    pub(crate) async fn append(&self, id: [u8; 32], value: Vec<u8>) -> bool {
        let (done, answer) = oneshot::channel();
        let Some(queue) = &self.queue else {
            return false;
        };
        queue.send(Append { id, value, done }).await.is_ok() && answer.await.unwrap_or(false)
    }
}

impl Drop for RawLog {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(committer) = self.committer.take() {
            let _ = committer.join();
        }
    }
}

fn commit(mut file: File, mut appends: mpsc::Receiver<Append>) {
    let mut index: HashMap<[u8; 32], u64> = HashMap::new();
    let (mut group, mut buffer, mut at) = (Vec::new(), Vec::new(), 0_u64);
    let mut answers = Vec::new();
    while appends.blocking_recv_many(&mut group, 1_024) > 0 {
        for Append { id, value, done } in group.drain(..) {
            let fresh = index.insert(id, at).is_none();
            if fresh {
                buffer.extend((value.len() as u64).to_le_bytes());
                buffer.extend(id);
                buffer.extend(value);
                at += 1;
            }
            answers.push((done, fresh));
        }
        let written = file.write_all(&buffer).and_then(|()| file.sync_data());
        buffer.clear();
        for (done, fresh) in answers.drain(..) {
            let _ = done.send(fresh && written.is_ok());
        }
    }
}
