//! The texts of the errors.

use std::error::Error;
use std::io;
use std::sync::Arc;

use dedup_queue::{GetError, ShutDown};

#[test]
fn errors_name_the_reason_and_return_the_key() {
    let error = ShutDown("a");
    assert_eq!(error.to_string(), "the queue is shut down");
    assert_eq!(format!("{error:?}"), "ShutDown(..)");
    let boxed: Box<dyn Error + Send + Sync> = error.without_key().into();
    assert_eq!(boxed.to_string(), "the queue is shut down");
    assert_eq!(error.into_key(), "a");

    let no_alarm = GetError::NoAlarm(Arc::new(io::Error::other("no thread")));
    let cases = [
        (
            GetError::Closed,
            "the queue is shut down and has no more keys",
        ),
        (GetError::TimedOut, "timed out waiting for a key"),
        (GetError::Empty, "no key is ready"),
        (no_alarm.clone(), "the alarm could not be set: no thread"),
    ];
    for (error, text) in cases {
        assert_eq!(error.to_string(), text);
        assert_eq!(error.is_closed(), matches!(error, GetError::Closed));
    }
    assert!(no_alarm.source().is_some());
    assert!(GetError::Empty.source().is_none());
}
