//! Crashes stores on purpose, and checks what they kept. For tests only.
//!
//! - [`writer`] is a process that writes to an embedded store and prints its acknowledgements.
//! - [`ledger`] records acknowledgements, and checks a store against them.
//! - [`victim`] starts, stops and kills writers.
//! - [`image`] puts a store on a file system of its own, of which a power cut leaves an image.
//! - [`work`] counts what the engine did besides writing its log.
//! - [`rounds`] does all this many times over.

pub mod image;
pub mod ledger;
pub mod rounds;
pub mod victim;
pub mod work;
pub mod writer;
