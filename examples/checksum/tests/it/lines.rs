//! The lines: digests, names and their escapes.

use crate::support::{ABC, EMPTY, Tree, assert_clean, assert_verifies, os, output, text};
use std::fs::{self, File};
use std::process::Stdio;

/// Names that need care in a line, in byte order, and their escaped forms.
const NAMES: [(&[u8], &[u8]); 15] = [
    (b"\x01\x7f", b"\x01\x7f"),
    (b" ", b" "),
    (b" in front", b" in front"),
    (b"*starred", b"*starred"),
    (b"--", b"--"),
    (b"--help", b"--help"),
    (b"-dash", b"-dash"),
    (b"\\", b"\\\\"),
    (b"\\n", b"\\\\n"),
    (b"back\\slash", b"back\\\\slash"),
    (b"carriage\rreturn", b"carriage\\rreturn"),
    (b"end ", b"end "),
    (b"new\nline", b"new\\nline"),
    (b"tab\ttab", b"tab\ttab"),
    (b"\xc3\xa9\xe2\x80\xae", b"\xc3\xa9\xe2\x80\xae"),
];

/// The line of a file with content `abc` whose name is printed as `shown`.
fn abc_line(name: &[u8], prefix: &str, shown: &[u8]) -> Vec<u8> {
    let escaped = if name == shown { "" } else { "\\" };
    [
        escaped.as_bytes(),
        ABC.as_bytes(),
        b"  ",
        prefix.as_bytes(),
        shown,
        b"\n",
    ]
    .concat()
}

#[test]
fn an_odd_name_is_printed_raw_or_escaped_as_by_sha256sum() {
    let tree = Tree::new("odd-names");
    for (name, _) in NAMES {
        tree.file(os(name), "abc");
    }

    let walked = tree.run(["."]);
    assert_clean(&walked);
    let expected = NAMES.map(|(name, shown)| abc_line(name, "./", shown));
    assert_eq!(
        walked.stdout.escape_ascii().to_string(),
        expected.concat().escape_ascii().to_string()
    );

    let arguments = || {
        [os(b"--")]
            .into_iter()
            .chain(NAMES.map(|(name, _)| os(name)))
    };
    let named = tree.run(arguments());
    assert_clean(&named);
    if let Some(mut reference) = tree.sha256sum(arguments()) {
        assert_eq!(
            named.stdout.escape_ascii().to_string(),
            output(&mut reference).stdout.escape_ascii().to_string()
        );
    }
    assert_verifies(&tree, &[walked.stdout, named.stdout].concat());
}

/// Some file systems refuse such a name, so it has a separate test.
#[cfg(target_os = "linux")]
#[test]
fn a_name_that_is_not_utf8_is_printed_unchanged() {
    let tree = Tree::new("not-utf8");
    let name = b"\xff\xfe\\\xc3";
    tree.file(os(name), "abc");

    let run = tree.run(["."]);
    assert_clean(&run);
    assert_eq!(run.stdout, abc_line(name, "./", b"\xff\xfe\\\\\xc3"));
    assert_verifies(&tree, &run.stdout);
}

#[test]
fn the_digest_is_right_at_block_and_read_boundaries() {
    let tree = Tree::new("sizes");
    let reads = [1, 2, 8].map(|chunks| chunks * 128 * 1024);
    let edges = [1, 56, 64].into_iter().chain(reads);
    let mut sizes: Vec<usize> = edges.flat_map(|size| [size - 1, size, size + 1]).collect();
    sizes.dedup();
    for size in &sizes {
        let content: Vec<u8> = (0..=250).cycle().take(*size).collect();
        tree.file(size.to_string(), content);
    }
    let arguments = || sizes.iter().map(ToString::to_string);

    let run = tree.run(arguments());
    assert_clean(&run);
    assert_eq!(text(&run.stdout).lines().count(), sizes.len());
    if let Some(mut reference) = tree.sha256sum(arguments()) {
        assert_eq!(text(&run.stdout), text(&output(&mut reference).stdout));
    }
}

#[test]
fn digests_equal_published_ones() {
    let tree = Tree::new("published");
    tree.file("0", "");
    tree.file("3", "abc");
    tree.file("million", vec![b'a'; 1_000_000]);

    let run = tree.run(["0", "3", "million"]);
    assert_clean(&run);
    let million = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    assert_eq!(
        text(&run.stdout),
        format!("{EMPTY}  0\n{ABC}  3\n{million}  million\n")
    );
}

#[test]
fn a_dash_is_standard_input_and_the_second_dash_finds_it_empty() {
    let tree = Tree::new("dash");
    tree.file("-", "a file");
    tree.file("input", "abc");
    let input = || Stdio::from(File::open(tree.path("input")).expect("it is there"));

    let run = output(tree.checksum(["-", "./-", "-"]).stdin(input()));
    assert_clean(&run);
    let lines: Vec<_> = text(&run.stdout).lines().collect();
    assert_eq!(lines[0], format!("{ABC}  -"));
    assert!(lines[1].ends_with("  ./-") && !lines[1].starts_with(ABC));
    assert_eq!(lines[2], format!("{EMPTY}  -"));
    if let Some(mut reference) = tree.sha256sum(["-", "./-", "-"]) {
        let reference = output(reference.stdin(input()));
        assert_eq!(text(&run.stdout), text(&reference.stdout));
    }
}

#[test]
fn the_total_is_the_digest_of_all_lines_with_any_number_of_threads() {
    let tree = Tree::new("total");
    for number in 0..40 {
        tree.file(number.to_string(), vec![b'a'; 3 * number]);
    }
    let lines = tree.run(["."]).stdout;
    tree.file("LINES", &lines);
    let expected = text(&tree.run(["LINES"]).stdout).replace("LINES", "-");
    fs::remove_file(tree.path("LINES")).expect("it was written");

    for jobs in ["1", "8"] {
        let run = tree.run(["--total", "--jobs", jobs, "."]);
        assert_eq!(run.status.code(), Some(0));
        assert_eq!(text(&run.stdout), expected, "{jobs} threads");
    }
}

#[test]
fn the_total_is_printed_with_a_summary_that_contains_the_bounds() {
    let tree = Tree::new("summary");
    tree.file("a", "abc");
    tree.file("b", "abcd");

    let run = tree.run(["--total", "--jobs", "1", "a", "b", "absent"]);
    let stderr = text(&run.stderr);
    let summary = stderr.lines().last().expect("there is a summary");
    let (counts, rest) = summary.split_once(" in ").expect("COUNTS in TIME");
    let (_time, peaks) = rest.split_once(" s; ").expect("TIME s; PEAKS");
    assert_eq!(counts, "checksum: 3 files, 7 B");
    let waiting = peaks
        .strip_prefix("at its peak 1 of 1 threads, and ")
        .and_then(|rest| rest.strip_suffix(" of 1024 files in the queue"))
        .expect("both peaks with their bounds");
    assert!(
        (1..=3).contains(&waiting.parse().expect("a number")),
        "{waiting}"
    );
    assert_eq!(run.status.code(), Some(1), "one file is absent");
}
