//! The example `thumbnails`, run as a process and compared with a plain loop over the same pictures.
//!
//! Nothing here waits for time to pass: a fifo holds a worker within a picture for as long as a test
//! wants it there.

#![cfg(unix)]

mod pictures;
mod signals;
mod support;
