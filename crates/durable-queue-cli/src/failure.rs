//! Errors of commands, with their exit status.

use std::error::Error;
use std::process::ExitCode;
use std::{fmt, io};

use durable_queue::StoreError;

pub(crate) enum Failure {
    /// The command is invalid.
    Usage(String),
    /// The store failed.
    Store(StoreError),
    /// There is no such job.
    Nothing(String),
    /// Standard input or output failed.
    Io(io::Error),
}

impl Failure {
    /// Prints the error to standard error, unless the reader of standard output has closed it.
    pub(crate) fn show(&self) {
        if !self.is_end_of_pipe() {
            eprintln!("durable-queue: {self}");
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Io(_) if self.is_end_of_pipe() => ExitCode::SUCCESS,
            Self::Store(_) | Self::Io(_) => ExitCode::from(1),
            Self::Usage(_) => ExitCode::from(2),
            Self::Nothing(_) => ExitCode::from(3),
        }
    }

    fn is_end_of_pipe(&self) -> bool {
        matches!(self, Self::Io(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Nothing(text) => f.write_str(text),
            Self::Io(error) => error.fmt(f),
            Self::Store(error) => {
                error.fmt(f)?;
                let mut source = error.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
