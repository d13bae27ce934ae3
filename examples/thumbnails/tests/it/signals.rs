//! Ctrl-C with one picture done, one started, and one not started.

use crate::support::{Album, picture};
use image::ImageFormat::Png;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use testkit::Running;

#[testkit::test]
fn a_signal_finishes_started_pictures_and_starts_no_other() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let album = Album::new(&format!("signal-{signal}"));
        let begun = picture(64, 32, 2, Png);
        album.file("in/a.png", &picture(64, 32, 1, Png));
        let fifo = album.path("in/b.png");
        let made = Command::new("mkfifo").arg(&fifo).status();
        assert!(made.expect("mkfifo runs").success());
        album.file("in/c.png", &picture(64, 32, 3, Png));

        {
            let mut command = album.thumbnails(&["--jobs", "1", "--size", "16"]);
            let mut child = Running::start(command.stdout(Stdio::piped()));
            // The open waits for a reader. The only job is the main thread, which has finished `a`
            // and started `b`.
            let mut fifo = File::options()
                .write(true)
                .open(&fifo)
                .expect("it can be written");

            child.send(signal);
            let mut stderr = BufReader::new(child.0.stderr.take().expect("it is a pipe"));
            let mut line = String::new();
            stderr.read_line(&mut line).expect("UTF-8");
            assert_eq!(line, "thumbnails: stopping after the started pictures\n");

            // The process knows of the signal, and `b` can be read.
            fifo.write_all(&begun).expect("it is read");
            drop(fifo);
            line.clear();
            stderr.read_to_string(&mut line).expect("UTF-8");
            assert_eq!(line, "thumbnails: 2 made, 0 failed\n");
            let mut lines = String::new();
            let stdout = child.0.stdout.as_mut().expect("it is a pipe");
            stdout.read_to_string(&mut lines).expect("UTF-8");
            assert_eq!(lines, "a.png: 64x32 -> 16x8\nb.png: 64x32 -> 16x8\n");
            assert_eq!(child.end(), code);
        }

        let made: Vec<String> = album.made().into_keys().collect();
        assert_eq!(made, ["a.png", "b.png"], "and no part of a file");
    }
}

#[testkit::test]
fn a_second_signal_ends_the_process_at_once() {
    let album = Album::new("second-signal");
    let fifo = album.path("in/a.png");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo runs").success());
    {
        let mut child = Running::start(&mut album.thumbnails(&["--jobs", "1"]));
        let _fifo = File::options()
            .write(true)
            .open(&fifo)
            .expect("it can be written");
        // Two different signals, because equal pending signals are merged into one.
        child.send("INT");
        child.send("TERM");
        assert_eq!(child.end(), 143, "130 would be the end by the first");
    }

    assert_eq!(
        fs::read_dir(album.path("out"))
            .expect("it was made")
            .count(),
        0
    );
}
