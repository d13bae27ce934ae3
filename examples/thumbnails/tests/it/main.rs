//! Tests of the example `thumbnails`, which run it as a process and compare it with a plain loop
//! over the same pictures.
//!
//! No test waits for a duration: a fifo holds a worker in a picture for as long as the test needs.

#![cfg(unix)]

mod pictures;
mod signals;
mod support;
