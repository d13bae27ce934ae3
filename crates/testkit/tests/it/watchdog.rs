use std::panic::catch_unwind;
use std::time::Duration;

use testkit::{Gate, LIMIT, in_child, watchdog};

#[test]
fn a_hanging_test_aborts_its_process_and_says_so() {
    let test = "watchdog::a_hanging_test_aborts_its_process_and_says_so";
    let end = in_child(test, || {
        watchdog(Duration::from_millis(1), || Gate::new().wait());
    });
    let end = end.expect_err("the process does not end well");
    let said = String::from_utf8_lossy(&end.stderr);
    assert!(said.contains("has not ended after 1ms"), "{said}");
    assert_ne!(end.status.code(), Some(101), "it was not a mere panic");
}

#[test]
fn a_test_that_ends_gives_back_what_it_returned() {
    assert_eq!(watchdog(LIMIT, || 5), 5);
}

#[test]
fn a_panic_comes_through_the_watchdog() {
    assert!(catch_unwind(|| watchdog(LIMIT, || panic!("as it should"))).is_err());
}

#[test]
fn a_child_ends_well_if_its_body_returns_and_must_exist() {
    let test = "watchdog::a_child_ends_well_if_its_body_returns_and_must_exist";
    assert!(in_child(test, || {}).is_ok());
    assert!(catch_unwind(|| in_child("no::such_test", || {})).is_err());
}

#[test]
fn a_child_whose_body_panics_hands_its_output_back() {
    let test = "watchdog::a_child_whose_body_panics_hands_its_output_back";
    let end = in_child(test, || panic!("on purpose")).expect_err("it panicked");
    assert!(String::from_utf8_lossy(&end.stderr).contains("on purpose"));
}
