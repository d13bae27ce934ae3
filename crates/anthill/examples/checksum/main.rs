//! `checksum [PATH..]`: the SHA-256 of every file, in the format of `sha256sum`.
//!
//! What a pool with blocking submit is for: any number of files, a few threads, flat memory.
//!
//! ```text
//! walker ── reserve ──> window ── next ──> printer (the main thread)
//!    └──── submit ────> pool ──── fill ──────┘
//! ```
//!
//! The walker finds files in order and takes a place in the window for each; it submits one
//! task per file and waits while the pool is full. A task reads its file and fills its place.
//! The printer prints the oldest places as they fill, so the order is that of the walk.
//!
//! Not a replacement for `sha256sum`: it has no `-c`, and no other formats.
//!
//! # Invariants
//! 1. At most [`WINDOW`] files are found and not yet printed, `jobs` of them being read.
//! 2. Each file found gives one line on stdout or one message on stderr, unless the work is
//!    stopped before.

mod args;
mod hash;
mod line;
mod order;
mod print;
mod progress;
mod quote;
mod report;
mod signals;
mod walk;
mod window;

use anthill::{Pool, SubmitError};
use args::{Command, Options};
use print::{Printer, complain};
use progress::Progress;
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::thread;
use walk::{Source, walk};
use window::{Turn, Window};

/// Places for files that are found and not yet printed.
const WINDOW: usize = 1024;
const _: () = assert!(args::MAX_JOBS <= WINDOW);

/// Tasks that wait for a worker. Small files end quickly: this many keep the workers fed
/// while the walker reads the next directory.
const QUEUE_DEPTH: usize = 256;

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

/// Does the whole work. `Ok(false)` says that a file could not be read.
fn sum(options: Options) -> Result<bool, Box<dyn Error>> {
    let pool = Pool::builder()
        .capacity(options.jobs)
        .queue_depth(QUEUE_DEPTH)
        .name("checksum")
        .build()?;
    let window = Arc::new(Window::new(WINDOW));
    signals::watch({
        let (pool, window) = (pool.clone(), Arc::clone(&window));
        move |signal| {
            window.stop(signal);
            pool.release_now();
        }
    })?;
    let progress = Progress::new();
    let walker = thread::Builder::new().name("walker".into()).spawn({
        let (pool, window, progress) = (pool.clone(), Arc::clone(&window), progress.clone());
        move || {
            let _end = Closing(&window);
            feed(&pool, &window, options.paths, &progress);
        }
    })?;

    let mut printer = Printer::new(progress.clone());
    loop {
        match window.next() {
            Turn::Print(reports) => {
                if let Err(error) = printer.print(reports) {
                    progress.clear();
                    end_unwritten(&error);
                }
            }
            Turn::Finished => break,
            Turn::Stopped(signal) => {
                progress.clear();
                // A worker may sit in a read that never returns, so no worker is waited for.
                process::exit(128 + signal);
            }
        }
    }
    progress.clear();
    if walker.join().is_err() {
        return Err("the walk broke off".into());
    }
    pool.release();
    pool.wait_released()?;
    Ok(!printer.failed())
}

/// Submits a task for each file under `paths`, until the end or until the work is stopped.
fn feed(pool: &Pool, window: &Arc<Window>, paths: Vec<OsString>, progress: &Progress) {
    for found in walk(paths) {
        let Some(ticket) = window.reserve(found.name) else {
            return;
        };
        match found.source {
            Source::File => {
                let progress = progress.clone();
                let task = move || {
                    let result = hash::file(ticket.name(), &progress);
                    ticket.fill(result);
                };
                match pool.submit(task) {
                    Ok(()) => {}
                    Err(SubmitError::Released(_)) => return,
                    // No thread could be started. The task came back, and here is a thread.
                    Err(refused) => refused.into_task()(),
                }
            }
            // Read here, in its turn: two readers would share the bytes.
            Source::Stdin => ticket.fill(hash::stream(io::stdin().lock(), progress)),
            Source::Nowhere(error) => ticket.fill(Err(error)),
        }
    }
}

/// Closes the window however the walk ends, so that the printer never waits for a dead walker.
struct Closing<'a>(&'a Window);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Ends the process because stdout took no more.
fn end_unwritten(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        signals::end_by_sigpipe();
    }
    complain(&format!("checksum: write error: {}\n", line::plain(error)));
    process::exit(1)
}
