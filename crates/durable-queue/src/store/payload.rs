//! Payloads: conversion between a program's values and stored bytes.

use std::borrow::Cow;
use std::{error, fmt};

use sync_shim::foreign::{discard, guarded};

/// A value that is stored as bytes.
///
/// Both functions may panic. A panic of [`encode`](Self::encode) reaches the caller of the push, and no job
/// is stored. A panic of [`decode`](Self::decode) counts as a [`DecodeError`].
pub trait Payload: Sized + Send + 'static {
    /// Returns the bytes to store.
    ///
    /// # Errors
    /// If the value cannot be encoded. The job is not pushed.
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError>;

    /// Returns the value of stored bytes.
    ///
    /// # Errors
    /// If the bytes cannot be decoded, for example because another version has written them. The attempt has
    /// then failed: the job is retried after the queue's back-off, perhaps by a process of a version that can
    /// decode it, and is buried with the error after its last attempt. The other jobs of a batch are handed
    /// out.
    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError>;
}

/// Stored as they are.
impl Payload for Vec<u8> {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        Ok(Cow::Borrowed(self))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Ok(bytes)
    }
}

impl Payload for String {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        Ok(Cow::Borrowed(self.as_bytes()))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Self::from_utf8(bytes).map_err(|error| DecodeError::new(error.utf8_error().to_string()))
    }
}

/// Decodes stored bytes. A panic of the decoder counts as an error.
pub(crate) fn decoded<T: Payload>(bytes: Vec<u8>) -> Result<T, DecodeError> {
    // USER CODE: `Payload::decode`. No lock is held.
    guarded(|| T::decode(bytes)).unwrap_or_else(|payload| {
        discard(payload); // The panic hook has shown it.
        Err(DecodeError::new("its decoder panicked"))
    })
}

/// A value that serde can serialize, stored as JSON.
///
/// ```
/// use durable_queue::{Json, Payload};
///
/// let stored = Json(("order".to_owned(), 7)).encode()?.into_owned();
/// assert_eq!(stored, br#"["order",7]"#);
/// let Json((word, number)) = Json::<(String, u32)>::decode(stored)?;
/// assert_eq!((&*word, number), ("order", 7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Json<T>(pub T);

#[cfg(feature = "json")]
impl<T> Payload for Json<T>
where
    T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static,
{
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        let json = serde_json::to_vec(&self.0);
        json.map(Cow::Owned)
            .map_err(|error| EncodeError::new(place(&error)))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let value = serde_json::from_slice(&bytes);
        value
            .map(Self)
            .map_err(|error| DecodeError::new(place(&error)))
    }
}

/// Without serde's message, which may quote the stored value.
#[cfg(feature = "json")]
fn place(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!(
        "no such JSON ({:?} error, line {line}, column {column})",
        error.classify()
    )
}

/// Error of [`Payload::encode`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(String);

impl EncodeError {
    /// Creates an error with a reason, which must not contain the value.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload cannot be encoded: {}", self.0)
    }
}

impl error::Error for EncodeError {}

/// Error of [`Payload::decode`]: the stored bytes are not a value of the queue's type.
///
/// The attempt has failed: the job is retried after the back-off, so that in a rolling deployment a process
/// of the newer version can take it. After its last attempt it is buried with this error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError(String);

impl DecodeError {
    /// Creates an error with a reason. The dead letter contains it, so it must not contain the stored value.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload cannot be decoded: {}", self.0)
    }
}

impl error::Error for DecodeError {}
