//! The README contains the numbers of the code.

use std::time::Duration;

use durable_queue::internals::{
    CANCEL_PAUSE, FIRST_LOOK, LONGEST_LOOK, MOST_FAILURES, PUMP_THREADS,
};
use durable_queue::store::COUNT_LIMIT;
use durable_queue::{HORIZON, LEASE, LONGEST_RESULT, UNREADABLE};

#[test]
fn the_readme_contains_the_numbers_of_the_code() {
    let readme = include_str!("../../README.md");
    let (millis, second) = (Duration::from_millis, Duration::from_secs(1));
    for (text, value, meant) in [
        ("within the horizon (half a second)", HORIZON, millis(500)),
        (
            "(10 seconds, renewed after a third)",
            LEASE,
            Duration::from_secs(10),
        ),
        (
            "within 0.1 s of the store's announcement",
            CANCEL_PAUSE,
            millis(100),
        ),
        ("a dead letter after a day", UNREADABLE, second * 86_400),
        ("at first after 10 ms", FIRST_LOOK, millis(10)),
        ("up to once a second", LONGEST_LOOK, second),
    ] {
        assert!(readme.contains(text), "{text}");
        assert_eq!(value, meant, "{text}");
    }
    for (text, value, meant) in [
        ("its last ten failed attempts", MOST_FAILURES, 10),
        ("up to 64 KiB", LONGEST_RESULT, 64 << 10),
        ("Counts end at 10,000", COUNT_LIMIT as usize, 10_000),
        ("At most two threads", PUMP_THREADS, 2),
    ] {
        assert!(readme.contains(text), "{text}");
        assert_eq!(value, meant, "{text}");
    }
}
