//! The program `semel`, from the outside.

mod check;
mod demo;
mod gateway;
mod logs;
mod reload;
mod stopping;
mod support;
mod usage;
