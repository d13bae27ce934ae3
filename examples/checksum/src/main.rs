//! `checksum [PATH..]`: the SHA-256 of every file, in the format of `sha256sum`.
//!
//! Shows a mapping: any number of files, a few threads, results in order, constant memory.
//!
//! ```text
//! walk ── files ──> pool ── reports ──> printer
//! ```
//!
//! The main thread fetches one report after the other from the mapping and prints it. The mapping
//! advances the walk on demand, has the pool read the files, and returns the reports in the order of
//! the walk.
//!
//! Not a replacement for `sha256sum`: it has neither `-c` nor other formats.
//!
//! # Invariants
//! 1. At most [`WINDOW`] files are found and not yet printed, and `jobs` of them are being read.
//! 2. Each file yields one line, or one message on stderr, unless the program is stopped before. The
//!    lines are printed to stdout, or hashed into one SHA-256 with `--total`.

mod args;
mod hash;
mod line;
mod print;
mod progress;
mod quote;
mod report;
mod signals;
mod summary;
mod walk;

use anthill::Pool;
use anthill::prelude::*;
use args::{Command, Options};
use print::{Printer, complain};
use progress::Progress;
use report::Report;
use std::cell::Cell;
use std::error::Error;
use std::io::{self, ErrorKind, Write};
use std::process::{self, ExitCode};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use summary::Summary;
use walk::{Found, Source, walk};

/// Files found and not yet printed. This many small files can be read behind a huge one before the
/// workers have to wait for its line.
const WINDOW: usize = 1024;
const _: () = assert!(args::MAX_JOBS <= WINDOW);

fn main() -> ExitCode {
    match args::parse() {
        Ok(Command::Sum(options)) => match sum(options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                complain(&format!("checksum: {error}\n"));
                ExitCode::FAILURE
            }
        },
        Ok(Command::Say(text)) => match io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => end_unwritten(&error),
        },
        Err(wrong) => {
            complain(&format!(
                "checksum: {wrong}\nTry 'checksum --help' for more information.\n"
            ));
            ExitCode::from(2)
        }
    }
}

/// Hashes all files. `Ok(false)` means that a file could not be read.
fn sum(options: Options) -> Result<bool, Box<dyn Error>> {
    let begin = Instant::now();
    let pool = Pool::builder()
        .capacity(options.jobs)
        .name("checksum")
        .build()?;
    let progress = Progress::new();
    let reading = progress.clone();
    let found = Rc::new(Cell::new(0));
    let count = Rc::clone(&found);
    let files = walk(options.paths).inspect(move |_| count.set(count.get() + 1));
    let mut reports = pool
        .map(files, move |found| read(found, &reading))
        .window(WINDOW);
    let stopped_by = Arc::new(OnceLock::new());
    signals::watch({
        let (canceller, stopped_by) = (reports.canceller(), Arc::clone(&stopped_by));
        move |signal| {
            stopped_by.get_or_init(|| signal);
            canceller.cancel();
        }
    })?;

    let mut printer = Printer::new(progress.clone(), options.total);
    let (mut taken, mut peak_waiting) = (0, 0);
    while let Some(report) = reports.next() {
        peak_waiting = peak_waiting.max(found.get() - taken);
        taken += 1;
        let written = match report {
            Ok(report) => printer.print(report),
            // The task panicked, or no thread could be started.
            Err(error) => printer.fail(&format!("checksum: {error}\n")),
        };
        // Before each wait, the lines are flushed to the reader of the output.
        let flushed = written.and_then(|()| match reports.ready() {
            0 => printer.flush(),
            _ => Ok(()),
        });
        if let Err(error) = flushed {
            progress.clear();
            end_unwritten(&error);
        }
    }
    progress.clear();
    if let Some(signal) = stopped_by.get() {
        // Does not wait for workers, because a read may never return.
        process::exit(128 + signal);
    }
    pool.release();
    pool.wait_released()?;
    if let Err(error) = printer.finish() {
        end_unwritten(&error);
    }
    if options.total {
        let summary = Summary {
            files: printer.files(),
            bytes: printer.bytes(),
            time: begin.elapsed(),
            peak_threads: pool.stats().peak_live,
            most_threads: options.jobs,
            peak_waiting,
            most_waiting: WINDOW,
        };
        complain(&format!("checksum: {summary}\n"));
    }
    Ok(!printer.failed())
}

/// Reads a file, on a worker.
fn read(found: Found, progress: &Progress) -> Report {
    let result = match found.source {
        Source::File => hash::file(&found.name, progress),
        Source::Stdin(turn) => {
            turn.wait();
            hash::stream(io::stdin().lock(), progress)
        }
        Source::Nowhere(error) => Err(error),
    };
    let name = found.name;
    Report { name, result }
}

/// Ends the process because stdout cannot be written.
fn end_unwritten(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        signals::end_by_sigpipe();
    }
    complain(&format!("checksum: write error: {}\n", line::plain(error)));
    process::exit(1)
}
