//! Those that stay away from a full pool are told when to come back.
//!
//! Not for: those in the line. They are served in turn; these have no task to give at this moment.

use crate::after::After;
use crate::state::State;

/// Submitters that come back when half of a queue is free. Each fills it faster than the next wakes
/// up; told all at once, most would only find it full again.
const MOST_INVITED: usize = 2;

impl<J> State<J> {
    /// Half of the queue is free, and nobody waits for it.
    #[inline]
    pub(crate) fn is_half_free(&self) -> bool {
        self.in_flight <= self.capacity.saturating_add(self.depth / 2) && self.line.len() == 0
    }

    /// Half of the queue has become free, and nobody was told yet.
    #[inline]
    pub(crate) fn is_to_invite(&self) -> bool {
        !self.lingering.is_empty() && !self.invited && self.is_half_free()
    }

    /// Those that linger are told that half of the queue is free: some, who can fill it; and all
    /// when it is empty.
    #[inline]
    pub(crate) fn invite(&mut self, after: &mut After<J>) {
        if self.lingering.is_empty() || !self.is_half_free() {
            return;
        }
        if self.queue.len() == 0 {
            after.tell(&mut self.lingering);
        } else if !self.invited {
            self.invited = true;
            after.tell_some(&mut self.lingering, MOST_INVITED);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use crate::after::NoticeWait;
    use crate::{Pool, QueueDepth};

    #[test]
    fn two_come_back_when_half_the_queue_is_free_and_all_when_it_is_empty() {
        let builder = Pool::builder()
            .capacity(1)
            .queue_depth(QueueDepth::Limited(16));
        let pool = builder.build().unwrap();
        let mut state = State::<u32>::new(&pool.core().config).unwrap();
        let notices = [(); 4].map(|()| NoticeWait::new());
        let told = |state: &mut State<u32>| {
            let mut after = After::new();
            state.invite(&mut after);
            after.pay();
            notices.each_ref().map(NoticeWait::is_given)
        };
        (state.in_flight, state.invited) = (17, true);
        (0..16).for_each(|task| state.queue.push(task));
        assert!(notices.iter().all(|notice| state.linger(notice.notice())));
        assert_eq!(told(&mut state), [false; 4], "the queue is full");
        state.in_flight = 9;
        assert!(state.is_to_invite());
        assert_eq!(told(&mut state), [true, true, false, false]);
        assert!(!state.is_to_invite(), "two are on their way");
        assert_eq!(told(&mut state), [true, true, false, false]);
        assert!(
            !state.linger(NoticeWait::new().notice()),
            "half of it is free"
        );
        while state.queue.pop().is_some() {}
        assert_eq!(told(&mut state), [true; 4]);
    }
}
