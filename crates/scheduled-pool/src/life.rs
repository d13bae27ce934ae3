//! Releasing, and waiting for the end.

use std::sync::Arc;
use std::time::Instant;

use pool_core::internals::EventWait;
use sync_shim::thread::JoinHandle;

use crate::sink::Sink;
use crate::state::{Effects, Ending, Entry, Why};
use crate::timer::Core;

/// What a waiter for the end finds.
enum Look {
    Ended,
    /// The timer thread is on its way out, and the caller joins it.
    Join(JoinHandle),
    Wait,
}

impl<S: Sink> Core<S> {
    /// Takes no more schedules, and ends those that a release ends. `false` if that was done
    /// before. `releases` says whether the pool goes with it.
    pub fn release(&self, releases: bool) -> bool {
        let now = self.now();
        let (was_open, doomed) = {
            let mut state = self.state.lock();
            let was_open = state.is_open();
            state.releases |= releases;
            let doomed = if was_open {
                state.close(self.config.spare, now)
            } else {
                Vec::new()
            };
            (was_open, doomed)
        };
        self.end(doomed);
        was_open
    }

    /// Takes no more schedules and ends all that are not running: how many.
    pub fn release_now(&self) -> usize {
        let doomed = {
            let mut state = self.state.lock();
            state.releases = true;
            state.close_now()
        };
        self.end(doomed)
    }

    /// The sink was released: nothing can come any more.
    pub fn sink_released(&self) {
        let doomed = self.state.lock().pool_released();
        self.end(doomed);
    }

    /// Ends all of them, and only then runs what is user code: a waker or a destructor of one may
    /// wait for another, or for the end.
    fn end(&self, mut doomed: Vec<Arc<dyn Entry>>) -> usize {
        let mut effects = Effects::new();
        doomed.retain(|entry| entry.end(Why::Released, &mut effects) == Ending::Now);
        // Perhaps there was nothing to be ended, and nobody else comes by.
        self.state.lock().settle(&mut effects);
        let kept = self.perform(effects);
        for entry in &doomed {
            entry.pay();
        }
        drop(kept); // May wait for the pool's end.
        doomed.len()
    }

    /// Waits until nothing is accepted, nothing is left, and the timer thread is gone. `false` if
    /// the time was up first.
    pub fn wait_released(&self, deadline: Option<Instant>) -> bool {
        loop {
            let end = EventWait::of_thread();
            match self.look(&end) {
                Look::Ended => return true,
                Look::Join(thread) => {
                    // The timer thread's body does not unwind.
                    let _ = thread.join();
                    let mut effects = Effects::new();
                    let mut state = self.state.lock();
                    state.joining = false;
                    effects.wakes.set_all(&mut state.on_end);
                    drop(state);
                    drop(self.perform(effects));
                }
                Look::Wait => {
                    if !end.wait_until(&*self.clock, deadline)
                        && !end.leave(&mut self.state.lock().on_end)
                    {
                        return false;
                    }
                }
            }
        }
    }

    fn look(&self, end: &EventWait) -> Look {
        let mut state = self.state.lock();
        if state.is_over() && !state.joining {
            let Some(thread) = state.thread.take() else {
                return Look::Ended;
            };
            state.joining = true;
            return Look::Join(thread);
        }
        state.on_end.push(end.event());
        Look::Wait
    }
}
