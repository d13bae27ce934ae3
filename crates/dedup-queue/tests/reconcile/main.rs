//! Tests of the example `reconcile`: its handling of one name, and the program as a process.
#![cfg(all(unix, not(anthill_loom)))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

// Includes the module, to test the handling of a name directly.
#[path = "../../examples/reconcile/folders.rs"]
mod folders;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use folders::{Change, Folders};

/// Two directories for one test, removed at its end.
struct Tree(PathBuf);

impl Tree {
    /// Tests that run concurrently need different names.
    fn new(name: &str) -> Self {
        let root = testkit::scratch(env!("CARGO_TARGET_TMPDIR"), &format!("reconcile-{name}"));
        fs::create_dir_all(root.join("desired")).unwrap();
        fs::create_dir_all(root.join("actual")).unwrap();
        Self(root)
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.join(name), content).unwrap();
    }

    fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    fn folders(&self) -> Folders {
        Folders::new(&self.0.join("desired"), &self.0.join("actual"))
    }

    /// Starts the example on these directories. It is killed at the end of the test at the latest.
    fn start(&self) -> Running {
        let child = Command::new(testkit::example("reconcile"))
            .args([self.0.join("desired"), self.0.join("actual")])
            .stdout(Stdio::piped())
            .spawn();
        Running(child.unwrap())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

struct Running(Child);

impl Running {
    fn interrupt(&self) {
        let sent = Command::new("kill")
            .args(["-INT", &self.0.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn each_name_is_written_removed_or_left_by_the_desired_state() {
    let tree = Tree::new("names");
    tree.write("desired/new", "1");
    tree.write("desired/changed", "1");
    tree.write("actual/changed", "2");
    tree.write("actual/gone", "2");
    tree.write("desired/same", "1");
    tree.write("actual/same", "1");
    let folders = tree.folders();
    let names: Vec<_> = folders.look().unwrap().into_keys().collect();
    assert_eq!(names, ["changed", "gone", "new", "same"]);
    assert!(!folders.are_alike().unwrap());
    let changes: Vec<_> = names
        .iter()
        .map(|name| folders.reconcile(name).unwrap())
        .collect();
    let expected = [
        Change::Written,
        Change::Removed,
        Change::Written,
        Change::Nothing,
    ];
    assert_eq!(changes, expected);
    assert!(folders.are_alike().unwrap());
    assert_eq!(tree.read("actual/changed").unwrap(), "1");
    assert_eq!(tree.read("actual/gone"), None);
    assert_eq!(folders.reconcile("never there").unwrap(), Change::Nothing);
}

#[test]
fn a_fault_is_a_failure_and_leaves_the_file_unchanged() {
    let tree = Tree::new("faults");
    tree.write("desired/a", "1");
    tree.write("actual/a", "2");
    let folders = tree.folders();
    folders.fail("a", 1);
    assert!(folders.reconcile("a").is_err());
    assert_eq!(tree.read("actual/a").unwrap(), "2");
    assert_eq!(folders.reconcile("a").unwrap(), Change::Written);
}

#[testkit::test]
fn a_run_without_arguments_synchronizes_its_own_directories_and_ends() {
    let output = Command::new(testkit::example("reconcile"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("20 written, 10 removed, 12 failures"),
        "{text}"
    );
    assert!(text.ends_with("alike: true\n"), "{text}");
}

#[testkit::test]
fn a_run_follows_changes_until_it_is_interrupted_and_then_drains() {
    let tree = Tree::new("follows");
    tree.write("desired/a", "1");
    let mut running = tree.start();
    let until = |name: &str, content: Option<&str>| {
        while tree.read(name).as_deref() != content {
            thread::yield_now();
        }
    };
    until("actual/a", Some("1"));
    tree.write("desired/a", "2");
    tree.write("actual/stray", "0");
    until("actual/a", Some("2"));
    until("actual/stray", None);
    running.interrupt();
    assert!(
        running.0.wait().unwrap().success(),
        "nothing was left undone"
    );
}

#[testkit::test]
fn an_interrupted_run_names_the_keys_it_leaves() {
    let tree = Tree::new("leaves");
    // A directory with the name of the file cannot be replaced, so the key keeps failing.
    tree.write("desired/a", "1");
    fs::create_dir_all(tree.0.join("actual/a/b")).unwrap();
    let mut running = tree.start();
    let mut lines = {
        use std::io::BufRead;
        std::io::BufReader::new(running.0.stdout.take().unwrap()).lines()
    };
    let mut next = || lines.next().unwrap().unwrap();
    while !next().starts_with("failed a: ") {}
    running.interrupt();
    while next() != "left   a" {}
    assert!(!running.0.wait().unwrap().success());
}

#[test]
fn wrong_arguments_are_refused() {
    let output = Command::new(testkit::example("reconcile"))
        .arg("one")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
