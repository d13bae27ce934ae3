//! What calls can run: any jobs, or those of some kinds, each with a maximum of jobs at a time.
//!
//! # Invariants
//! 1. At most `limit` jobs of a lane run: those that were given to a call of the lane's worker, and have not ended.

use std::time::Duration;

/// Identifies the [`Lanes`] of a call.
pub(crate) type LanesId = usize;

/// The lanes of calls that take any jobs.
pub(crate) const ANY: LanesId = 0;

/// The kinds of the calls of one worker or of one handle, and what its waiting calls want.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// `None`: any jobs.
    kinds: Option<Vec<Lane>>,
    /// Number of jobs that the waiting calls want, spare ones included.
    pub(crate) most: usize,
    /// How long spare jobs of the last call may wait. `None`: for as long as it takes.
    pub(crate) patience: Option<Duration>,
}

#[derive(Debug)]
struct Lane {
    kind: &'static str,
    /// `None`: the jobs of the lane are not counted.
    limit: Option<usize>,
    running: usize,
    /// Recent duration of a job. `None` before the first has ended.
    took: Option<Duration>,
}

impl Lane {
    /// How many more jobs may run.
    fn open(&self) -> usize {
        self.limit
            .map_or(usize::MAX, |limit| limit.saturating_sub(self.running))
    }

    /// Number of jobs that the lane may claim: those that may run, and those that will start within `patience` if they
    /// take as long as the last ones.
    fn room(&self, patience: Option<Duration>) -> usize {
        let open = self.open();
        let Some(limit) = self.limit.filter(|_| open > 0) else {
            return open; // If it is full, all its handlers may hang.
        };
        let rounds = match (patience, self.took) {
            (None, _) => u128::MAX,
            (Some(_), None) => 0,
            (Some(patience), Some(took)) => patience.as_nanos() / took.as_nanos().max(1),
        };
        let spare = limit.saturating_mul(usize::try_from(rounds).unwrap_or(usize::MAX));
        open.saturating_add(spare)
    }
}

impl Lanes {
    pub(crate) const fn any() -> Self {
        Self {
            kinds: None,
            most: 0,
            patience: None,
        }
    }

    /// The lanes of a worker.
    pub(crate) fn new(kinds: impl IntoIterator<Item = (&'static str, usize)>) -> Self {
        let kinds = kinds.into_iter();
        Self::of(kinds.map(|(kind, limit)| (kind, Some(limit))))
    }

    /// The lane of a handle, which does not limit how many of its jobs run.
    pub(crate) fn handle(kind: &'static str) -> Self {
        Self::of([(kind, None)])
    }

    fn of(kinds: impl IntoIterator<Item = (&'static str, Option<usize>)>) -> Self {
        let lane = |(kind, limit)| Lane {
            kind,
            limit,
            running: 0,
            took: None,
        };
        Self {
            kinds: Some(kinds.into_iter().map(lane).collect()),
            ..Self::any()
        }
    }

    /// Whether these are the lanes of a handle of `kind`.
    pub(crate) fn is_handle(&self, kind: &str) -> bool {
        matches!(self.kinds.as_deref(), Some([lane]) if lane.limit.is_none() && lane.kind == kind)
    }

    /// Returns the lane in which a job of this kind may run now.
    pub(crate) fn find(&self, kind: Option<&str>) -> Option<usize> {
        let Some(lanes) = &self.kinds else {
            return Some(0);
        };
        let place = lanes.iter().position(|lane| Some(lane.kind) == kind)?;
        (lanes[place].open() > 0).then_some(place)
    }

    /// A job was given to a call.
    pub(crate) fn begin(&mut self, lane: usize) {
        if let Some(lanes) = &mut self.kinds {
            lanes[lane].running += 1;
        }
    }

    /// A job of a worker has ended, after `took`. Returns whether its lane was full.
    pub(crate) fn end(&mut self, lane: usize, took: Duration) -> bool {
        let Some(lanes) = &mut self.kinds else {
            return false;
        };
        let lane = &mut lanes[lane];
        let was_full = lane.open() == 0;
        lane.running -= 1;
        lane.took = Some(match lane.took {
            None => took,
            Some(before) => before.saturating_mul(7).saturating_add(took) / 8,
        });
        was_full
    }

    /// Returns the kinds that have room, if not all jobs are wanted.
    pub(crate) fn rooms(&self) -> Option<impl Iterator<Item = (&'static str, usize)>> {
        let rooms = self.kinds.as_ref()?.iter();
        let rooms = rooms.map(|lane| (lane.kind, lane.room(self.patience).min(self.most)));
        Some(rooms.filter(|(_, room)| *room > 0))
    }
}
