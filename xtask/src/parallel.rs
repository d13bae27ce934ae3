//! Concurrent work on several items.

use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;

/// Calls `work` for each item and returns the results in the items' order. After an error, no
/// further item is started.
///
/// Each of the `threads` has its own state, which `prepare` creates.
///
/// # Panics
/// If `prepare` or `work` does.
pub(crate) fn map<T: Send, W, R: Send>(
    items: Vec<T>,
    threads: usize,
    prepare: impl Fn(usize) -> Result<W> + Sync,
    work: impl Fn(&W, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = threads.min(items.len());
    let items = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::new());
    let serve = |thread: usize| {
        let prepared = prepare(thread)?;
        loop {
            let Some((index, item)) = lock(&items).next() else {
                return Ok(());
            };
            let result =
                work(&prepared, item).inspect_err(|_| lock(&items).by_ref().for_each(drop))?;
            lock(&results).push((index, result));
        }
    };
    thread::scope(|scope| -> Result<()> {
        let serve = &serve;
        let threads = (0..threads).map(|it| scope.spawn(move || serve(it)));
        let threads: Vec<_> = threads.collect();
        let mut ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.try_for_each(|ended| ended.unwrap_or_else(|panic| resume_unwind(panic)))
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// Returns the number of threads that can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Ignores poisoning, because no thread panics while it holds the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use anyhow::bail;

    use super::*;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let results = map(items, 3, Ok, |_, item| Ok(item * 2)).expect("nothing fails");
        assert_eq!(results, (0..100).map(|item| item * 2).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_is_returned_and_no_later_item_starts() {
        let unprepared = |_| -> Result<()> { bail!("no copy") };
        let error = map(vec![1], 1, unprepared, |(), item| Ok(item)).expect_err("it fails");
        assert_eq!(error.to_string(), "no copy");
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
    fn each_thread_has_its_own_state_and_their_number_is_limited() {
        let (all, made) = (Barrier::new(3), Mutex::new(Vec::new()));
        let prepare = |number| {
            lock(&made).push(number);
            Ok(Mutex::new(number))
        };
        let work = |prepared: &Mutex<usize>, ()| {
            let alone = prepared.try_lock().expect("no other thread works with it");
            all.wait(); // All three threads are working.
            Ok(*alone)
        };
        map(vec![(); 30], 3, prepare, work).expect("nothing fails");
        lock(&made).sort_unstable();
        assert_eq!(*lock(&made), [0, 1, 2]);
    }

    #[test]
    fn a_panic_of_the_work_propagates_to_the_caller() {
        let work = |(): &(), ()| -> Result<()> { panic!("broken") };
        let caller = thread::spawn(move || map(vec![(); 3], 2, |_| Ok(()), work));
        assert!(caller.join().is_err());
    }
}
