//! The proxy's plan: a seed determines the disturbances and the numbers of pieces between them. After an
//! outage it does not disturb until each process works again, so that the time of recovery can be measured.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use testkit::Rng;

use super::Disturbance;
use crate::proxy::{Fate, Plan, Way};

/// Maximum number of pieces between two disturbances.
const BETWEEN: usize = 40;
/// Maximum delay of a piece and duration of a hang, in milliseconds.
const LATE: usize = 40;
const HANGS: usize = 250;
/// Maximum duration of an outage, and of one in `LONG`.
const OUTAGE: usize = 300;
const LONG_OUTAGE: usize = 3_000;
const LONG: usize = 8;

pub(crate) struct Disturbing(Mutex<State>);

struct State {
    rng: Rng,
    until_next: usize,
    left: u64,
    done: BTreeMap<&'static str, u64>,
    /// Processes that have not worked since the last outage, and the time at which it ends.
    idle: BTreeSet<usize>,
    back_at: Instant,
    processes: usize,
}

impl Disturbing {
    pub(crate) fn new(rng: Rng, disturbances: u64, processes: usize) -> Self {
        Self(Mutex::new(State {
            rng,
            until_next: BETWEEN,
            left: disturbances,
            done: BTreeMap::new(),
            idle: BTreeSet::new(),
            back_at: Instant::now(),
            processes,
        }))
    }
}

impl Disturbance for Disturbing {
    fn is_over(&self) -> bool {
        self.0.lock().unwrap().left == 0
    }

    fn works(&self, process: usize) -> Option<Duration> {
        let state = &mut *self.0.lock().unwrap();
        let since = Instant::now().checked_duration_since(state.back_at)?;
        state.idle.remove(&process).then_some(since)
    }
}

impl Plan for Disturbing {
    fn admits(&self) -> bool {
        self.0.lock().unwrap().back_at <= Instant::now()
    }

    fn fate(&self, _: u32, _: Way, bytes: &[u8]) -> Fate {
        let state = &mut *self.0.lock().unwrap();
        if state.left == 0 || !state.idle.is_empty() {
            return Fate::Passes;
        }
        if state.until_next > 0 {
            state.until_next -= 1;
            return Fate::Passes;
        }
        state.left -= 1;
        state.until_next = state.rng.below(BETWEEN);
        state.disturb(bytes.len())
    }
}

impl State {
    fn disturb(&mut self, bytes: usize) -> Fate {
        // From no byte to all.
        let passing = self.rng.below(bytes + 1);
        let (name, fate) = match self.rng.below(12) {
            0..4 => ("cuts", Fate::IsCut(passing)),
            4..7 => ("half-closes", Fate::IsLast(passing)),
            7..10 => ("delays", Fate::IsLate(self.time(LATE))),
            10 => ("hangs", Fate::Hangs(passing, self.time(HANGS))),
            _ => {
                let longest = if self.rng.chance(LONG) {
                    LONG_OUTAGE
                } else {
                    OUTAGE
                };
                self.back_at = Instant::now() + self.time(longest);
                self.idle.extend(0..self.processes);
                ("outages", Fate::CutsAll)
            }
        };
        *self.done.entry(name).or_default() += 1;
        fate
    }

    fn time(&mut self, longest: usize) -> Duration {
        Duration::from_millis(self.rng.below(longest) as u64)
    }
}

/// Counts of the disturbances.
impl fmt::Display for Disturbing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock().unwrap();
        let done = state.done.iter();
        let done: Vec<_> = done
            .map(|(name, count)| format!("{count} {name}"))
            .collect();
        f.write_str(&done.join(", "))
    }
}
