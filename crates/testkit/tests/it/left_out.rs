//! Tests that are left out are reported once, where the caller wants it.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};

/// Set in a run of this program that leaves something out.
const CHILD: &str = "TESTKIT_TEST_LEAVES_OUT";

#[test]
fn a_part_is_named_once_in_the_file_that_the_variable_names() {
    let file = file("once");
    let run = child()
        .env("TESTKIT_LEFT_OUT", &file)
        .output()
        .expect("it runs");
    assert!(run.status.success());
    let lines = fs::read_to_string(&file).expect("it was written");
    fs::remove_file(&file).expect("it was written");
    assert_eq!(
        lines,
        "tests on Mars (no rocket)\ntests on Venus (too hot)\n"
    );
    assert!(!String::from_utf8_lossy(&run.stderr).contains("Mars"));
}

#[test]
fn without_the_variable_a_part_is_named_on_stderr() {
    let run = child()
        .env_remove("TESTKIT_LEFT_OUT")
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&run.stderr);
    assert_eq!(
        stderr
            .matches("left out: tests on Mars (no rocket)\n")
            .count(),
        1,
        "{stderr}"
    );
}

/// Run by the child processes. Not a test itself.
#[test]
fn leave_out() {
    if env::var_os(CHILD).is_some() {
        testkit::left_out("tests on Mars", "no rocket");
        testkit::left_out("tests on Mars", "no rocket");
        testkit::left_out("tests on Venus", "too hot");
    }
}

fn child() -> Command {
    let mut command = Command::new(env::current_exe().expect("a test knows its own program"));
    command
        .args(["--exact", "left_out::leave_out"])
        .env(CHILD, "1");
    command
}

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("left-out-{name}-{}", process::id()))
}
