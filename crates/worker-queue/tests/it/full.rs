//! The error of a refused push.

use std::error::Error;

use worker_queue::Full;

/// Deliberately without `Debug`.
struct Worker;

#[test]
fn a_full_error_is_an_error_whatever_the_entry_is() {
    let error: Box<dyn Error> = Box::new(Full(Worker));
    assert_eq!(error.to_string(), "the queue of idle workers is full");
    assert_eq!(format!("{error:?}"), "Full(..)");
}
