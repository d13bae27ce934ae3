//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::Arg::{Long, Short, Value};
use lexopt::ValueExt as _;

pub(crate) enum Command {
    Check(Options),
    /// Check a site that the program writes itself.
    Demo,
    /// Print this text and do nothing else.
    Say(String),
}

pub(crate) struct Options {
    pub(crate) folder: PathBuf,
    /// Names of folders that are not entered.
    pub(crate) skip: Vec<String>,
    /// Maximum number of concurrent requests.
    pub(crate) jobs: usize,
    /// Time limit of one request.
    pub(crate) timeout: Duration,
    /// The server refuses the first request of every Nth link.
    pub(crate) refuse_every: Option<u64>,
    /// The server leaves the first request of every Nth link without an answer.
    pub(crate) ignore_every: Option<u64>,
}

impl Options {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            skip: Vec::new(),
            jobs: 2_000,
            timeout: Duration::from_secs(5),
            refuse_every: None,
            ignore_every: None,
        }
    }
}

const HELP: &str = "\
Usage: check-links [OPTION]... FOLDER
Serve FOLDER over HTTP and request every link of its HTML and Markdown files.
Print a line for each broken link. Without arguments: check a demonstration site.

  -j, --jobs N         make at most N requests at a time (default: 2000)
  -t, --timeout MS     time limit of a request in milliseconds (default: 5000)
      --skip NAME      do not enter folders of this name; may be repeated
      --refuse-every N the server refuses the first request of every Nth link
      --ignore-every N the server does not answer the first request of every Nth link
  -h, --help           print this and exit

A refused or unanswered request is repeated up to three times, at growing
intervals. After Ctrl-C the open requests end, and no other begins; a second
Ctrl-C ends the program at once. The exit status is 0 if all links are good, 1 if
one is broken, 2 for wrong arguments, 130 after Ctrl-C, 143 after SIGTERM.
";

/// Reads the arguments of this process.
///
/// # Errors
/// A description of the wrong argument, as one line.
pub(crate) fn parse() -> Result<Command, String> {
    parse_all().map_err(|error| error.to_string())
}

fn parse_all() -> Result<Command, lexopt::Error> {
    let mut options = Options::new(PathBuf::new());
    let mut folder = None;
    let mut parser = lexopt::Parser::from_env();
    let mut has_arguments = false;
    while let Some(argument) = parser.next()? {
        has_arguments = true;
        match argument {
            Short('j') | Long("jobs") => options.jobs = positive(&mut parser)?,
            Short('t') | Long("timeout") => {
                options.timeout = Duration::from_millis(positive(&mut parser)?);
            }
            Long("skip") => options.skip.push(parser.value()?.string()?),
            Long("refuse-every") => options.refuse_every = Some(positive(&mut parser)?),
            Long("ignore-every") => options.ignore_every = Some(positive(&mut parser)?),
            Short('h') | Long("help") => return Ok(Command::Say(HELP.to_owned())),
            Value(value) if folder.is_none() => folder = Some(PathBuf::from(value)),
            other => return Err(other.unexpected()),
        }
    }
    match folder {
        Some(folder) => {
            options.folder = folder;
            Ok(Command::Check(options))
        }
        None if has_arguments => Err("a folder is needed".into()),
        None => Ok(Command::Demo),
    }
}

fn positive<N: TryFrom<u64>>(parser: &mut lexopt::Parser) -> Result<N, lexopt::Error> {
    let number: u64 = parser.value()?.parse()?;
    let fits = N::try_from(number).ok().filter(|_| number > 0);
    fits.ok_or_else(|| format!("{number}: not a positive number of that size").into())
}
