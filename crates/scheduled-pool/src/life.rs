//! Releasing a scheduled pool, and waiting for its end.

use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::EventWait;
use sync_shim::thread::JoinHandle;

use crate::executor::Executor;
use crate::state::{Effects, Ending, Entry, Why};
use crate::timer::Core;
use crate::unstarted::UnstartedSchedule;

/// Outcome of one look at the state by a waiter for the end.
enum Look {
    Ended,
    /// The timer thread is exiting, and this caller joins it.
    Join(JoinHandle),
    Wait,
}

impl<S: Executor> Core<S> {
    /// Step 9: accepts no more schedules, and ends those that the release policy does not keep. Returns
    /// `false` if the timer was released before. With `releases`, the end of the last schedule releases the
    /// pool.
    pub fn release(&self, releases: bool) -> bool {
        let now = self.now();
        let (was_open, doomed) = {
            let mut state = self.state.lock();
            let was_open = state.is_open();
            state.releases |= releases;
            let doomed = if was_open {
                state.close(self.config.release_policy, now)
            } else {
                Vec::new()
            };
            (was_open, doomed)
        };
        self.end(doomed, |_| {});
        was_open
    }

    /// Step 9: accepts no more schedules, and ends and returns all that are not running.
    pub fn release_now(&self) -> Vec<UnstartedSchedule> {
        let doomed = {
            let mut state = self.state.lock();
            state.releases = true;
            state.close_now()
        };
        let mut back = Vec::with_capacity(doomed.len());
        self.end(doomed, |entry| back.extend(entry.give_back()));
        back
    }

    /// Step 10: the executor was released and accepts no more tasks.
    pub fn executor_released(&self) {
        let doomed = self.state.lock().pool_released();
        self.end(doomed, |_| {});
    }

    /// Step 8 of all of them, then their user code: a waker or a destructor of one schedule may wait for
    /// another schedule, or for the end. Calls `keep` with each ended schedule before its user code.
    fn end(&self, mut doomed: Vec<Arc<dyn Entry>>, mut keep: impl FnMut(&dyn Entry)) {
        let mut effects = Effects::new();
        doomed.retain(|entry| entry.end(Why::Released, &mut effects) == Ending::Now);
        // Without a schedule to end there is no step 8, and this section is the last one.
        self.state.lock().settle(&mut effects);
        let kept = self.perform(effects);
        for entry in &doomed {
            keep(&**entry);
            entry.run_user_code();
        }
        // USER CODE: the drop of the pool's handle. Last, because it may wait for the pool's end.
        drop(kept);
    }

    /// Blocks until the timer is released, every schedule has ended, and the timer thread has exited. Returns
    /// `false` if the deadline passed first.
    pub fn wait_released(&self, deadline: Option<Instant>) -> bool {
        loop {
            let mut end = EventWait::of_thread();
            match self.look(&mut end) {
                Look::Ended => return true,
                Look::Join(thread) => {
                    // The timer thread's body does not unwind.
                    let _ = thread.join();
                    let mut effects = Effects::new();
                    let mut state = self.state.lock();
                    state.joining = false;
                    // The other waiters check again, and find no thread to join.
                    state.end_waiters.set_all(&mut effects.wakes);
                    drop(state);
                    drop(self.perform(effects));
                }
                Look::Wait => {
                    // At the deadline the section that dequeues the event decides: an event that is set
                    // already means that the end has come.
                    if !end.wait_until(&*self.clock, deadline)
                        && !end.leave(&mut self.state.lock().end_waiters)
                    {
                        return false;
                    }
                }
            }
        }
    }

    fn look(&self, end: &mut EventWait) -> Look {
        let mut state = self.state.lock();
        if state.is_over() && !state.joining {
            let Some(thread) = state.thread.take() else {
                return Look::Ended;
            };
            state.joining = true;
            return Look::Join(thread);
        }
        end.enter(&mut state.end_waiters);
        Look::Wait
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use pool_core::Pool;

    use crate::ScheduledPool;

    #[testkit::test]
    fn a_timed_out_wait_leaves_no_event_behind() {
        let built = Pool::builder().capacity(1).build();
        let scheduled = ScheduledPool::new(built.expect("a capacity is all that is needed"));
        let core = scheduled.core();
        for _ in 0..3 {
            assert!(!core.wait_released(Some(core.clock.now())));
        }
        assert!(core.state.lock().end_waiters.is_empty());
    }
}
