//! backoff-spinlock
