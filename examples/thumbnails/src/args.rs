//! The command line.

use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::thread;

/// The parsed command line.
pub(crate) enum Command {
    /// Make thumbnails.
    Make(Options),
    /// Make thumbnails of generated pictures, as a demonstration.
    Demo,
    /// Print this text and exit.
    Say(String),
}

/// Which thumbnails to make.
pub(crate) struct Options {
    /// Pictures in memory at a time, 1 to [`MAX_JOBS`].
    pub(crate) jobs: usize,
    /// The longer side of a thumbnail, in pixels.
    pub(crate) size: u32,
    pub(crate) folder: PathBuf,
    pub(crate) output: PathBuf,
}

pub(crate) const MAX_JOBS: usize = 256;
const MAX_SIZE: u32 = 4096;
const DEFAULT_SIZE: u32 = 128;

/// Parses the arguments of this process.
///
/// # Errors
/// The problem, as one line without a full stop.
pub(crate) fn parse() -> Result<Command, String> {
    let text = |error: lexopt::Error| error.to_string();
    let (mut jobs, mut size) = (None, None);
    let mut folders = Vec::new();
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next().map_err(text)? {
        match arg {
            Short('j') | Long("jobs") => {
                jobs = Some(number(
                    "jobs",
                    &parser.value().map_err(text)?,
                    1..=MAX_JOBS,
                )?);
            }
            Short('s') | Long("size") => {
                size = Some(number(
                    "size",
                    &parser.value().map_err(text)?,
                    1..=MAX_SIZE,
                )?);
            }
            Short('h') | Long("help") => return Ok(Command::Say(help())),
            Value(folder) => folders.push(PathBuf::from(folder)),
            other => return Err(other.unexpected().to_string()),
        }
    }
    if folders.is_empty() && jobs.is_none() && size.is_none() {
        return Ok(Command::Demo);
    }
    let [folder, output] = <[PathBuf; 2]>::try_from(folders)
        .map_err(|_| "FOLDER and OUTPUT are required".to_owned())?;
    Ok(Command::Make(Options {
        jobs: jobs.unwrap_or_else(default_jobs),
        size: size.unwrap_or(DEFAULT_SIZE),
        folder,
        output,
    }))
}

fn number<N>(name: &str, value: &OsStr, range: RangeInclusive<N>) -> Result<N, String>
where
    N: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            format!(
                "--{name} {}: not a number from {} to {}",
                value.display(),
                range.start(),
                range.end()
            )
        })
}

/// The number of cores, because decoding and scaling are CPU-bound.
pub(crate) fn default_jobs() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MAX_JOBS))
}

fn help() -> String {
    format!(
        "\
Usage: thumbnails [OPTION]... FOLDER OUTPUT
Make a thumbnail of every PNG and JPEG below FOLDER, under the same name in
OUTPUT. Without arguments, make thumbnails of generated pictures.

  -j, --jobs N   process N pictures at a time, 1 to {MAX_JOBS} (default: {}, the cores)
  -s, --size N   the longer side, in pixels, 1 to {MAX_SIZE} (default: {DEFAULT_SIZE}); smaller
                 pictures keep their size
  -h, --help     print this and exit

After Ctrl-C, the started pictures are finished, and no other is started. A
second Ctrl-C ends the program at once. The exit status is 0 if all thumbnails
were made, 1 if one could not be made, 2 for wrong arguments, 130 after Ctrl-C,
143 after SIGTERM.
",
        default_jobs()
    )
}
