//! What can be watched of a queue, under client-go's names.
//!
//! # What always holds
//! 1. Metrics are called with no lock of the queue held, on the thread that caused the event; so two calls
//!    about events of two threads may come in either order. Sums are exact all the same: `depth`
//!    is reported as differences.
//! 2. A panic in them is caught and changes nothing.
//! 3. No thread of ours calls them, and nothing calls them after the last operation has returned.

use std::time::Duration;

/// Receives what happens in a queue. Every method does nothing unless it is implemented.
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
    /// So many more deliveries (or fewer) are pending now: keys that are ready or dirty.
    fn depth(&self, queue: &str, change: i64) {
        let _ = (queue, change);
    }

    /// So many deliveries became pending now. An add that collapsed into an earlier one is none.
    fn adds_total(&self, queue: &str, count: u64) {
        let _ = (queue, count);
    }

    /// A key was taken that had waited so long: since its first add, or since it fell due.
    fn queue_duration_seconds(&self, queue: &str, waited: Duration) {
        let _ = (queue, waited);
    }

    /// A key was let go that had been held so long.
    fn work_duration_seconds(&self, queue: &str, worked: Duration) {
        let _ = (queue, worked);
    }

    /// The held keys have been held so long, in all. Told by `report_unfinished` alone.
    fn unfinished_work_seconds(&self, queue: &str, sum: Duration) {
        let _ = (queue, sum);
    }

    /// The key held longest has been held so long. Told by `report_unfinished` alone.
    fn longest_running_processor_seconds(&self, queue: &str, longest: Duration) {
        let _ = (queue, longest);
    }

    /// A key is to be delivered later: by `add_after`, `add_rate_limited`, or a retry.
    fn retries_total(&self, queue: &str) {
        let _ = queue;
    }
}

/// One for several queues, or one that its owner keeps a hand on.
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
