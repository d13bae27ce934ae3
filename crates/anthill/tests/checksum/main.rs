//! The example `checksum`, run as a process and compared with `sha256sum`, byte for byte.
//!
//! Nothing here waits for time to pass: a fifo holds a reader where a test wants it, a full
//! socket holds a writer. Without GNU `sha256sum` the tests that compare with it say so; the
//! lines are then checked against known digests alone.

#![cfg(unix)]

// What waits for what has rules of its own, which no output shows reliably. These files need
// nothing else of the example, so they are tested from inside.
#[path = "../../examples/checksum/order.rs"]
mod order;
#[path = "../../examples/checksum/report.rs"]
mod report;
#[path = "../../examples/checksum/window.rs"]
mod window;

mod failures;
mod lines;
mod reorder;
mod signals;
mod support;
mod walks;
mod windows;
