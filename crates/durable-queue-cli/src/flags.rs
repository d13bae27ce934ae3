//! The command line: what may be asked, not what it does.

use clap::{Args, Parser, Subcommand};

#[cfg(any(feature = "postgres", feature = "redis"))]
use crate::tls::Roots;

/// Looks into a durable queue, and does to it what an operator does.
///
/// The exit status is 0 if all was done, 1 if the store failed, 2 if the command makes no sense,
/// 3 if there was nothing to do it to. Times are in UTC.
#[derive(Parser)]
#[command(name = "durable-queue", version)]
pub(crate) struct Flags {
    /// Where the jobs are: sqlite:PATH or, if the program was built with it,
    /// `postgres://USER:PASSWORD@HOST/DATABASE`, whose tables are made if they are not there, or
    /// `redis://USER:PASSWORD@HOST/NUMBER`.
    ///
    /// An address that demands TLS (`sslmode=require`, `rediss://`) is an error, unless the program was built
    /// for it. Over a network, take that, or lead the connection through a tunnel.
    ///
    /// If it is not given, the variable of the environment `DURABLE_QUEUE_STORE` says it, which other
    /// users of the machine do not see.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) store: Option<String>,
    #[cfg(any(feature = "postgres", feature = "redis"))]
    #[command(flatten)]
    pub(crate) roots: Roots,
    /// The name of the queue.
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: String,
    /// One JSON object on each line of standard output.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Puts jobs in: the payloads given, or else each line of standard input.
    Push(Push),
    /// Lists jobs that are not done, by the time at which they may be claimed.
    List(Limit),
    /// Takes a job out, unless a handler has it.
    Cancel(Job),
    /// Gives a job another time, unless a handler has it.
    Reset(Reset),
    /// Lists dead letters, by their ids.
    Dead(Limit),
    /// Makes dead letters jobs again, due at once.
    #[command(alias = "re-drive")]
    Redrive(DeadLetters),
    /// Deletes dead letters for good.
    Purge(DeadLetters),
    /// Hands nothing out any more, in any process. What runs goes on.
    Pause,
    /// Ends a pause.
    Resume,
    /// Has one job of each key run at a time, in all processes, until that is ended.
    SerializeKeys(SerializeKeys),
    /// Figures of the queue.
    Stats,
    /// Figures of the queue each second, until it is stopped.
    Watch(Watch),
}

#[derive(Args)]
pub(crate) struct Push {
    /// What the jobs are about.
    pub(crate) payloads: Vec<String>,
    #[command(flatten)]
    pub(crate) time: Time,
    /// One payload only: at most one job of a key is pending.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Once they are due they are claimed before jobs that are not urgent.
    #[arg(long)]
    pub(crate) urgent: bool,
    /// What becomes of a pending job of the key: keep (if not given), earliest, latest or debounce.
    #[arg(long, value_name = "POLICY", requires = "key")]
    pub(crate) merge: Option<String>,
    /// Due at each time of this cron pattern, in UTC, or as `CRON_TZ=Europe/Berlin 0 3 * * *`.
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "key",
        conflicts_with_all = ["after", "at", "merge"]
    )]
    pub(crate) cron: Option<String>,
}

/// At once, if neither is given.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Time {
    /// Due so long from now, as 90s, 1h30m or 2d. At once, if no time is given.
    #[arg(long = "in", value_name = "TIME")]
    pub(crate) after: Option<String>,
    /// Due at this point, as 2031-05-01T09:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
}

#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Limit {
    /// At most so many.
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    pub(crate) most: u32,
    /// All of them.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Job {
    /// Its id.
    pub(crate) id: Option<u64>,
    /// Or its key.
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Args)]
pub(crate) struct Reset {
    #[command(flatten)]
    pub(crate) job: Job,
    #[command(flatten)]
    pub(crate) time: Time,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct DeadLetters {
    /// Their ids.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<u64>,
    /// All there are.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args)]
pub(crate) struct SerializeKeys {
    /// Ends it: any number of jobs of a key may run.
    #[arg(long)]
    pub(crate) off: bool,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// Once only.
    #[arg(long)]
    pub(crate) once: bool,
    /// How often.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: String,
}
