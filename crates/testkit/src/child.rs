//! Tests that run in a process of their own, because they end it.

use std::process::{Command, Output};

/// The environment variable of a child. Contains the test's name.
const CHILD: &str = "ANTHILL_TEST_CHILD";

/// The exit code of a child whose body returned. Not 0, because libtest exits with 0 if its filter
/// matches no test.
const RETURNED: i32 = 77;

/// Runs `body` in a new process and waits for it.
///
/// `test` is the full path of the calling test as libtest prints it (`module::name`). The child is
/// this test binary, and runs only that test, in which this same call runs `body` and exits.
///
/// # Errors
/// The output of the child, if it ended otherwise than by returning from `body`: by a panic
/// (libtest's failure code), an abort, or a signal.
///
/// # Panics
/// If no process can be started, or there is no such test.
pub fn in_child(test: &str, body: impl FnOnce()) -> Result<(), Output> {
    if std::env::var_os(CHILD).is_some_and(|name| name == test) {
        body();
        std::process::exit(RETURNED);
    }
    let this = std::env::current_exe().expect("a test binary knows its path");
    let output = Command::new(this)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, test)
        .output()
        .expect("a test binary can be run again");
    match output.status.code() {
        Some(RETURNED) => Ok(()),
        Some(0) => panic!("no test is called `{test}`"),
        _ => Err(output),
    }
}
