//! Tests whose subject is the end of a process: they run in one of their own.

use std::process::{Command, Output};

/// Set in the child, to the test's name.
const CHILD: &str = "ANTHILL_TEST_CHILD";

/// What a child exits with whose body returned. Not 0: with that libtest ends when its filter
/// matches no test.
const RETURNED: i32 = 77;

/// Runs `body` in a fresh process, and waits for it.
///
/// `test` is the calling test's full path as libtest prints it (`module::name`): the child is
/// this test binary, run with that test alone, in which this same call runs `body` and exits.
///
/// # Errors
/// What the process left behind, if it ended in any other way than by `body` returning: by a
/// panic (libtest's failure code), an abort, a signal.
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
