//! What the project demands of its own files and clippy cannot check. All of it is tests.

#![cfg(test)]

mod code;
mod docs;
mod drift;
mod files;
mod modules;
mod words;
