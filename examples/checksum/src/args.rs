//! The command line.

use crate::quote::quoted;
use lexopt::Arg::{Long, Short, Value};
use std::ffi::{OsStr, OsString};
use std::thread;

/// The parsed command line.
pub(crate) enum Command {
    /// Hash these files.
    Sum(Options),
    /// Print this text and exit.
    Say(String),
}

/// The files to hash, and the output.
pub(crate) struct Options {
    /// Files read concurrently, 1 to [`MAX_JOBS`].
    pub(crate) jobs: usize,
    /// In the order of the command line; never empty.
    pub(crate) paths: Vec<OsString>,
    /// Print the hash of all lines instead of the lines, and a summary.
    pub(crate) total: bool,
}

/// More threads would idle, because the window has no more files.
pub(crate) const MAX_JOBS: usize = 1024;

/// Parses the arguments of this process.
///
/// # Errors
/// The problem, as one line without a full stop.
pub(crate) fn parse() -> Result<Command, String> {
    let mut jobs = None;
    let mut total = false;
    let mut paths = Vec::new();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(|error| error.to_string())? {
        match arg {
            Short('j') | Long("jobs") => {
                let value = parser.value().map_err(|error| error.to_string())?;
                jobs = Some(parse_jobs(&value)?);
            }
            Short('t') | Long("total") => total = true,
            Short('h') | Long("help") => return Ok(Command::Say(help())),
            Short('V') | Long("version") => return Ok(Command::Say(version())),
            Value(path) => paths.push(path),
            other => return Err(other.unexpected().to_string()),
        }
    }
    if paths.is_empty() {
        paths.push(".".into());
    }
    let jobs = jobs.unwrap_or_else(default_jobs);
    Ok(Command::Sum(Options { jobs, paths, total }))
}

fn parse_jobs(value: &OsStr) -> Result<usize, String> {
    value
        .to_str()
        .and_then(|text| text.parse().ok())
        .filter(|jobs| (1..=MAX_JOBS).contains(jobs))
        .ok_or_else(|| {
            let value = quoted(value.as_encoded_bytes());
            format!("--jobs {value}: not a number from 1 to {MAX_JOBS}")
        })
}

fn default_jobs() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_JOBS))
}

fn version() -> String {
    format!("checksum (anthill) {}\n", env!("CARGO_PKG_VERSION"))
}

fn help() -> String {
    format!(
        "\
Usage: checksum [OPTION]... [PATH]...
Print the SHA-256 of every regular file under each PATH, as sha256sum does.

PATH is a file, a directory to be walked (default: the current one), or - for
standard input. A file named - is ./-

  -j, --jobs N   read N files at a time, 1 to {MAX_JOBS} (default: {}, the cores)
  -t, --total    print only the SHA-256 of all lines, and statistics on stderr
  -h, --help     print this and exit
  -V, --version  print the version and exit
  --             treat all further arguments as PATH

Lines are printed in the order of the walk: depth first, the entries of each
directory in the byte order of their names, including hidden ones. In a walk, a link to a
file is read, a link to a directory is not followed, and fifos, sockets and
devices are skipped. sha256sum -c reads the output.

The exit status is 0 if every file was read, 1 if one was not or the output
could not be written, 2 for wrong arguments, 130 after Ctrl-C, 143 after SIGTERM.
",
        default_jobs()
    )
}
