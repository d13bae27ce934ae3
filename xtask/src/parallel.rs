//! The same work on many items, several at a time.
//!
//! In a scope of one of our own pools: so a chore needs a `pool-core` that compiles and works. What it
//! tests is built apart from it, and may be broken: a copy of the workspace, or the workspace as it was
//! changed since.

use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context, Error, Result};
use pool_core::Pool;
use pool_util::{MapError, PoolExt};

/// Does `work` on each item and returns the results in the items' order.
///
/// Each of the `threads` is lent what it works with: `prepare` makes it, which is given a number below
/// that of the threads. After an error no further item is begun.
///
/// # Panics
/// As `prepare` or `work` does.
pub(crate) fn map<T: Send, W: Send, R: Send>(
    items: Vec<T>,
    threads: usize,
    prepare: impl Fn(usize) -> Result<W> + Sync + Send,
    work: impl Fn(&W, T) -> Result<R> + Sync + Send,
) -> Result<Vec<R>> {
    // The calling thread is one of them. Without workers: a released pool's scope is its owner's alone.
    let workers = threads.min(items.len()).saturating_sub(1);
    let pool = Pool::builder().name("xtask").capacity(workers.max(1));
    let pool = pool.build().context("the pool of the chores")?;
    if workers == 0 {
        pool.release();
    }
    let stock = Mutex::new(Stock::default());
    pool.scope(|scope| {
        let results = scope.try_map(items, |item| {
            let prepared = Stock::take(&stock, &prepare)?;
            let result = work(&prepared, item);
            lock(&stock).unused.push(prepared);
            result
        });
        results.map(|result| result.map_err(reason)).collect()
    })
}

/// What was prepared and nobody works with.
struct Stock<W> {
    unused: Vec<W>,
    made: usize,
}

impl<W> Default for Stock<W> {
    fn default() -> Self {
        Self {
            unused: Vec::new(),
            made: 0,
        }
    }
}

impl<W> Stock<W> {
    /// One that is there; or else a new one, so there are never more than threads.
    fn take(stock: &Mutex<Self>, prepare: &impl Fn(usize) -> Result<W>) -> Result<W> {
        let mut this = lock(stock);
        if let Some(prepared) = this.unused.pop() {
            return Ok(prepared);
        }
        let number = this.made;
        this.made += 1;
        drop(this);
        prepare(number)
    }
}

fn reason(error: MapError<Error>) -> Error {
    match error {
        MapError::Failed(error) => error,
        MapError::Panicked(panicked) => resume_unwind(panicked.into_payload()),
        other => Error::msg(other.to_string()),
    }
}

/// As many threads as can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Nothing panics while it is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::thread;

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let results = map(items, 3, Ok, |_, item| Ok(item * 2)).expect("nothing fails");
        assert_eq!(results, (0..100).map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_in_preparing_is_returned() {
        let prepare = |_| -> Result<()> { bail!("no copy") };
        let error = map(vec![1], 1, prepare, |(), item| Ok(item)).expect_err("it fails");
        assert_eq!(error.to_string(), "no copy");
    }

    #[test]
    fn an_error_in_working_is_returned_and_nothing_is_begun_after_it() {
        let begun = Mutex::new(Vec::new());
        let work = |(): &(), item: usize| {
            lock(&begun).push(item);
            if item == 1 {
                bail!("item 1");
            }
            Ok(item)
        };
        let error = map(vec![0, 1, 2], 1, |_| Ok(()), work).expect_err("it fails");
        assert_eq!(error.to_string(), "item 1");
        assert_eq!(*lock(&begun), [0, 1]);
    }

    #[test]
    fn each_thread_works_with_its_own_and_none_is_made_for_more_than_there_are() {
        let (all, made) = (Barrier::new(3), Mutex::new(Vec::new()));
        let prepare = |number| {
            lock(&made).push(number);
            Ok(Mutex::new(number))
        };
        let work = |prepared: &Mutex<usize>, ()| {
            let alone = prepared.try_lock().expect("nobody else works with it");
            all.wait(); // All three are at it.
            Ok(*alone)
        };
        map(vec![(); 30], 3, prepare, work).expect("nothing fails");
        lock(&made).sort_unstable();
        assert_eq!(*lock(&made), [0, 1, 2]);
    }

    #[test]
    fn a_panic_in_working_goes_on_at_the_caller() {
        let work = |(): &(), ()| -> Result<()> { panic!("broken") };
        let caller = thread::spawn(move || map(vec![(); 3], 2, |_| Ok(()), work));
        assert!(caller.join().is_err());
    }
}
