//! Why a command was not carried out, for a person and for a script.

use std::error::Error;
use std::process::ExitCode;
use std::{fmt, io};

use durable_queue::StoreError;

pub(crate) enum Failure {
    /// The command makes no sense.
    Usage(String),
    /// The store did not do it.
    Store(StoreError),
    /// There is nothing to do it to.
    Nothing(String),
    /// Standard input or output.
    Io(io::Error),
}

impl Failure {
    /// On standard error, unless the reader of standard output has gone, which is its right.
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
