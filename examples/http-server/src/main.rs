//! `http-server [OPTION]...`: an HTTP/1.1 server on hyper that answers 503 at once when it is full.
//!
//! Connections and requests have a pool each. A request is spawned with `try_spawn`: a full pool refuses it, and the
//! client gets 503 without having waited. Idle connections hold no room for requests. If a client goes away, its
//! connection is dropped, and with it the handle that cancels the request.
//!
//! ```text
//! sockets ──> pool of connections (hyper) ── try_spawn ──> pool of requests
//!                        ^───────────── 503 ──────┘
//! ```
//!
//! A request is answered with its own body after `--work` milliseconds; `GET /stats` answers with the number of live
//! requests, also in a full server. Without arguments it loads itself through 200 connections.
//!
//! # Invariants
//! 1. At most `--capacity` requests are live.
//! 2. After the first signal no connection is accepted, and open requests end.

mod load;
mod server;
// The two signals have the same effect in all examples.
#[expect(dead_code, reason = "SIGPIPE ends filters")]
#[path = "../../checksum/src/signals.rs"]
mod signals;

use std::error::Error;
use std::process::ExitCode;
use std::sync::mpsc::channel;
use std::time::Duration;

use async_pool::{AsyncPool, Capacity};
use lexopt::ValueExt as _;
use server::Server;
use tokio::runtime::Handle;

const USAGE: &str = "usage: http-server [--port N] [--capacity REQUESTS] [--work MILLISECONDS]";

struct Options {
    /// A free one if it is zero.
    port: u16,
    capacity: usize,
    /// Time that a request takes.
    work: Duration,
}

fn main() -> ExitCode {
    let is_demo = std::env::args().len() == 1;
    let options = match parse() {
        Ok(options) => options,
        Err(wrong) => {
            eprintln!("http-server: {wrong}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let run = if is_demo { load::run } else { serve };
    run(&options).unwrap_or_else(|error| {
        eprintln!("http-server: {error}");
        ExitCode::FAILURE
    })
}

fn parse() -> Result<Options, lexopt::Error> {
    let mut options = Options {
        port: 0,
        capacity: 20,
        work: Duration::from_millis(5),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long("port") => options.port = parser.value()?.parse()?,
            lexopt::Arg::Long("capacity") => options.capacity = parser.value()?.parse()?,
            lexopt::Arg::Long("work") => {
                options.work = Duration::from_millis(parser.value()?.parse()?);
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(options)
}

/// Serves until a signal comes.
fn serve(options: &Options) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = runtime()?;
    let (sender, signals) = channel();
    signals::watch(move |signal| _ = sender.send(signal))?;
    let server = Server::start(options, runtime.handle())?;
    println!("http://{}", server.address);
    let signal = signals.recv()?;
    eprintln!("http-server: stopping; open requests are finished");
    server.stop()?;
    Ok(ExitCode::from(u8::try_from(128 + signal).unwrap_or(1)))
}

/// One thread, which drives the sockets.
fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_io().build()
}

/// A pool whose futures use tokio's sockets.
fn pool(
    name: &str,
    capacity: impl Into<Capacity>,
    runtime: &Handle,
) -> Result<AsyncPool, async_pool::BuildError> {
    let runtime = runtime.clone();
    AsyncPool::builder()
        .name(name)
        .capacity(capacity)
        .around_worker(move |run| {
            let _entered = runtime.enter();
            run();
        })
        .build()
}
