//! The example `check-links`, run as a process on small trees.

#![cfg(unix)]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::Running;

/// A folder of one test, removed at its end.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("check-links-{name}-{}", std::process::id()));
        fs::remove_dir_all(&root).ok(); // Of a run that was killed.
        for (name, text) in files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("a file has a folder")).expect("created");
            fs::write(path, text).expect("written");
        }
        Self(root)
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_check-links"));
        command.args(options).arg(&self.0);
        command
    }

    fn run(&self, options: &[&str]) -> (Option<i32>, String, String) {
        let Output {
            status,
            stdout,
            stderr,
        } = self.command(options).output().expect("the program runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (status.code(), text(stdout), text(stderr))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok(); // A leftover does no harm.
    }
}

#[testkit::test]
fn good_links_of_markdown_and_html_print_nothing() {
    let tree = Tree::new(
        "good",
        &[
            (
                "a.md",
                "[up](sub/b%20c.html) ![it](a.md#here) <img src='sub'> [away](https://example.com)",
            ),
            (
                "sub/b c.html",
                "<a href=../a.md?x=1&amp;y=2>a</a> <a href='/a.md'>a</a>",
            ),
            ("notes.txt", "[no page](missing)"),
        ],
    );
    let summary = "check-links: 2 files, 3 links: 3 good, 0 broken, 0 not checked; 1 to other hosts; 0 retries\n";
    assert_eq!(tree.run(&[]), (Some(0), String::new(), summary.to_owned()));
}

#[testkit::test]
fn a_broken_link_is_printed_for_each_file_that_has_it() {
    let tree = Tree::new(
        "broken",
        &[
            ("a.md", "[1](gone.md) [2](gone.md) [3](b.html)"),
            (
                "b.html",
                "<a href=gone.md></a> <a href=../../etc/passwd></a>",
            ),
        ],
    );
    let (status, out, _) = tree.run(&[]);
    assert_eq!(status, Some(1));
    assert_eq!(
        out,
        "b.html: /etc/passwd: 404 Not Found\na.md: /gone.md: 404 Not Found\nb.html: /gone.md: 404 Not Found\n"
    );
}

#[testkit::test]
fn refused_and_unanswered_requests_are_repeated() {
    let tree = Tree::new("retries", &[("a.md", "[a](a.md) [b](b.md)"), ("b.md", "")]);
    for options in [
        &["--refuse-every", "1"][..],
        &["--ignore-every", "1", "--timeout", "100"],
    ] {
        let (status, _, summary) = tree.run(options);
        assert_eq!(status, Some(0), "{summary}");
        // A slow machine may let more requests time out.
        assert!(!summary.ends_with(" 0 retries\n"), "{summary}");
    }
}

#[testkit::test]
fn after_a_signal_open_requests_end_and_no_other_begins() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let tree = Tree::new(&format!("signal-{signal}"), &[("a.md", "")]);
        let fifo = tree.0.join("b.md");
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        let mut child = Running::start(&mut tree.command(&[]));
        // Opening waits until the walk has reached it.
        let opened = File::options().write(true).open(&fifo).expect("opened");
        child.send(signal);
        let mut stderr = BufReader::new(child.0.stderr.take().expect("a pipe"));
        let mut line = String::new();
        stderr.read_line(&mut line).expect("UTF-8");
        assert_eq!(line, "check-links: stopping; open requests are finished\n");
        std::io::Write::write_all(&mut &opened, b"[a](a.md)").expect("written");
        drop(opened);
        line.clear();
        stderr.read_line(&mut line).expect("UTF-8");
        assert_eq!(
            line,
            "check-links: 2 files, 1 links: 0 good, 0 broken, 1 not checked; 0 to other hosts; 0 retries\n"
        );
        assert_eq!(child.end(), code);
    }
}

#[testkit::test]
fn wrong_arguments_are_refused() {
    let tree = Tree::new("arguments", &[]);
    for options in [&["--jobs", "0"][..], &["--timeout"], &["--fast"], &["more"]] {
        let (status, _, error) = tree.run(options);
        assert_eq!(status, Some(2), "{error}");
    }
}
