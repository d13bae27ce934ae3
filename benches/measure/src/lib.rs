//! Shared code of the comparing programs: cases, meters, and the format of figures.
//!
//! Each program has two commands: `list` prints its cases and their contenders, `run CASE POOL`
//! runs one of them and prints its figures, a JSON object per line, the headline first. `cargo
//! xtask bench` runs them repeatedly and evaluates the figures.
//!
//! No statistics are computed here: a single run on a shared machine says little.

pub mod case;
pub mod meter;
pub mod percentiles;
pub mod report;
