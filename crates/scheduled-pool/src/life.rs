//! Releasing, and waiting for the end.

use std::sync::Arc;
use std::time::Instant;

use sync_shim::Parker;
use sync_shim::thread::JoinHandle;

use crate::sink::Sink;
use crate::state::{After, Ending, Entry, Why};
use crate::timer::Core;

/// What a waiter for the end finds.
enum Look {
    Ended,
    /// The timer thread is on its way out, and the caller joins it.
    Join(JoinHandle),
    /// It is entered under this number.
    Wait(u64),
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

    /// Ends all of them, and only then runs what is foreign: a waker or a destructor of one may wait
    /// for another, or for the end.
    fn end(&self, mut doomed: Vec<Arc<dyn Entry>>) -> usize {
        let mut after = After::new();
        doomed.retain(|entry| entry.end(Why::Released, &mut after) == Ending::Now);
        // Perhaps there was nothing to be ended, and nobody else comes by.
        self.state.lock().settle(&mut after);
        let kept = self.perform(after);
        for entry in &doomed {
            entry.pay();
        }
        drop(kept); // May wait for the pool's end.
        doomed.len()
    }

    /// Waits until nothing is accepted, nothing is left, and the timer thread is gone. `false` if
    /// the time was up first.
    pub fn wait_released(&self, deadline: Option<Instant>) -> bool {
        let parker = Parker::of_thread();
        let mut late = false;
        loop {
            match self.look(&parker) {
                Look::Ended => return true,
                Look::Join(thread) => {
                    // The timer thread's body does not unwind.
                    let _ = thread.join();
                    let mut after = After::new();
                    let mut state = self.state.lock();
                    state.joining = false;
                    after.tell.append(&mut state.waiters);
                    drop(state);
                    drop(self.perform(after));
                }
                Look::Wait(number) => {
                    match deadline {
                        _ if late => {}
                        None => parker.park(),
                        Some(when) => late = !self.clock.park_until(&parker, when),
                    }
                    let mut state = self.state.lock();
                    let entered = state.waiters.len();
                    state.waiters.retain(|&(other, _)| other != number);
                    // One that is still entered was not told of anything.
                    if late && state.waiters.len() < entered {
                        return false;
                    }
                }
            }
        }
    }

    fn look(&self, parker: &Parker) -> Look {
        let mut state = self.state.lock();
        if state.is_over() && !state.joining {
            let Some(thread) = state.thread.take() else {
                return Look::Ended;
            };
            state.joining = true;
            return Look::Join(thread);
        }
        let number = state.next_waiter;
        state.next_waiter += 1;
        state.waiters.push((number, parker.clone()));
        Look::Wait(number)
    }
}
