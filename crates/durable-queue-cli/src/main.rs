//! `durable-queue`: looks into a queue from a shell, and does to it what an operator does.
//!
//! Not for: working jobs off, which is what a program with the library is for; nor, without the feature `tls`,
//! for servers that want TLS.
//!
//! # What always holds
//! 1. The store's address is shown by no message: it may hold a password.
//! 2. The exit status is 0 if all was done, 1 if the store failed, 2 if the command makes no
//!    sense, 3 if there was nothing to do it to.
//! 3. With `--json`, standard output is one JSON object on each line and nothing else.
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
            // A push may be the first there is; anything else to a file that is not there is a slip.
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
