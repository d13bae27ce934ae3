//! Handles cross `catch_unwind` without a wrapper.

use std::panic::{RefUnwindSafe, UnwindSafe};

use anthill::dedup_queue::DedupRetryQueue;
use anthill::delay_queue::DelayQueue;
use anthill::pool_core::{Cancelled, Closures, ReserveFuture};
use anthill::scheduled_pool::{ScheduledHandle, WeakScheduledPool};
use anthill::{
    CancelToken, FuncPool, JoinHandle, Keyed, MultiPool, Permit, Pool, ScheduledPool, TaskGroup,
    WeakPool,
};

/// Not unwind-safe itself.
type Value = Box<dyn FnMut() + Send>;

fn is_unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}

#[test]
fn handles_are_unwind_safe_whatever_their_values_are() {
    is_unwind_safe::<Pool>();
    is_unwind_safe::<WeakPool>();
    is_unwind_safe::<FuncPool<Value, Value>>();
    is_unwind_safe::<MultiPool>();
    is_unwind_safe::<JoinHandle<Value>>();
    is_unwind_safe::<Permit<Closures>>();
    is_unwind_safe::<ReserveFuture<Closures>>();
    is_unwind_safe::<(CancelToken, Cancelled)>();
    is_unwind_safe::<TaskGroup<Value>>();
    is_unwind_safe::<Keyed<u64>>();
    is_unwind_safe::<ScheduledPool>();
    is_unwind_safe::<WeakScheduledPool>();
    is_unwind_safe::<ScheduledHandle<Value>>();
    is_unwind_safe::<DelayQueue<Value>>();
    is_unwind_safe::<DedupRetryQueue<u64>>();
}

#[cfg(feature = "async-pool")]
#[test]
fn handles_of_pools_of_futures_are_unwind_safe() {
    use anthill::async_pool;
    is_unwind_safe::<async_pool::AsyncPool>();
    is_unwind_safe::<async_pool::JoinHandle<Value>>();
    is_unwind_safe::<async_pool::Permit<async_pool::Futures>>();
    is_unwind_safe::<async_pool::TaskGroup<Value>>();
}

#[cfg(feature = "durable-sqlite")]
#[test]
fn handles_of_durable_queues_are_unwind_safe() {
    use anthill::{durable_queue, durable_queue_sqlite::SqliteStore};
    is_unwind_safe::<durable_queue::DurableQueue<Vec<u8>, SqliteStore>>();
    is_unwind_safe::<durable_queue::Worker<Vec<u8>, SqliteStore>>();
}
