//! The error of a refused push.

use std::error::Error;

use worker_queue::Full;

/// Deliberately without `Debug`.
struct Worker;

#[test]
fn full_implements_error_for_any_entry() {
    let error: Box<dyn Error> = Box::new(Full(Worker));
    assert_eq!(error.to_string(), "the queue of idle workers is full");
    assert_eq!(format!("{error:?}"), "Full(..)");
}
