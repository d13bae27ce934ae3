//! `check-links [FOLDER]`: requests every link of the HTML and Markdown files below a folder, and lists the broken ones.
//!
//! A bounded pool of futures with thousands of requests at a time: at most `--jobs` links are being requested, each with
//! a time limit. A request that failed waits in a delay queue, and is made again later. Ctrl-C lets the open requests end.
//!
//! ```text
//! walk ── new links ──> pool of requests ──> sockets ──> pool of the server ──> files
//!                         ^          └── failed ──> delay queue
//!                         └──────── due again ──────────┘
//! ```
//!
//! The server is part of the program, and serves the folder. Links to other hosts are counted, not requested; fragments
//! are not checked. Both pools use tokio's sockets: their workers have entered its runtime, which drives the sockets on
//! one thread of its own.
//!
//! Without arguments it writes a site of 3,000 pages, checks it, and removes it.
//!
//! # Invariants
//! 1. Each link is requested by one task at a time, and settled once: good, broken, or given up after a signal.
//! 2. The delay queue is closed when the walk is over and all its links are settled, or by the first signal.
//! 3. After the first signal no request begins, and the open ones end.

mod args;
mod check;
mod client;
mod demo;
mod links;
mod server;
// The two signals have the same effect in all examples.
#[path = "../../checksum/src/signals.rs"]
mod signals;

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use args::{Command, Options};
use check::Check;
use links::Found;

fn main() -> ExitCode {
    let command = match args::parse() {
        Ok(command) => command,
        Err(wrong) => {
            eprintln!("check-links: {wrong}\nTry 'check-links --help' for more information.");
            return ExitCode::from(2);
        }
    };
    let ended = match command {
        Command::Check(options) => check_all(&options).map(|checked| checked.status()),
        Command::Demo => demo::run(check_all),
        Command::Say(text) => {
            let said = io::stdout().write_all(text.as_bytes());
            said.map(|()| ExitCode::SUCCESS).map_err(Box::from)
        }
    };
    ended.unwrap_or_else(|error| {
        eprintln!("check-links: {error}");
        ExitCode::FAILURE
    })
}

/// Result of a whole check.
struct Checked {
    broken: usize,
    signal: Option<u8>,
}

impl Checked {
    fn status(&self) -> ExitCode {
        match (self.signal, self.broken) {
            (Some(signal), _) => ExitCode::from(128 + signal),
            (None, 0) => ExitCode::SUCCESS,
            (None, _) => ExitCode::FAILURE,
        }
    }
}

fn check_all(options: &Options) -> Result<Checked, Box<dyn Error>> {
    raise_descriptor_limit();
    // Drives the sockets. Its `spawn` is not used.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_io()
        .build()?;
    let server = server::start(options, runtime.handle())?;
    let check = Arc::new(Check::new(options, server.address, runtime.handle())?);
    signals::watch({
        let check = Arc::clone(&check);
        move |signal| check.stop(signal)
    })?;
    let (found, walked) = check.run(options);
    server.stop()?;
    walked?;

    let summary = check.summary();
    let broken = print(&found, &summary.broken)?;
    eprintln!(
        "check-links: {} files, {} links: {} good, {} broken, {} not checked; {} to other hosts; {} retries",
        found.files,
        found.sources.len(),
        summary.good,
        summary.broken.len(),
        found.sources.len() - summary.good - summary.broken.len(),
        found.elsewhere,
        summary.retries,
    );
    let signal = check.signal();
    Ok(Checked { broken, signal })
}

/// Prints a line for each broken link of each file. Returns their number.
fn print(found: &Found, broken: &BTreeMap<String, String>) -> io::Result<usize> {
    let mut lines = Vec::new();
    for (link, why) in broken {
        for source in &found.sources[link] {
            lines.push(format!("{}: {link}: {why}\n", source.display()));
        }
    }
    match io::stdout().write_all(lines.concat().as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => signals::end_by_sigpipe(),
        written => written.map(|()| lines.len()),
    }
}

/// A request has two sockets, and the default limit is often 1,024.
#[cfg(unix)]
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    // If it is refused, requests above the limit fail, and are retried.
    _ = setrlimit(Resource::Nofile, raised);
}

#[cfg(not(unix))]
fn raise_descriptor_limit() {}
