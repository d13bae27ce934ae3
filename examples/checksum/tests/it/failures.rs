//! Unreadable files, unwritable output, and wrong arguments.

use crate::support::{ABC, Running, Tree, os, output, text};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::Path;

const SIGPIPE: i32 = 13;

#[test]
fn unreadable_files_cause_messages_and_the_others_have_lines() {
    let tree = Tree::new("unreadable");
    tree.file("a", "abc");
    tree.link("broken", "nowhere");
    tree.link("circle", "circle");
    tree.file("z", "abc");

    let run = tree.run::<&str>([]);
    assert_eq!(text(&run.stdout), format!("{ABC}  ./a\n{ABC}  ./z\n"));
    assert_eq!(
        text(&run.stderr),
        "checksum: ./broken: No such file or directory\n\
         checksum: ./circle: Too many levels of symbolic links\n"
    );
    assert_eq!(run.status.code(), Some(1));
}

#[test]
fn lines_and_messages_are_in_the_order_of_the_walk() {
    let tree = Tree::new("interleaved");
    let mut expected = Vec::new();
    tree.dir("d");
    for n in 100..700 {
        let name = format!("d/{n}");
        if n % 3 == 0 {
            tree.link(&name, "nowhere");
            expected.push(format!("checksum: {name}: No such file or directory"));
        } else {
            tree.file(&name, "abc");
            expected.push(format!("{ABC}  {name}"));
        }
    }

    let both = File::create_new(tree.path("both")).expect("it is new");
    let stderr = both.try_clone().expect("a handle can be cloned");
    let run = output(tree.checksum(["-j4", "d"]).stdout(both).stderr(stderr));
    assert_eq!(run.status.code(), Some(1));
    let both = fs::read_to_string(tree.path("both")).expect("UTF-8");
    assert!(
        both.lines().eq(expected),
        "lines are missing or out of order:\n{both}"
    );
}

#[test]
fn a_read_error_after_the_open_causes_a_message() {
    // Its first page is not mapped in any process, so the first read fails even for root.
    const UNREADABLE: &str = "/proc/self/mem";
    if !Path::new(UNREADABLE).exists() {
        eprintln!("no {UNREADABLE} here: nothing is read that fails");
        return;
    }
    let tree = Tree::new("read-error");
    tree.file("a", "abc");

    let run = tree.run(["a", UNREADABLE, "a"]);
    assert_eq!(text(&run.stdout), format!("{ABC}  a\n{ABC}  a\n"));
    assert_eq!(
        text(&run.stderr),
        format!("checksum: {UNREADABLE}: Input/output error\n")
    );
    assert_eq!(run.status.code(), Some(1));
}

/// Except a quote mark next to a control character, for which GNU adds an empty `''` in front.
#[test]
fn messages_quote_names_as_sha256sum_does() {
    let tree = Tree::new("quoting");
    let mut absent = vec![
        os(b""),
        os(b"'"),
        os(b"\n"),
        os(b"\xff1"),
        os(b"a\xff\n"),
        os(b"a\n\r\xffb"),
    ];
    for byte in (1..=127).filter(|&byte| byte != b'/') {
        absent.push(os(&[b'a', byte, b'b']));
        absent.push(os(&[byte, b'b']));
        if byte != b'-' && byte != b'.' {
            absent.push(os(&[byte]));
        }
        if !byte.is_ascii_control() {
            absent.push(os(&[b'i', b't', b'\'', b's', byte]));
        }
    }
    let arguments = || {
        [OsString::from("--")]
            .iter()
            .chain(&absent)
            .cloned()
            .collect::<Vec<_>>()
    };

    let run = tree.run(arguments());
    assert_eq!(run.status.code(), Some(1));
    assert_eq!(text(&run.stdout), "");
    assert_eq!(text(&run.stderr).lines().count(), absent.len());
    if let Some(mut reference) = tree.sha256sum(arguments()) {
        let reference = text(&output(&mut reference).stderr).replace("sha256sum: ", "checksum: ");
        for (line, reference) in text(&run.stderr).lines().zip(reference.lines()) {
            assert_eq!(line, reference);
        }
    }
}

#[test]
fn a_closed_reader_ends_the_process_by_sigpipe_without_a_message() {
    let tree = Tree::new("sigpipe");
    tree.file("a", "abc");
    let (reader, writer) = io::pipe().expect("a pipe can be made");
    drop(reader);

    let mut checksum = tree.checksum(["a"]);
    let mut child = Running::start(checksum.stdout(writer));
    assert_eq!(child.end(), -SIGPIPE);
    assert_eq!(child.stderr(), "");
}

#[test]
fn a_full_device_is_a_write_error_and_status_1() {
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        eprintln!("no /dev/full here: no write fails");
        return;
    };
    let tree = Tree::new("full");
    tree.file("a", "abc");
    for args in [["a"], ["--help"]] {
        let full = full.try_clone().expect("a handle can be cloned");
        let run = output(tree.checksum(args).stdout(full));
        assert_eq!(
            text(&run.stderr),
            "checksum: write error: No space left on device\n"
        );
        assert_eq!(run.status.code(), Some(1));
    }
}

#[test]
fn wrong_arguments_are_status_2_and_nothing_is_read() {
    let tree = Tree::new("usage");
    tree.file("a", "abc");
    for (wrong, message) in [
        (&["--nonsense", "a"][..], "invalid option '--nonsense'"),
        (&["a", "-x"], "invalid option '-x'"),
        (&["a", "--jobs"], "missing argument for option '--jobs'"),
        (
            &["--jobs", "0", "a"],
            "--jobs 0: not a number from 1 to 1024",
        ),
        (&["-j1025", "a"], "--jobs 1025: not a number from 1 to 1024"),
        (
            &["-j", "two words", "a"],
            "--jobs 'two words': not a number from 1 to 1024",
        ),
    ] {
        let run = tree.run(wrong);
        assert_eq!(
            text(&run.stderr),
            format!("checksum: {message}\nTry 'checksum --help' for more information.\n")
        );
        assert_eq!(text(&run.stdout), "");
        assert_eq!(run.status.code(), Some(2));
    }
}

#[test]
fn help_and_version_go_to_stdout() {
    let tree = Tree::new("help");
    for (arg, start) in [
        ("--help", "Usage: checksum "),
        ("-V", "checksum (anthill) "),
    ] {
        let run = tree.run([arg]);
        assert!(text(&run.stdout).starts_with(start));
        assert_eq!(text(&run.stderr), "");
        assert_eq!(run.status.code(), Some(0));
    }
}
