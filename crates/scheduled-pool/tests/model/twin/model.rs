//! The reference model: the location of each schedule, in plain lists.

use std::collections::VecDeque;

use scheduled_pool::ResetError;

use super::program::{Deed, Settings};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Panicked,
    Cancelled,
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// The due time, and the order of entry among equal times.
    Pending(u64, u64),
    Accepted,
    InLine,
    Running,
    Ended(End),
}

#[derive(Debug)]
struct Schedule {
    at: At,
    deed: Deed,
    /// The pause between runs of a series, and the number of runs left.
    series: Option<(u64, Option<u64>)>,
    stop: Option<End>,
    runs: u64,
}

pub(crate) struct Model {
    settings: Settings,
    pub(crate) now: u64,
    order: u64,
    all: Vec<Schedule>,
    accepted: VecDeque<usize>,
    line: VecDeque<usize>,
    pub(crate) open: bool,
    pool_open: bool,
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: 0,
            order: 0,
            all: Vec::new(),
            accepted: VecDeque::new(),
            line: VecDeque::new(),
            open: true,
            pool_open: true,
        }
    }

    pub(crate) fn schedule(
        &mut self,
        delay: u64,
        series: Option<(u64, Option<u64>)>,
        deed: Deed,
    ) -> bool {
        if self.open {
            self.order += 1;
            self.all.push(Schedule {
                at: At::Pending(self.now.saturating_add(delay), self.order),
                deed,
                series,
                stop: None,
                runs: 0,
            });
        }
        self.open
    }

    /// The timer has offered all due schedules.
    pub(crate) fn settle(&mut self) {
        let mut due: Vec<_> = (0..self.all.len())
            .filter_map(|id| match self.all[id].at {
                At::Pending(due, order) if due <= self.now => Some((due, order, id)),
                _ => None,
            })
            .collect();
        due.sort_unstable();
        for (.., id) in due {
            let room = self.accepted.len() < self.settings.room;
            let (at, list) = if room {
                (At::Accepted, &mut self.accepted)
            } else {
                (At::InLine, &mut self.line)
            };
            list.push_back(id);
            self.all[id].at = at;
        }
    }

    /// Returns whether `end` ends the schedule, now or after its run.
    fn end(&mut self, id: usize, end: End) -> bool {
        let schedule = &mut self.all[id];
        match schedule.at {
            At::Ended(_) => false,
            At::Running => {
                let stops = schedule.series.is_some() && schedule.stop.is_none();
                if stops {
                    schedule.stop = Some(end);
                }
                stops
            }
            _ => {
                schedule.at = At::Ended(end);
                self.line.retain(|&other| other != id);
                true
            }
        }
    }

    pub(crate) fn cancel(&mut self, id: usize) -> bool {
        self.end(id, End::Cancelled)
    }

    pub(crate) fn reset(&mut self, id: usize, delay: u64) -> Result<(), ResetError> {
        self.order += 1;
        match &mut self.all[id].at {
            At::Ended(_) => Err(ResetError::Ended),
            _ if !self.open => Err(ResetError::Released),
            At::Pending(due, order) => {
                (*due, *order) = (self.now.saturating_add(delay), self.order);
                Ok(())
            }
            _ => Err(ResetError::Due),
        }
    }

    pub(crate) fn release(&mut self) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        for id in 0..self.all.len() {
            let schedule = &self.all[id];
            let ends = match schedule.at {
                At::Pending(u64::MAX, _) => true,
                _ if schedule.series.is_some() => !self.settings.continue_series,
                At::Pending(..) => !self.settings.run_pending,
                _ => false,
            };
            if ends {
                self.end(id, End::Released);
            }
        }
    }

    pub(crate) fn release_now(&mut self) {
        self.open = false;
        for id in 0..self.all.len() {
            self.end(id, End::Released);
        }
    }

    pub(crate) fn release_elsewhere(&mut self) {
        (self.open, self.pool_open) = (false, false);
        for id in 0..self.all.len() {
            if matches!(self.all[id].at, At::Pending(..) | At::InLine) {
                self.end(id, End::Released);
            }
        }
    }

    /// Begins the next run. Returns its schedule and action, or `None` if the queue is empty or the
    /// next task has ended.
    pub(crate) fn begin(&mut self) -> Option<(usize, Deed)> {
        let next = self.accepted.pop_front();
        let head = if self.pool_open {
            self.line.pop_front()
        } else {
            None
        };
        let id = match next {
            None => head,
            next => {
                if let Some(head) = head {
                    self.accepted.push_back(head);
                    self.all[head].at = At::Accepted;
                }
                next
            }
        }?;
        let schedule = &mut self.all[id];
        if matches!(schedule.at, At::Ended(_)) {
            return None; // It ended while it waited.
        }
        schedule.at = At::Running;
        Some((id, schedule.deed))
    }

    /// Ends the run.
    pub(crate) fn finish(&mut self, id: usize, panicked: bool) {
        self.order += 1;
        let open = self.open;
        let schedule = &mut self.all[id];
        schedule.runs += 1;
        schedule.at = match &mut schedule.series {
            _ if panicked => At::Ended(End::Panicked),
            None => At::Ended(End::Done),
            Some((rest, left)) => {
                *left = left.map(|left| left - 1);
                let next = self.now.saturating_add(*rest);
                match schedule.stop {
                    _ if *left == Some(0) => At::Ended(End::Done),
                    Some(end) => At::Ended(end),
                    None if !self.pool_open || (!open && next == u64::MAX) => {
                        At::Ended(End::Released)
                    }
                    None => At::Pending(next, self.order),
                }
            }
        };
    }

    pub(crate) fn pending(&self) -> usize {
        let pending = |schedule: &&Schedule| matches!(schedule.at, At::Pending(..));
        self.all.iter().filter(pending).count()
    }

    pub(crate) fn unended(&self) -> usize {
        let unended = |schedule: &&Schedule| !matches!(schedule.at, At::Ended(_));
        self.all.iter().filter(unended).count()
    }

    pub(crate) fn lengths(&self) -> (usize, usize) {
        (self.accepted.len(), self.line.len())
    }

    pub(crate) fn ended(&self, id: usize) -> Option<End> {
        match self.all[id].at {
            At::Ended(end) => Some(end),
            _ => None,
        }
    }

    pub(crate) fn runs(&self, id: usize) -> u64 {
        self.all[id].runs
    }
}
