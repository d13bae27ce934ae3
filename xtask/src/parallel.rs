//! The same work on many items, on several threads.
//!
//! Not a pool's `map`: the chores test the crates of this workspace, and have to build and run when
//! those are broken.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;

/// Does `work` on each item and returns the results in the items' order.
///
/// Each of the `threads` makes what it works with by `prepare`, which is given its number. After
/// an error no further item is begun.
pub(crate) fn map<T: Send, W, R: Send>(
    items: Vec<T>,
    threads: usize,
    prepare: impl Fn(usize) -> Result<W> + Sync,
    work: impl Fn(&W, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let count = items.len();
    let next = Mutex::new(items.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(count));
    let failure = Mutex::new(None);
    let thread = |number| {
        let run = || -> Result<()> {
            let prepared = prepare(number)?;
            while lock(&failure).is_none() {
                let Some((index, item)) = lock(&next).next() else {
                    break;
                };
                let result = work(&prepared, item)?;
                lock(&results).push((index, result));
            }
            Ok(())
        };
        if let Err(error) = run() {
            lock(&failure).get_or_insert(error);
        }
    };
    thread::scope(|scope| {
        for number in 0..threads.clamp(1, count.max(1)) {
            let thread = &thread;
            scope.spawn(move || thread(number));
        }
    });
    if let Some(error) = lock(&failure).take() {
        return Err(error);
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

/// As many threads as can run at once.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// A panic in `work` ends the scope with a panic, so what it left behind is never read.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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
}
