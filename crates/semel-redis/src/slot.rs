//! Hash slots of a cluster.

/// The number of a hash slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(u16);

pub(crate) const SLOTS: usize = 16_384;

// === impl Slot ===

impl Slot {
    /// The slot of a key without braces, as ours are.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self(crc16(key) % 16_384)
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The checksum that Redis Cluster uses (XMODEM).
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc: u16, &byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
        // As reported by `CLUSTER KEYSLOT`.
        assert_eq!(Slot::of(b"foo"), Slot(12182));
        assert_eq!(Slot::of(b"bar"), Slot(5061));
    }
}
