//! Metrics of a queue, under client-go's names.
//!
//! # Guarantees
//! 1. Metrics are called with no lock of the queue held, on the thread that caused the event. So
//!    calls about events of two threads may come in either order. Sums are exact nevertheless:
//!    `depth` is reported as differences.
//! 2. A panic in metrics is caught and changes nothing.
//! 3. The queue has no thread that calls metrics, and makes no call after the last operation has
//!    returned.

use std::time::Duration;

/// Receives the events of a queue. The default methods do nothing.
///
/// `queue` is the name that the queue was built with.
///
/// ```
/// use dedup_queue::{DedupQueue, Metrics};
///
/// struct Print;
/// impl Metrics for Print {
///     fn depth(&self, queue: &str, change: i64) {
///         println!("{queue}: {change:+}");
///     }
/// }
///
/// let queue = DedupQueue::<u32>::builder().name("rows").metrics(Print).build();
/// queue.add(1)?; // "rows: +1".
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "MetricsProvider")]
pub trait Metrics: Send + Sync + 'static {
    /// The number of deliveries that are pending now (ready or dirty keys) has changed by `change`.
    fn depth(&self, queue: &str, change: i64) {
        let _ = (queue, change);
    }

    /// `count` deliveries became pending now. Merged adds are not counted.
    fn adds_total(&self, queue: &str, count: u64) {
        let _ = (queue, count);
    }

    /// A key was taken after waiting for `waited`, since its first add or since it fell due.
    fn queue_duration_seconds(&self, queue: &str, waited: Duration) {
        let _ = (queue, waited);
    }

    /// A key was released after it had been held for `worked`.
    fn work_duration_seconds(&self, queue: &str, worked: Duration) {
        let _ = (queue, worked);
    }

    /// Total time for which the held keys have been held. Called only by `report_unfinished`.
    fn unfinished_work_seconds(&self, queue: &str, sum: Duration) {
        let _ = (queue, sum);
    }

    /// Time for which the longest-held key has been held. Called only by `report_unfinished`.
    fn longest_running_processor_seconds(&self, queue: &str, longest: Duration) {
        let _ = (queue, longest);
    }

    /// A key will be delivered later: by `add_after`, `add_rate_limited`, or a retry.
    fn retries_total(&self, queue: &str) {
        let _ = queue;
    }
}

/// Shared metrics: for several queues, or for an owner that keeps access to them.
impl<M: Metrics + ?Sized> Metrics for std::sync::Arc<M> {
    fn depth(&self, queue: &str, change: i64) {
        (**self).depth(queue, change);
    }

    fn adds_total(&self, queue: &str, count: u64) {
        (**self).adds_total(queue, count);
    }

    fn queue_duration_seconds(&self, queue: &str, waited: Duration) {
        (**self).queue_duration_seconds(queue, waited);
    }

    fn work_duration_seconds(&self, queue: &str, worked: Duration) {
        (**self).work_duration_seconds(queue, worked);
    }

    fn unfinished_work_seconds(&self, queue: &str, sum: Duration) {
        (**self).unfinished_work_seconds(queue, sum);
    }

    fn longest_running_processor_seconds(&self, queue: &str, longest: Duration) {
        (**self).longest_running_processor_seconds(queue, longest);
    }

    fn retries_total(&self, queue: &str) {
        (**self).retries_total(queue);
    }
}
