//! The three layers, as uninhabited types.
//!
//! The operations of a queue are part of its type, so that a `retry` on a queue without back-off
//! does not compile. All layers share one structure: ready and delayed keys are under one lock.

use std::fmt;

/// De-duplication: `add`, `get`, `done`.
///
/// ```compile_fail,E0599
/// let queue = dedup_queue::DedupQueue::<u32>::new();
/// queue.add_after(1, std::time::Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {}

/// [`Plain`] and `add_after`.
///
/// ```compile_fail,E0599
/// let queue = dedup_queue::DedupDelayQueue::<u32>::new();
/// queue.get().unwrap().retry();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delaying {}

/// [`Delaying`] and `add_rate_limited`, `retry`, and the other operations with failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retrying {}

/// The operations that a queue has. Implemented by [`Plain`], [`Delaying`] and [`Retrying`].
pub trait Layer: sealed::Sealed + fmt::Debug + Send + Sync + 'static {}

/// A layer with `add_after`.
pub trait Delays: Layer {}

/// A layer with back-off.
pub trait Retries: Delays {}

impl Layer for Plain {}
impl Layer for Delaying {}
impl Layer for Retrying {}
impl Delays for Delaying {}
impl Delays for Retrying {}
impl Retries for Retrying {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Plain {}
    impl Sealed for super::Delaying {}
    impl Sealed for super::Retrying {}
}
