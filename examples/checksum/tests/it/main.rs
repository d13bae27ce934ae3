//! The example `checksum`, run as a process and compared with `sha256sum`, byte for byte.
//!
//! Nothing here waits for time to pass: a fifo holds a reader where a test wants it, a full
//! socket holds a writer. Without GNU `sha256sum` the tests that compare with it say so; the
//! lines are then checked against known digests alone.

#![cfg(unix)]

mod failures;
mod lines;
mod signals;
mod support;
mod walks;
