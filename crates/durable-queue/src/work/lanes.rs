//! Admission of claimed jobs by kind: each kind has a lane, with a maximum of running jobs and a line of jobs that wait
//! for one of them to end.
//!
//! A worker without kinds has one lane, whose limit is that of the worker.
//!
//! # Invariants
//! 1. At most `limit` jobs of a lane run.
//! 2. The party that has called [`end`](Lanes::end) or [`arrive`](Lanes::arrive) then calls [`next`](Lanes::next),
//!    unless it closes. So no job stays in a line while its lane and its worker have room.
//! 3. A line is bounded: by the jobs that the lane may run at a time, or those that it finishes in [`LINE`].

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::engine::claimed::{Guard, named};
use crate::engine::command::{Command, Held, Ready, Wish};
use crate::engine::config::MOST_JOBS;
use crate::engine::shared::Shared;
use crate::engine::signals::Events;

/// Jobs of a full [kind](crate::KindOptions::concurrency) wait in the process, as many as may run at a time or are
/// expected to start within this time. Others are postponed by at least this.
pub const LINE: Duration = Duration::from_secs(1);
/// Postponed jobs of a kind come back at this interval, or as fast as the kind's jobs end.
const SPREAD: Duration = Duration::from_millis(10);
/// Places that an empty line keeps.
const SPARE: usize = 64;
/// Maximum time that a job is postponed.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Lanes {
    all: Vec<Lane>,
    arrivals: u64,
    /// Grows while jobs are postponed, to find those of other kinds behind them.
    wide: usize,
}

#[derive(Debug)]
struct Lane {
    /// Its kind. `None`: all jobs.
    name: Option<&'static str>,
    limit: usize,
    running: usize,
    /// With the numbers of their arrivals.
    line: VecDeque<(u64, Ready)>,
    /// Recent duration of a job. `None` before the first has ended.
    took: Option<Duration>,
    /// When the last postponed job comes back.
    back: Option<Instant>,
}

/// Outcome of the arrival of a claimed job.
pub(crate) enum Arrival {
    /// It is in the line of its lane.
    Waits,
    /// Its lane is full.
    Postponed(Ready, Duration),
    /// It has no lane.
    Unknown(Ready),
}

impl Lanes {
    /// The lane of a worker without kinds.
    pub(crate) fn one(limit: usize) -> Self {
        Self::new([(None, limit)])
    }

    pub(crate) fn new(lanes: impl IntoIterator<Item = (Option<&'static str>, usize)>) -> Self {
        let lanes = lanes.into_iter().map(|(name, limit)| Lane {
            name,
            limit,
            running: 0,
            line: VecDeque::new(),
            took: None,
            back: None,
        });
        Self {
            all: lanes.collect(),
            arrivals: 0,
            wide: 0,
        }
    }

    pub(crate) fn arrive(&mut self, job: Ready, now: Instant) -> Arrival {
        let kind = job.lease.kind.as_deref();
        let is_its = |lane: &&mut Lane| lane.name.is_none_or(|name| kind == Some(name));
        let Some(lane) = self.all.iter_mut().find(is_its) else {
            return Arrival::Unknown(job);
        };
        if lane.line.len() >= lane.room() {
            self.wide = (self.wide * 2).clamp(1, MOST_JOBS);
            let delay = lane.postpone(now);
            return Arrival::Postponed(job, delay);
        }
        self.wide /= 2;
        lane.line.push_back((self.arrivals, job));
        self.arrivals += 1;
        Arrival::Waits
    }

    /// Takes the job that has waited longest for a lane that may run one more, which it then does. Jobs that have lost
    /// their lease by now are released.
    pub(crate) fn next(&mut self, released: &mut Vec<Command>) -> Option<(usize, Ready)> {
        loop {
            let open = self.all.iter().enumerate();
            let open = open.filter(|(_, lane)| lane.running < lane.limit);
            let first = open.filter_map(|(place, lane)| Some((lane.line.front()?.0, place)));
            let (_, place) = first.min()?;
            let lane = &mut self.all[place];
            let (_, job) = lane.line.pop_front()?;
            if lane.line.is_empty() {
                lane.line.shrink_to(SPARE); // A claim of thousands of jobs must not leave its memory here.
            }
            if !job.signals.has(Events::LOST) {
                lane.running += 1;
                return Some((place, job));
            }
            released.push(Command::release(&job.lease));
        }
    }

    /// A job of the lane has ended, after `took`.
    pub(crate) fn end(&mut self, lane: usize, took: Duration) {
        let lane = &mut self.all[lane];
        lane.running -= 1;
        lane.took = Some(match lane.took {
            None => took,
            Some(before) => before.saturating_mul(7).saturating_add(took) / 8,
        });
    }

    /// Releases the jobs of all lines.
    pub(crate) fn clear(&mut self, released: &mut Vec<Command>) {
        let lines = self.all.iter_mut().flat_map(|lane| lane.line.drain(..));
        released.extend(lines.map(|(_, job)| Command::release(&job.lease)));
    }

    /// Number of jobs that the next claim should ask for, to get past those of full lanes.
    pub(crate) fn wide(&self) -> usize {
        self.wide
    }
}

impl Lane {
    /// Maximum length of the line.
    fn room(&self) -> usize {
        let took = self.took.unwrap_or(LINE).as_nanos().max(1);
        let rounds = usize::try_from(LINE.as_nanos() / took).unwrap_or(usize::MAX);
        let ahead = self.limit.saturating_mul(rounds.max(1)).min(MOST_JOBS);
        (self.limit - self.running).saturating_add(ahead)
    }

    /// The delay of the next postponed job. It comes back after those that were postponed before.
    fn postpone(&mut self, now: Instant) -> Duration {
        let each = self.took.unwrap_or(SPREAD);
        let each = each / u32::try_from(self.limit).unwrap_or(u32::MAX);
        let first = now + LINE;
        let back = self.back.map_or(first, |back| back.max(first)) + each.min(SPREAD);
        let delay = (back - now).min(LONGEST);
        self.back = Some(now + delay);
        delay
    }
}

impl<S> Shared<S> {
    /// Returns the command that settles a job which its worker does not run.
    pub(crate) fn turned_away(&self, arrival: Arrival) -> Option<Command> {
        match arrival {
            Arrival::Waits => None,
            Arrival::Postponed(job, delay) => {
                let held = Held::of(&job.lease);
                Some(Command::new(held, Wish::Postpone(delay), None))
            }
            Arrival::Unknown(Ready {
                mut lease,
                signals,
                policy,
                handed_out,
                ..
            }) => {
                let mut guard =
                    Guard::new(&mut lease, signals, &self.control, &self.policy, policy);
                guard.start(handed_out, &lease);
                let kind = named(lease.kind.as_deref());
                Some(guard.into_failure(format!("no handler of this worker takes jobs {kind}")))
            }
        }
    }
}
