//! Metrics that are kept in memory, for tests and for status pages.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use sync_shim::Mutex;

use crate::metrics::Metrics;

/// Upper bounds of a [`Histogram`]'s buckets, one per decade from a microsecond on. The last bucket
/// has no bound.
pub const BUCKETS: [Duration; 10] = [
    Duration::from_micros(1),
    Duration::from_micros(10),
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(100),
    Duration::from_secs(1000),
];

/// Stores the metrics of each queue by its name, even after the queue is dropped: a page may still
/// show them, and queues may share a name. A program whose queues come and go under different names
/// must [forget](RecordingMetrics::forget) each.
///
/// ```
/// use dedup_queue::{DedupQueue, RecordingMetrics};
/// use std::sync::Arc;
///
/// let metrics = Arc::new(RecordingMetrics::new());
/// let queue = DedupQueue::builder().name("pods").metrics(Arc::clone(&metrics)).build();
/// queue.add("a")?;
/// queue.add("a")?;
/// let figures = metrics.of("pods");
/// assert_eq!((figures.adds_total, figures.depth), (1, 1));
/// # Ok::<(), dedup_queue::ShutDown<&str>>(())
/// ```
pub struct RecordingMetrics(Mutex<BTreeMap<String, Figures>>);

/// Metrics of one queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Deliveries that are pending now.
    pub depth: i64,
    /// Total number of deliveries that became pending.
    pub adds_total: u64,
    /// Time that keys waited to be taken.
    pub queue_duration_seconds: Histogram,
    /// Time that keys were held.
    pub work_duration_seconds: Histogram,
    /// Total time for which the held keys had been held, at the last report.
    pub unfinished_work_seconds: Duration,
    /// Time for which the longest-held key had been held, at the last report.
    pub longest_running_processor_seconds: Duration,
    /// Total number of delayed deliveries.
    pub retries_total: u64,
}

/// Distribution of durations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Histogram {
    /// Number of durations.
    pub count: u64,
    /// Their sum.
    pub sum: Duration,
    /// The longest duration.
    pub max: Duration,
    /// Number of durations up to the bound of the same index in [`BUCKETS`] that are longer than
    /// the previous bound.
    pub buckets: [u64; BUCKETS.len() + 1],
}

impl Histogram {
    fn observe(&mut self, seen: Duration) {
        self.count += 1;
        self.sum = self.sum.saturating_add(seen);
        self.max = self.max.max(seen);
        self.buckets[BUCKETS.partition_point(|&bound| bound < seen)] += 1;
    }
}

impl RecordingMetrics {
    /// Creates an instance without metrics.
    pub fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Returns the metrics of the queue with this name; zeros if there are none.
    pub fn of(&self, queue: &str) -> Figures {
        self.0.lock().get(queue).cloned().unwrap_or_default()
    }

    /// Removes and returns the metrics of the queue with this name. Call it when the queue's
    /// handles and guards are gone: later reports are stored again.
    ///
    /// ```
    /// use dedup_queue::{DedupQueue, RecordingMetrics};
    /// use std::sync::Arc;
    ///
    /// let metrics = Arc::new(RecordingMetrics::new());
    /// let queue = DedupQueue::builder().name("upload 17").metrics(Arc::clone(&metrics)).build();
    /// queue.add("a")?;
    /// drop(queue);
    /// assert_eq!(metrics.forget("upload 17").adds_total, 1);
    /// # Ok::<(), dedup_queue::ShutDown<&str>>(())
    /// ```
    pub fn forget(&self, queue: &str) -> Figures {
        self.0.lock().remove(queue).unwrap_or_default()
    }

    fn change(&self, queue: &str, change: impl FnOnce(&mut Figures)) {
        let mut queues = self.0.lock();
        if let Some(figures) = queues.get_mut(queue) {
            change(figures);
        } else {
            change(queues.entry(queue.to_owned()).or_default());
        }
    }
}

impl Metrics for RecordingMetrics {
    fn depth(&self, queue: &str, change: i64) {
        self.change(queue, |figures| figures.depth += change);
    }

    fn adds_total(&self, queue: &str, count: u64) {
        self.change(queue, |figures| figures.adds_total += count);
    }

    fn queue_duration_seconds(&self, queue: &str, waited: Duration) {
        self.change(queue, |figures| {
            figures.queue_duration_seconds.observe(waited);
        });
    }

    fn work_duration_seconds(&self, queue: &str, worked: Duration) {
        self.change(queue, |figures| {
            figures.work_duration_seconds.observe(worked);
        });
    }

    fn unfinished_work_seconds(&self, queue: &str, sum: Duration) {
        self.change(queue, |figures| figures.unfinished_work_seconds = sum);
    }

    fn longest_running_processor_seconds(&self, queue: &str, longest: Duration) {
        self.change(queue, |figures| {
            figures.longest_running_processor_seconds = longest;
        });
    }

    fn retries_total(&self, queue: &str) {
        self.change(queue, |figures| figures.retries_total += 1);
    }
}

impl Default for RecordingMetrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for RecordingMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RecordingMetrics")
            .field(&*self.0.lock())
            .finish()
    }
}
