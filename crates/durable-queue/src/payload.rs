//! What a job carries, as the program sees it and as it is stored.

use std::borrow::Cow;
use std::{error, fmt};

/// A value that is stored as bytes.
pub trait Payload: Sized + Send + 'static {
    /// The bytes to be stored.
    fn encode(&self) -> Cow<'_, [u8]>;

    /// The value of what was stored.
    ///
    /// # Errors
    /// If these bytes are none of its values, as those that another version has written.
    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError>;
}

/// Bytes are what they are.
impl Payload for Vec<u8> {
    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self)
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Ok(bytes)
    }
}

impl Payload for String {
    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(self.as_bytes())
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Self::from_utf8(bytes).map_err(|error| DecodeError::new(error.utf8_error().to_string()))
    }
}

/// What is stored is no value of the queue's type. Such a job is buried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl DecodeError {
    /// Says why. It is kept with the dead letter, so it must not show what is stored.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload cannot be read: {}", self.0)
    }
}

impl error::Error for DecodeError {}
