//! Tests of the example `checksum`, which run it as a process and compare it with `sha256sum` byte
//! for byte.
//!
//! No test waits for a duration: a fifo holds a reader, and a full socket holds a writer. Without
//! GNU `sha256sum`, the comparing tests report that, and check the lines only against known
//! digests.

#![cfg(unix)]

mod failures;
mod lines;
mod signals;
mod support;
mod walks;
