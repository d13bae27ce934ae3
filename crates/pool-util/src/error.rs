//! The error of mappings and other calls that run several tasks.

use std::convert::Infallible;
use std::{error, fmt};

use pool_core::{Panicked, SubmitError};

/// Error of one item of a mapping, or of one task of a group. `E` is the error type of the function.
///
/// Implements [`Error`](std::error::Error) if `E` does. `anyhow::Error` and boxed errors do not implement
/// it: use [`into_error`](Self::into_error) for them.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// use pool_util::{MapError, PoolExt};
///
/// for number in pool.try_map(["7", "x"], |text| text.parse::<u32>()) {
///     match number {
///         Ok(number) => assert_eq!(number, 7),
///         Err(MapError::Failed(error)) => println!("no number: {error}"),
///         Err(other) => return Err(other.into()), // A panic, or a release.
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum MapError<E = Infallible> {
    /// The function returned this error.
    Failed(E),
    /// The function panicked.
    Panicked(Panicked),
    /// The pool accepted no more tasks. The mapping has ended.
    Refused(SubmitError),
}

impl<E> MapError<E> {
    /// Returns the function's own error. Panics and refusals are converted to its type.
    ///
    /// For functions that return `anyhow::Error` or a boxed error. These types do not implement
    /// [`Error`](std::error::Error), so neither does `MapError`, and `?` needs this call:
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::{MapError, PoolExt};
    /// use std::error::Error;
    ///
    /// type Boxed = Box<dyn Error + Send + Sync>;
    ///
    /// fn check(name: &str) -> Result<(), Boxed> {
    ///     if name.is_empty() { Err("a name is empty".into()) } else { Ok(()) }
    /// }
    ///
    /// fn check_all(pool: &Pool, names: [&'static str; 2]) -> Result<(), Boxed> {
    ///     pool.try_for_each(names, check).map_err(MapError::into_error)?;
    ///     Ok(())
    /// }
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let failed = check_all(&pool, ["ant", ""]).unwrap_err();
    /// assert_eq!(failed.to_string(), "a name is empty");
    /// pool.release();
    /// let refused = check_all(&pool, ["ant", "hill"]).unwrap_err();
    /// assert!(matches!(refused.downcast_ref::<MapError>(), Some(MapError::Refused(_))));
    /// # Ok::<(), Boxed>(())
    /// ```
    ///
    /// The function's error keeps its type and its causes. Panics and refusals can be downcast to
    /// [`MapError`].
    pub fn into_error(self) -> E
    where
        E: From<MapError>,
    {
        match self {
            Self::Failed(error) => error,
            Self::Panicked(panicked) => MapError::Panicked(panicked).into(),
            Self::Refused(refused) => MapError::Refused(refused).into(),
        }
    }
}

impl<E: fmt::Display> fmt::Display for MapError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Panicked(panicked) => panicked.fmt(f),
            Self::Refused(refused) => refused.fmt(f),
        }
    }
}

impl<E: error::Error + 'static> error::Error for MapError<E> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::Panicked(_) => None,
            Self::Refused(refused) => refused.source(),
        }
    }
}
