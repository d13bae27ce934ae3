//! The order of a walk, and the files that it skips.

use crate::support::{ABC, Running, Tree, assert_clean, assert_verifies, names, text};
use std::fs;
use std::io;
use std::process::Stdio;

#[test]
fn each_of_many_files_has_one_line_in_order() {
    const FILES: usize = 2_000;
    let tree = Tree::new("many");
    // Spread over directories, and created in another order than the sorted one.
    for n in (0..FILES).map(|n| n * 1_009 % FILES) {
        let dir = format!("{}", n / 1_000);
        fs::create_dir_all(tree.path(&dir)).expect("a directory can be made");
        tree.file(format!("{dir}/{n:04}"), n.to_string());
    }

    let run = tree.run(["."]);
    assert_clean(&run);
    let expected: Vec<_> = (0..FILES)
        .map(|n| format!("./{}/{n:04}", n / 1_000))
        .collect();
    assert!(
        names(&run.stdout) == expected,
        "a name is missing, twice, or out of order"
    );
    assert_verifies(&tree, &run.stdout);
}

#[test]
fn one_job_and_sixteen_jobs_print_the_same_bytes() {
    let tree = Tree::new("jobs");
    for n in 0..300_usize {
        // Large files among small ones, so that several jobs finish out of order.
        let size = if n % 10 == 0 { 300_000 } else { n };
        tree.file(format!("{n}"), vec![b'x'; size]);
    }

    let one = tree.run(["--jobs", "1"]);
    let sixteen = tree.run(["-j16"]);
    assert_clean(&one);
    assert_clean(&sixteen);
    assert_eq!(text(&one.stdout).lines().count(), 300);
    assert_eq!(text(&one.stdout), text(&sixteen.stdout));
}

#[test]
fn entries_are_in_byte_order_depth_first_and_arguments_as_given() {
    let tree = Tree::new("order");
    for dir in ["b", "b/sub", "empty", "z"] {
        tree.dir(dir);
    }
    for file in [".hidden", "B", "a", "b/sub/x", "b/y", "b.txt", "z/0"] {
        tree.file(file, "");
    }

    let all = [".hidden", "B", "a", "b/sub/x", "b/y", "b.txt", "z/0"];
    let default = tree.run::<&str>([]);
    assert_clean(&default);
    assert_eq!(names(&default.stdout), all.map(|name| format!("./{name}")));

    let given = tree.run(["z", "a", "b/", "--", "z"]);
    assert_clean(&given);
    assert_eq!(names(&given.stdout), ["z/0", "a", "b/sub/x", "b/y", "z/0"]);
}

#[testkit::test]
fn a_walk_reads_links_to_files_follows_none_to_directories_and_skips_special_files() {
    let tree = Tree::new("kinds");
    tree.dir("d");
    tree.file("d/file", "abc");
    tree.link("d/up", "..");
    tree.link("d/to-file", "file");
    tree.link("d/to-fifo", "fifo");
    tree.link("to-d", "d");
    // Reading it by mistake would hang, because it has no writer.
    tree.fifo("d/fifo");

    let run = tree.run::<&str>([]);
    assert_clean(&run);
    let expected = format!("{ABC}  ./d/file\n{ABC}  ./d/to-file\n");
    assert_eq!(text(&run.stdout), expected);

    let link_as_argument = tree.run(["to-d"]);
    assert_clean(&link_as_argument);
    let expected = ["to-d/file", "to-d/to-file"];
    assert_eq!(names(&link_as_argument.stdout), expected);
}

#[testkit::test]
fn a_fifo_given_as_an_argument_is_read_to_its_end() {
    let tree = Tree::new("fifo-argument");
    tree.fifo("fifo");

    let mut child = Running::start(tree.checksum(["fifo"]).stdout(Stdio::piped()));
    fs::write(tree.path("fifo"), "abc").expect("the program reads it");
    let stdout = child.0.stdout.take().expect("it is a pipe");
    let stdout = io::read_to_string(stdout).expect("UTF-8");
    assert_eq!(stdout, format!("{ABC}  fifo\n"));
    assert_eq!(child.end(), 0);
}
