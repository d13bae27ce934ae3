//! The texts of the errors.

use std::error::Error;
use std::io;
use std::sync::Arc;

use delay_queue::{PushError, TakeError};

/// Not `Debug`: errors must not require it.
struct Value(u8);

#[test]
fn a_refused_value_is_returned_with_the_reason() {
    let errors = [
        (
            PushError::Full(Value(1)),
            "the queue is full",
            "Full(..)",
            true,
            false,
        ),
        (
            PushError::Closed(Value(2)),
            "the queue is closed",
            "Closed(..)",
            false,
            true,
        ),
        (
            PushError::TimedOut(Value(3)),
            "timed out waiting for room in the queue",
            "TimedOut(..)",
            true,
            false,
        ),
        (
            PushError::Forked(Value(4)),
            "the queue belongs to the parent process (this one was forked)",
            "Forked(..)",
            false,
            false,
        ),
    ];
    for (n, (error, display, debug, is_full, is_closed)) in (1..).zip(errors) {
        assert_eq!(error.to_string(), display);
        assert_eq!(format!("{error:?}"), debug);
        assert_eq!((error.is_full(), error.is_closed()), (is_full, is_closed));
        assert_eq!(error.into_value().0, n);
    }
}

#[test]
fn a_take_error_names_the_reason() {
    let told = [
        (TakeError::Closed, "the queue is closed"),
        (TakeError::TimedOut, "timed out waiting for a due entry"),
        (TakeError::Empty, "the queue is empty"),
        (TakeError::NotDue, "no entry is due"),
        (
            TakeError::Forked,
            "the queue belongs to the parent process (this one was forked)",
        ),
    ];
    for (error, display) in told {
        assert_eq!(error.to_string(), display);
        assert!(error.source().is_none());
        assert_eq!(error.is_closed(), display == "the queue is closed");
    }
    let error = TakeError::NoAlarm(Arc::new(io::Error::other("why")));
    assert_eq!(error.to_string(), "the alarm could not be set: why");
    assert_eq!(error.source().unwrap().to_string(), "why");
}

#[test]
fn all_futures_are_send_and_sync() {
    fn both<T: Send + Sync + 'static>() {}
    fn sent<T: Send + Unpin + 'static>() {}
    both::<delay_queue::DelayQueue<std::cell::Cell<u8>>>();
    both::<delay_queue::TakeFuture<std::cell::Cell<u8>>>();
    both::<TakeError>();
    sent::<delay_queue::PushFuture<std::cell::Cell<u8>>>();
    sent::<delay_queue::TakeFuture<std::cell::Cell<u8>>>();
}

/// The value is neither `Send` nor `Debug`; the bare reason is both.
#[test]
fn a_push_error_without_its_value_works_with_the_question_mark() {
    struct Value(std::rc::Rc<()>);
    fn bare(error: PushError<Value>) -> Result<(), Box<dyn Error + Send + Sync>> {
        Err(error.without_value())?;
        Ok(())
    }
    let count = std::rc::Rc::new(());
    for (error, text) in [
        (PushError::Full as fn(_) -> _, "the queue is full"),
        (PushError::Closed, "the queue is closed"),
        (
            PushError::TimedOut,
            "timed out waiting for room in the queue",
        ),
    ] {
        let value = || Value(std::rc::Rc::clone(&count));
        assert_eq!(bare(error(value())).unwrap_err().to_string(), text);
        let (reason, Value(kept)) = error(value()).into_parts();
        assert_eq!(reason.to_string(), text);
        assert_eq!(std::rc::Rc::strong_count(&kept), 2, "the other was dropped");
    }
}
