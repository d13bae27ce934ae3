//! The clock's alarm of one queue: unset, being set, or set. A state machine under the queue's lock;
//! setting the alarm itself is the clock's code and happens with the lock free.

use std::io;
use std::sync::Arc;

use sync_shim::Alarm;

use crate::NEVER;

/// An alarm to be set when the lock is free. A section asks for one at most.
#[derive(Debug)]
#[must_use = "futures wait for this alarm"]
pub struct AlarmRequest {
    /// When.
    pub at: u64,
    turn: u64,
    #[expect(dead_code, reason = "held to be dropped when the lock is free")]
    replaced: Option<Alarm>,
}

/// What is left of an alarm that is of no use any more. To be dropped when the lock is free.
#[derive(Debug, Default)]
#[must_use = "it is the clock's code, to be dropped when the lock is free"]
pub struct Discarded {
    #[expect(dead_code, reason = "held to be dropped when the lock is free")]
    alarm: Option<Alarm>,
    #[expect(dead_code, reason = "as above")]
    error: Option<Arc<io::Error>>,
}

impl Discarded {
    fn alarm(alarm: Option<Alarm>) -> Self {
        Self { alarm, error: None }
    }

    pub(super) fn error(error: Arc<io::Error>) -> Self {
        Self {
            alarm: None,
            error: Some(error),
        }
    }
}

/// The alarm, and the requests that are under way.
#[derive(Debug, Default)]
pub(super) struct QueueAlarm {
    state: State,
    /// The turn of the latest request.
    turn: u64,
    /// Requests given out whose outcome has not been reported.
    being_set: usize,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unset,
    /// The party that was given this turn is setting it.
    Setting {
        at: u64,
        turn: u64,
        /// An alarm has fired meanwhile: perhaps this one.
        fired: bool,
    },
    Set {
        at: u64,
        alarm: Alarm,
    },
}

impl QueueAlarm {
    /// When it fires, set or being set. [`NEVER`] if it is neither.
    pub(super) fn at(&self) -> u64 {
        match &self.state {
            State::Unset => NEVER,
            State::Setting { at, .. } | State::Set { at, .. } => *at,
        }
    }

    /// Whether a party is setting one. It settles next.
    pub(super) fn is_being_set(&self) -> bool {
        self.being_set > 0
    }

    /// Asks for an alarm at `at`. What the section asked for before is moved there.
    pub(super) fn request(&mut self, at: u64, request: &mut Option<AlarmRequest>) {
        self.turn += 1;
        let turn = self.turn;
        let replaced = self.unset();
        self.state = State::Setting {
            at,
            turn,
            fired: false,
        };
        if let Some(request) = request {
            (request.at, request.turn) = (at, turn); // Its own alarm was not set yet.
        } else {
            self.being_set += 1;
            *request = Some(AlarmRequest { at, turn, replaced });
        }
    }

    /// The outcome of a request. An error comes back if it left the queue without an alarm.
    pub(super) fn report(
        &mut self,
        request: &AlarmRequest,
        alarm: io::Result<Alarm>,
    ) -> Result<Discarded, Arc<io::Error>> {
        self.being_set -= 1;
        let (at, fired) = match self.state {
            State::Setting { at, turn, fired } if turn == request.turn => (at, fired),
            // A request for an earlier time has taken its place: this outcome is of no use.
            _ => {
                return Ok(match alarm {
                    Ok(alarm) => Discarded::alarm(Some(alarm)),
                    Err(error) => Discarded::error(Arc::new(error)),
                });
            }
        };
        self.state = State::Unset;
        match alarm {
            Ok(alarm) if !fired => {
                self.state = State::Set { at, alarm };
                Ok(Discarded::default())
            }
            // It fired before this report: the section settles, and asks for the next.
            Ok(alarm) => Ok(Discarded::alarm(Some(alarm))),
            Err(error) => Err(Arc::new(error)),
        }
    }

    /// An alarm has fired. While one is being set that is noted, for its report to find.
    pub(super) fn fired(&mut self) -> Discarded {
        if let State::Setting { fired, .. } = &mut self.state {
            *fired = true;
        }
        Discarded::alarm(self.unset())
    }

    /// The alarm, if it is set, which it is not from now on.
    fn unset(&mut self) -> Option<Alarm> {
        match std::mem::take(&mut self.state) {
            State::Set { alarm, .. } => Some(alarm),
            other => {
                self.state = other;
                None
            }
        }
    }
}
