//! Unique names and passwords.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::Error;

/// `BYTES` random bytes, in hexadecimal digits.
pub(crate) fn token<const BYTES: usize>() -> Result<String, Error> {
    Ok(random::<BYTES>()?.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Random bytes.
pub(crate) fn random<const BYTES: usize>() -> Result<[u8; BYTES], Error> {
    let source = Path::new("/dev/urandom");
    let mut bytes = [0; BYTES];
    File::open(source)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(Error::at(source))?;
    Ok(bytes)
}
