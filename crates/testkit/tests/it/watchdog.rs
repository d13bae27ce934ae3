use std::env;
use std::panic::catch_unwind;
use std::process::Command;
use std::time::Duration;

use testkit::{Gate, LIMIT, in_child, watchdog};

#[test]
fn a_hanging_test_aborts_its_process_with_a_message() {
    let test = "watchdog::a_hanging_test_aborts_its_process_with_a_message";
    let end = in_child(test, || {
        watchdog(Duration::from_millis(1), || Gate::new().wait());
    });
    let end = end.expect_err("the process fails");
    let said = String::from_utf8_lossy(&end.stderr);
    assert!(said.contains("has not ended after 1ms"), "{said}");
    assert_ne!(end.status.code(), Some(101), "it did not end by a panic");
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn the_attribute_watches_the_body_until_its_end() {
    let test = "watchdog::the_attribute_watches_the_body_until_its_end";
    let end = in_child(test, || {
        let is_there = || testkit::thread_names().contains(&"watchdog".to_owned());
        // A thread sets its name shortly after its start.
        while !is_there() {
            std::thread::yield_now();
        }
    });
    assert!(end.is_ok(), "{end:?}");
}

/// Run by the next test.
#[testkit::test]
fn hangs_without_time() {
    if env::var("TESTKIT_SLOWDOWN").as_deref() == Ok("0") {
        Gate::new().wait();
    }
}

#[test]
fn the_attribute_aborts_a_test_that_hangs_and_names_it() {
    let this = env::current_exe().expect("a test binary knows its path");
    let end = Command::new(this)
        .args(["watchdog::hangs_without_time", "--exact"])
        .env("TESTKIT_SLOWDOWN", "0") // The limit is multiplied by this.
        .output()
        .expect("a test binary can be run again");
    let said = String::from_utf8_lossy(&end.stderr);
    assert!(
        said.contains("`it::watchdog::hangs_without_time` has not ended"),
        "{said}"
    );
    assert_eq!(end.status.code(), None, "it was aborted");
}

#[testkit::test]
#[should_panic(expected = "as it should")]
fn the_attribute_lets_a_test_panic() {
    panic!("as it should");
}

#[testkit::test]
fn the_attribute_lets_a_test_return_a_result() -> Result<(), std::num::ParseIntError> {
    assert_eq!("5".parse::<u8>()?, 5);
    Ok(())
}

#[test]
fn the_watchdog_returns_the_value_of_the_test() {
    assert_eq!(watchdog(LIMIT, || 5), 5);
}

#[test]
fn the_watchdog_passes_a_panic_on() {
    assert!(catch_unwind(|| watchdog(LIMIT, || panic!("as it should"))).is_err());
}

#[test]
fn in_child_succeeds_if_the_body_returns_and_requires_an_existing_test() {
    let test = "watchdog::in_child_succeeds_if_the_body_returns_and_requires_an_existing_test";
    assert!(in_child(test, || {}).is_ok());
    assert!(catch_unwind(|| in_child("no::such_test", || {})).is_err());
}

#[test]
fn in_child_returns_the_output_of_a_panicking_body() {
    let test = "watchdog::in_child_returns_the_output_of_a_panicking_body";
    let end = in_child(test, || panic!("on purpose")).expect_err("it panicked");
    assert!(String::from_utf8_lossy(&end.stderr).contains("on purpose"));
}
