//! SIGINT and SIGTERM at controlled moments.

use crate::support::{ABC, Running, Tree};
use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

/// A tree in which the walk finds a file, then a fifo that never ends, then another file.
fn blocking_tree(name: &str) -> Tree {
    let tree = Tree::new(name);
    tree.file("a", "abc");
    tree.file("b", "abc");
    tree.fifo("fifo");
    tree.file("z", "abc");
    tree
}

#[testkit::test]
fn a_signal_ends_the_process_after_the_complete_lines_in_order() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let tree = blocking_tree(&format!("signal-{signal}"));
        let mut checksum = tree.checksum(["--jobs", "2", "a", "b", "fifo", "z"]);
        checksum.stdout(Stdio::piped());
        let mut child = Running::start(&mut checksum);
        let mut stdout = BufReader::new(child.0.stdout.take().expect("it is a pipe"));
        let mut lines = String::new();
        stdout.read_line(&mut lines).expect("UTF-8");
        stdout.read_line(&mut lines).expect("UTF-8");

        child.send(signal);
        stdout.read_to_string(&mut lines).expect("UTF-8");
        assert_eq!(child.end(), code);
        // `z` may have been read, but it was not its turn.
        assert_eq!(lines, format!("{ABC}  a\n{ABC}  b\n"));
        assert_eq!(child.stderr(), "");
    }
}

#[testkit::test]
fn a_line_delayed_by_a_slow_reader_is_written_after_the_signal() {
    let tree = blocking_tree("slow-reader");
    let mut run = HeldUp::start(&tree);

    run.child.send("INT");
    let mut stdout = String::new();
    run.reader.read_to_string(&mut stdout).expect("UTF-8");
    assert_eq!(stdout.trim_start_matches(FILLER), format!("{ABC}  a\n"));
    assert_eq!(run.child.end(), 130);
}

#[testkit::test]
fn the_second_signal_ends_the_process_although_a_line_is_delayed() {
    let tree = blocking_tree("second-signal");
    let mut run = HeldUp::start(&tree);

    // Two different signals, because equal pending signals are merged into one.
    run.child.send("INT");
    run.child.send("TERM");
    assert_eq!(run.child.end(), 143, "130 would be the end by the first");
}

const FILLER: char = '~';

/// A process that has read `a`, reads an endless fifo, and whose stdout is full.
struct HeldUp {
    child: Running,
    reader: UnixStream,
    _fifo: File,
}

impl HeldUp {
    fn start(tree: &Tree) -> Self {
        let (full, reader) = UnixStream::pair().expect("a socket can be made");
        fill(&full);
        let mut checksum = tree.checksum(["--jobs", "1", "a", "fifo"]);
        let child = Running::start(checksum.stdout(OwnedFd::from(full)));
        // The command has a copy of stdout, for whose end the reader would wait.
        drop(checksum);
        // The open waits for a reader. The only worker opens it, so it has finished `a`.
        let fifo = File::options().write(true).open(tree.path("fifo"));
        Self {
            child,
            reader,
            _fifo: fifo.expect("it can be written"),
        }
    }
}

/// Writes until the buffer is full.
fn fill(mut socket: &UnixStream) {
    let mut filler = [0; 4];
    let filler = FILLER.encode_utf8(&mut filler).as_bytes();
    socket.set_nonblocking(true).expect("it can be set");
    let full = loop {
        if let Err(full) = socket.write(filler) {
            break full;
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    socket.set_nonblocking(false).expect("it can be set");
}
