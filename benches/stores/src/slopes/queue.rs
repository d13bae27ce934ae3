//! A queue of this process, on any store.

use std::mem;
use std::num::NonZeroUsize;

use durable_queue::{DurableQueue, Store, When};
use stores::Outcome;

use super::NAME;
use super::calls::LEASE;

pub trait Queue {
    /// Takes this many jobs, and holds them as long as the process lives.
    fn hold(&self, jobs: u32) -> Outcome;

    /// Pushes a due job, takes it and acknowledges it.
    fn pass_one(&self) -> Outcome;
}

pub fn queue<S: Store>(store: S) -> Outcome<Box<dyn Queue>> {
    let queue: DurableQueue<String, S> = DurableQueue::builder(NAME, store).lease(LEASE).build()?;
    Ok(Box::new(queue))
}

impl<S: Store> Queue for DurableQueue<String, S> {
    fn hold(&self, jobs: u32) -> Outcome {
        let mut left = jobs as usize;
        while let Some(most) = NonZeroUsize::new(left) {
            let taken = self.take_many(most)?;
            left -= taken.len();
            // A drop would release each of them.
            taken.into_iter().for_each(mem::forget);
        }
        Ok(())
    }

    fn pass_one(&self) -> Outcome {
        self.push(".".repeat(100), When::NOW)
            .map_err(|failed| failed.error)?;
        Ok(self.take()?.ack()?)
    }
}
