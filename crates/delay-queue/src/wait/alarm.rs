//! The clock's alarm of one queue: unset, being set, or set. A state machine under the queue's
//! lock; setting the alarm is the clock's code and happens after the lock is released.

use std::io;
use std::sync::Arc;

use sync_shim::Alarm;

use crate::NEVER;

/// An alarm to be set after the lock is released. A section requests at most one.
#[derive(Debug)]
#[must_use = "futures wait for this alarm"]
pub struct AlarmRequest {
    /// Time of the alarm.
    pub at: u64,
    turn: u64,
    #[expect(dead_code, reason = "held to be dropped after the lock is released")]
    replaced: Option<Alarm>,
}

/// The remains of an alarm that is no longer needed, to be dropped after the lock is released.
#[derive(Debug, Default)]
#[must_use = "it is the clock's code, to be dropped after the lock is released"]
pub struct Discarded {
    #[expect(dead_code, reason = "held to be dropped after the lock is released")]
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

#[derive(Debug, Default)]
pub(super) struct QueueAlarm {
    state: State,
    turn: u64,
    /// Number of requests whose outcome has not been reported.
    being_set: usize,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Unset,
    /// The thread that was given this turn is setting the alarm.
    Setting {
        at: u64,
        turn: u64,
        /// An alarm has fired in the meantime, perhaps this one.
        fired: bool,
    },
    Set {
        at: u64,
        alarm: Alarm,
    },
}

impl QueueAlarm {
    /// Returns the time of the alarm that is set or being set, or [`NEVER`].
    pub(super) fn at(&self) -> u64 {
        match &self.state {
            State::Unset => NEVER,
            State::Setting { at, .. } | State::Set { at, .. } => *at,
        }
    }

    /// Returns whether a thread is setting an alarm. That thread settles next.
    pub(super) fn is_being_set(&self) -> bool {
        self.being_set > 0
    }

    /// Requests an alarm at `at`. A request made earlier in the same section is changed to `at`.
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
            (request.at, request.turn) = (at, turn); // The alarm of the old request is not set yet.
        } else {
            self.being_set += 1;
            *request = Some(AlarmRequest { at, turn, replaced });
        }
    }

    /// Processes the outcome of a request. Returns an error if the queue has no alarm because of
    /// it.
    pub(super) fn report(
        &mut self,
        request: &AlarmRequest,
        alarm: io::Result<Alarm>,
    ) -> Result<Discarded, Arc<io::Error>> {
        self.being_set -= 1;
        let (at, fired) = match self.state {
            State::Setting { at, turn, fired } if turn == request.turn => (at, fired),
            // A request for an earlier time has replaced this one: the outcome does not matter.
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
            // The alarm fired before this report: the section settles, and requests the next one.
            Ok(alarm) => Ok(Discarded::alarm(Some(alarm))),
            Err(error) => Err(Arc::new(error)),
        }
    }

    /// Called when an alarm has fired. If an alarm is being set, this is recorded for its report.
    pub(super) fn fired(&mut self) -> Discarded {
        if let State::Setting { fired, .. } = &mut self.state {
            *fired = true;
        }
        Discarded::alarm(self.unset())
    }

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
