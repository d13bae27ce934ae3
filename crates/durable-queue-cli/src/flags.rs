//! Command line arguments.

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Parser, Subcommand, value_parser};

#[cfg(any(feature = "postgres", feature = "redis"))]
use crate::tls::Roots;

/// Inspects and operates durable queues.
///
/// Exit status: 0 for success, 1 if the store failed, 2 for an invalid command, 3 if there was no such job.
/// Times are in UTC.
#[derive(Parser)]
#[command(name = "durable-queue", version)]
pub(crate) struct Flags {
    /// Address of the store: sqlite:PATH or, if the program was built with these stores,
    /// `postgres://USER:PASSWORD@HOST/DATABASE` (missing tables are created) or
    /// `redis://USER:PASSWORD@HOST/NUMBER`. One server: no pooler in transaction mode, no Redis Cluster, no sentinels.
    ///
    /// An address that requires TLS (`sslmode=require`, `rediss://`) is an error unless the program was built
    /// with TLS. Over a network, use TLS or a tunnel.
    ///
    /// Default: the environment variable `DURABLE_QUEUE_STORE`, which other users of the machine cannot read.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) store: Option<String>,
    #[cfg(any(feature = "postgres", feature = "redis"))]
    #[command(flatten)]
    pub(crate) roots: Roots,
    /// Name of the queue.
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: String,
    /// Print one JSON object per line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Pushes jobs, with the given payloads or one per line of standard input.
    Push(Push),
    /// Lists unfinished jobs, ordered by the time from which they can be claimed.
    List(Listing),
    /// Removes a job. If a handler has it, asks the handler to stop, and exits with status 3.
    Cancel(Job),
    /// Changes a job's due time, unless a handler has it.
    Reset(Reset),
    /// Prints whether a job is open, done and kept, or a dead letter with its error.
    #[command(alias = "fate")]
    Show(Show),
    /// Lists dead letters, ordered by id.
    Dead(Listing),
    /// Makes dead letters jobs again, due at once.
    #[command(alias = "re-drive")]
    Redrive(DeadLetters),
    /// Deletes dead letters permanently.
    Purge(DeadLetters),
    /// Pauses the queue for all processes. Running jobs continue.
    Pause,
    /// Resumes a paused queue.
    Resume,
    /// Lists the limits for all processes, each as the arguments of `limit` that set it.
    Limits,
    /// Sets a limit for all processes, or removes it. Running jobs continue, and count.
    #[command(subcommand)]
    Limit(Limit),
    /// Prints the figures of the queue.
    Stats,
    /// Prints the figures of the queue every second until interrupted.
    Watch(Watch),
}

#[derive(Args)]
pub(crate) struct Push {
    /// Payloads of the jobs.
    pub(crate) payloads: Vec<String>,
    #[command(flatten)]
    pub(crate) time: Time,
    /// Key of the job, with a single payload. A key has at most one open job.
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Group of the jobs, such as a tenant, to which `limit ordered`, `per-group` and `fair` apply.
    #[arg(long)]
    pub(crate) group: Option<String>,
    /// Claim these jobs before others once they are due.
    #[arg(long)]
    pub(crate) urgent: bool,
    /// Policy if the key has an open job: keep (default), earliest, latest or debounce; or, if it has a started job as
    /// well, keep-until-done, or also a done one, keep-done.
    #[arg(long, value_name = "POLICY", requires = "key")]
    pub(crate) merge: Option<String>,
    /// Repeat at each time of this cron pattern, in UTC or with a time zone:
    /// `CRON_TZ=Europe/Berlin 0 3 * * *`.
    #[arg(
        long,
        value_name = "PATTERN",
        requires = "key",
        conflicts_with_all = ["after", "at", "merge"]
    )]
    pub(crate) cron: Option<String>,
}

/// Due time. At once, if neither is given.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Time {
    /// Due after this time, such as 90s, 1h30m or 2d. Default: at once.
    #[arg(long = "in", value_name = "TIME")]
    pub(crate) after: Option<String>,
    /// Due at this time, such as 2031-05-01T09:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub(crate) at: Option<String>,
}

#[derive(Args)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) lines: Lines,
    /// Also print the failed attempts of each job: the last ten, the oldest first.
    #[arg(long)]
    pub(crate) failures: bool,
}

#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct Lines {
    /// Maximum number of lines.
    #[arg(long, value_name = "LINES", default_value_t = 100)]
    pub(crate) most: u32,
    /// List all.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Job {
    /// Id of the job.
    pub(crate) id: Option<u64>,
    /// Key of the job.
    #[arg(long)]
    pub(crate) key: Option<String>,
}

#[derive(Args)]
pub(crate) struct Show {
    /// Id of the job.
    pub(crate) id: u64,
    /// Only write the result of the done job, byte by byte.
    #[arg(long)]
    pub(crate) result: bool,
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
    /// Ids of the dead letters.
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<u64>,
    /// All dead letters.
    #[arg(long)]
    pub(crate) all: bool,
}

#[derive(Subcommand)]
pub(crate) enum Limit {
    /// One job of each group is held at a time, in order. Replaces another rule of the groups.
    Ordered(Rule),
    /// At most MOST jobs of each group are held at a time. Replaces another rule of the groups.
    PerGroup(PerGroup),
    /// The groups take turns. Replaces another rule of the groups.
    Fair(Rule),
    /// At most MOST jobs of a kind are held at a time. Zero stops the kind.
    PerKind {
        /// Name of the kind.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        kind: String,
        #[command(flatten)]
        most: Most,
    },
    /// On average, at most JOBS jobs of a kind start per TIME, and at most twice as many within any TIME.
    RateOfKind {
        /// Name of the kind.
        #[arg(value_parser = NonEmptyStringValueParser::new())]
        kind: String,
        /// Number of jobs.
        #[arg(requires = "per", required_unless_present = "off", value_parser = value_parser!(u32).range(1..))]
        jobs: Option<u32>,
        /// Period of the rate, such as 1s or 1m30s.
        #[arg(long, value_name = "TIME", requires = "jobs")]
        per: Option<String>,
        /// Remove the rate.
        #[arg(long, conflicts_with_all = ["jobs", "per"])]
        off: bool,
    },
}

#[derive(Args)]
pub(crate) struct Rule {
    /// Remove the rule of the groups, whichever it is.
    #[arg(long)]
    pub(crate) off: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct PerGroup {
    /// Maximum number of held jobs.
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub(crate) most: Option<u32>,
    /// Remove the rule of the groups, whichever it is.
    #[arg(long)]
    pub(crate) off: bool,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Most {
    /// Maximum number of held jobs.
    pub(crate) most: Option<u32>,
    /// Remove the limit.
    #[arg(long)]
    pub(crate) off: bool,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// Print the figures once.
    #[arg(long)]
    pub(crate) once: bool,
    /// Interval between two prints.
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(crate) every: String,
}
