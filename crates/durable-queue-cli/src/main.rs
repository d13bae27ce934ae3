//! `durable-queue`: inspects and operates durable queues from a shell.
//!
//! Not for running jobs, which requires a program with the library. Without the feature `tls`, not for
//! servers that require TLS.
//!
//! # Invariants
//! 1. No message contains the store's address, which may contain a password.
//! 2. The exit status is 0 for success, 1 if the store failed, 2 for an invalid command, 3 if there was no
//!    such job.
//! 3. With `--json`, standard output is one JSON object per line and nothing else.
#![forbid(unsafe_code)]

mod address;
mod commands;
mod failure;
mod flags;
mod output;
mod times;
#[cfg(any(feature = "postgres", feature = "redis"))]
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use std::process::ExitCode;

use clap::Parser;

use self::address::Address;
use self::failure::Failure;
use self::flags::{Command, Flags};
use self::output::Output;

fn main() -> ExitCode {
    match run(Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.show();
            failure.exit_code()
        }
    }
}

fn run(flags: Flags) -> Result<(), Failure> {
    let Flags {
        store,
        queue,
        json,
        command,
        #[cfg(any(feature = "postgres", feature = "redis"))]
        roots,
    } = flags;
    let output = Output { json };
    match Address::find(store)? {
        Address::Sqlite(path) => {
            // Only a push may create the file. For other commands a missing file is most likely a typing
            // error.
            let makes_it = matches!(command, Command::Push(_));
            let store = address::open_sqlite(&path, makes_it)?;
            commands::run(&queue, store, &command, output)
        }
        #[cfg(feature = "postgres")]
        Address::Postgres(address) => {
            let store = roots.open_postgres(&address)?;
            commands::run(&queue, store, &command, output)
        }
        #[cfg(feature = "redis")]
        Address::Redis(address) => {
            let store = roots.open_redis(&address)?;
            commands::run(&queue, store, &command, output)
        }
    }
}
