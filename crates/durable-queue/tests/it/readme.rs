//! The README contains the numbers of the code.

use std::time::Duration;

use durable_queue::{HORIZON, LEASE};

#[test]
fn the_readme_contains_the_numbers_of_the_code() {
    let readme = include_str!("../../README.md");
    for (text, value, meant) in [
        (
            "within the horizon (half a second)",
            HORIZON,
            Duration::from_millis(500),
        ),
        (
            "(10 seconds, renewed after a third)",
            LEASE,
            Duration::from_secs(10),
        ),
    ] {
        assert!(readme.contains(text), "{text}");
        assert_eq!(value, meant, "{text}");
    }
}
