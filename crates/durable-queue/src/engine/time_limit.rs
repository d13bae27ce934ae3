//! The time limit of one attempt, shared by the pump, which ends the attempt, and the attempt's worker.
//!
//! # Invariants
//! 1. Once it is over, it stays over.
//! 2. It is not over before the attempt has begun, nor after the attempt has ended in time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

/// Minimum time between two looks at a job that waits, whose limit may be zero.
const SHORTEST_LOOK: Duration = Duration::from_millis(10);

#[derive(Clone, Debug)]
pub(crate) struct TimeLimit(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    span: Duration,
    stage: Mutex<Stage>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The job waits in this process: for a handler, or for its kind.
    Waits,
    /// The handler was called, or the job was handed out.
    Since(Instant),
    /// The attempt has ended in time. Its settle may be on its way for longer than the limit.
    Ended,
    Over,
}

impl TimeLimit {
    pub(crate) fn new(span: Duration) -> Self {
        let stage = Mutex::new(Stage::Waits);
        Self(Arc::new(Shared { span, stage }))
    }

    /// The handler is about to be called, or the job to be handed out.
    pub(crate) fn begin(&self, now: Instant) {
        *self.0.stage.lock() = Stage::Since(now);
    }

    /// The attempt has ended: its settle is about to be sent.
    pub(crate) fn end(&self) {
        let stage = &mut *self.0.stage.lock();
        if !matches!(stage, Stage::Over) {
            *stage = Stage::Ended;
        }
    }

    /// Ends the attempt, if its time is over. Otherwise returns the duration until the next look.
    pub(crate) fn expire(&self, now: Instant) -> Result<(), Duration> {
        let stage = &mut *self.0.stage.lock();
        let left = match *stage {
            Stage::Waits => self.0.span.max(SHORTEST_LOOK),
            Stage::Since(since) => {
                let took = now.saturating_duration_since(since);
                self.0.span.saturating_sub(took)
            }
            Stage::Ended => Duration::MAX,
            Stage::Over => Duration::ZERO,
        };
        if left > Duration::ZERO {
            return Err(left);
        }
        *stage = Stage::Over;
        Ok(())
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.0.stage.lock(), Stage::Over)
    }

    /// Error of the attempt.
    pub(crate) fn error(&self) -> String {
        let span = self.0.span;
        format!("the attempt took longer than its time limit of {span:?}")
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn before_the_attempt_has_begun_even_a_limit_of_zero_is_looked_at_again_later() {
        let (limit, now) = (TimeLimit::new(Duration::ZERO), Instant::now());
        assert_eq!(limit.expire(now), Err(SHORTEST_LOOK));
        limit.begin(now);
        assert_eq!(limit.expire(now), Ok(()));
    }

    #[test]
    fn an_attempt_that_has_ended_in_time_stays_in_time_and_one_that_has_not_stays_late() {
        const SPAN: Duration = Duration::from_secs(1);
        let (limit, now) = (TimeLimit::new(SPAN), Instant::now());
        limit.begin(now);
        limit.end();
        assert_eq!(limit.expire(now + SPAN), Err(Duration::MAX));
        let limit = TimeLimit::new(SPAN);
        limit.begin(now);
        assert_eq!(limit.expire(now + SPAN), Ok(()));
        limit.end();
        assert_eq!(limit.expire(now + SPAN), Ok(()));
    }
}
