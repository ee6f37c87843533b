//! What all benchmarks over HTTP share: subjects, an upstream, a load generator, and rounds.

pub(crate) mod load;
pub(crate) mod plain;
pub(crate) mod procfs;
pub(crate) mod rounds;
mod running;
pub(crate) mod stop;
pub(crate) mod subjects;
pub(crate) mod tools;
pub(crate) mod upstream;
