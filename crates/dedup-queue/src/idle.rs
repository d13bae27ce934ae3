//! Waiting until there is nothing to do, without an end of the queue.
//!
//! # What always holds
//! A wait ends in the first section that leaves nothing pending and nothing held, also if the next one
//! adds a key before the waiter runs again.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use delay_queue::wait::{Driver as _, Waiter};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker};

use crate::core::{Hasher, Key};
use crate::drain_waiters::DrainId;
use crate::layer::Layer;
use crate::queue::KeyQueue;

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Waits until no key is ready, held or delayed. Blocks.
    ///
    /// Adds go on: the queue was idle at one moment after the call, and may not be when this returns.
    /// [`drain`](KeyQueue::drain) ends the queue instead. Keys that are remembered for their failures
    /// alone do not count, and after a shut-down neither do delayed ones: they are left over. A worker
    /// must not wait for itself, so do not call it while holding a key.
    ///
    /// `true`, except in a forked process: a queue that is not idle there never will be, for the threads at
    /// it stayed behind.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    /// use std::thread;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// thread::scope(|scope| {
    ///     scope.spawn(|| queue.get().unwrap().done());
    ///     queue.wait_idle();
    /// });
    /// assert!(queue.add("b").is_ok(), "it is open");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_idle(&self) -> bool {
        self.wait_idle_until(None)
    }

    /// As [`wait_idle`](KeyQueue::wait_idle), for at most this long. `false` if the time was up first.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?; // No worker takes it.
    /// assert!(!queue.wait_idle_timeout(std::time::Duration::from_millis(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the time may have been up"]
    pub fn wait_idle_timeout(&self, timeout: Duration) -> bool {
        self.wait_idle_until(self.core().clock.after(timeout))
    }

    /// As [`wait_idle`](KeyQueue::wait_idle), until this time at most. `false` if it came first.
    #[must_use = "the time may have been up"]
    pub fn wait_idle_deadline(&self, deadline: Instant) -> bool {
        self.wait_idle_until(Some(deadline))
    }

    /// As [`wait_idle`](KeyQueue::wait_idle), as a future. It begins with the first poll, and may be dropped
    /// at any moment.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// # futures_lite::future::block_on(async {
    /// assert!(queue.wait_idle_async().await);
    /// # });
    /// ```
    pub fn wait_idle_async(&self) -> impl Future<Output = bool> + Send + Unpin + use<K, S, C, L> {
        let mut wait = IdleWait::new(self);
        // USER CODE: the waker's clone. A panic is the poller's.
        poll_fn(move |context| wait.poll(Waiter::Task(context.waker().clone())))
    }

    fn wait_idle_until(&self, deadline: Option<Instant>) -> bool {
        let parker = Parker::of_thread();
        let mut wait = IdleWait::new(self);
        loop {
            if let Poll::Ready(was_idle) = wait.poll(Waiter::Thread(Parker::clone(&parker))) {
                return was_idle;
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    // USER CODE: `Clock::park_until`. A panic removes the waiter.
                    if !self.clock().park_until(&parker, when) {
                        return wait.give_up();
                    }
                }
            }
        }
    }
}

/// One wait, which leaves nothing behind when it is dropped.
struct IdleWait<K: Key, S: Hasher, C: Clock, L: Layer> {
    queue: KeyQueue<K, S, C, L>,
    /// It waits, or its answer waits for it.
    id: Option<DrainId>,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> IdleWait<K, S, C, L> {
    fn new(queue: &KeyQueue<K, S, C, L>) -> Self {
        Self {
            queue: queue.clone(),
            id: None,
        }
    }

    /// Whether the queue was idle. If that is not known yet, the waiter is woken when it is.
    fn poll(&mut self, waiter: Waiter) -> Poll<bool> {
        let core = self.queue.core();
        let mut waiter = Some(waiter); // What is left of it is dropped with the lock free.
        let id = *self.id.get_or_insert_with(|| {
            core.update(|state| {
                let waiter = waiter.take().expect("it is asked for once");
                state.begin_idle_wait(waiter)
            })
        });
        let answer = core.update(|state| state.idle_waiters.ask(id, waiter.as_mut()));
        // USER CODE: the drop of a stale waker.
        drop_quietly(waiter);
        if answer.is_some() {
            self.id = None;
            Poll::Ready(true)
        } else if core.is_forked() {
            Poll::Ready(self.give_up())
        } else {
            Poll::Pending
        }
    }

    /// Waits no longer. Whether the queue was idle meanwhile.
    fn give_up(&mut self) -> bool {
        let Some(id) = self.id.take() else {
            return false;
        };
        let core = self.queue.core();
        let waiter = core.update(|state| state.idle_waiters.leave(id));
        let was_waiting = waiter.is_some();
        // USER CODE: the drop of a waker.
        drop_quietly(waiter);
        !was_waiting
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for IdleWait<K, S, C, L> {
    fn drop(&mut self) {
        self.give_up();
    }
}
