//! What a job carries, as the program sees it and as it is stored.

use std::borrow::Cow;
use std::{error, fmt};

use sync_shim::foreign::{discard, guarded};

/// A value that is stored as bytes.
///
/// Both calls may panic. A panic of [`encode`](Self::encode) reaches the caller of the push, and nothing is stored.
/// A panic of [`decode`](Self::decode) counts as a [`DecodeError`].
pub trait Payload: Sized + Send + 'static {
    /// The bytes to be stored.
    ///
    /// # Errors
    /// If this value has none. It is not put in then.
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError>;

    /// The value of what was stored.
    ///
    /// # Errors
    /// If these bytes are none of its values, as those that another version has written. The attempt has failed
    /// then: the job comes again after the queue's back-off, perhaps to a process of the version that can decode it,
    /// and is buried with the error if no attempt is left. The other jobs of a batch are handed out.
    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError>;
}

/// Bytes are what they are.
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

/// Decodes what was stored. A panic of the decoder is an error, too.
pub(crate) fn decoded<T: Payload>(bytes: Vec<u8>) -> Result<T, DecodeError> {
    // USER CODE: `Payload::decode`. No lock is held.
    guarded(|| T::decode(bytes)).unwrap_or_else(|payload| {
        discard(payload); // The panic hook has shown it.
        Err(DecodeError::new("its decoder panicked"))
    })
}

/// Any value that serde knows, stored as JSON.
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

/// serde's own words may quote what is stored.
#[cfg(feature = "json")]
fn place(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    format!(
        "no such JSON ({:?} error, line {line}, column {column})",
        error.classify()
    )
}

/// A value has no bytes to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError(String);

impl EncodeError {
    /// Says why. It must not show the value.
    pub fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the payload cannot be written: {}", self.0)
    }
}

impl error::Error for EncodeError {}

/// What is stored is no value of the queue's type.
///
/// A job with such a payload has failed this attempt: it comes again after the back-off, so that in a rolling
/// deployment a process of the newer version gets it, and is buried with this error after its last attempt.
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
