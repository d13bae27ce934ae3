//! What the programs that compare share: cases, meters, and figures as they are printed.
//!
//! Each of those programs is asked twice: `list` says which cases there are and which contenders can
//! do them, `run CASE POOL` runs one of them and prints its figures, a JSON object per line, the
//! headline first. `cargo xtask bench` starts them over and over and judges the figures.
//!
//! Not for: statistics. A single run on a shared machine says little.

pub mod case;
pub mod meter;
pub mod percentiles;
pub mod report;
