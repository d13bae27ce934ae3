//! What asks for which bounds. That this compiles is the test; that it runs shows that no bound is
//! left out where a queue is made.

use std::num::NonZeroUsize;
use std::time::Duration;

use delay_queue::{
    Builder, Clock, DelayQueue, EntryId, Expired, ManualClock, PushFuture, TakeFuture,
    TakeManyFuture,
};

use crate::support::{NOW, poll};

/// Each type of the crate that names a value, of any value and by any clock.
struct Everything<'a, T, C: Clock> {
    builder: Option<Builder<T, C>>,
    queue: DelayQueue<T, C>,
    push: Option<PushFuture<T, C>>,
    take: Option<TakeFuture<T, C>>,
    many: Option<TakeManyFuture<'a, T, C>>,
    #[cfg(feature = "stream")]
    stream: Option<delay_queue::TakeStream<T, C>>,
}

impl<T, C: Clock> Everything<'_, T, C> {
    fn pass(&mut self, value: T, delay: Duration) -> (EntryId, Option<Expired<T>>) {
        let id = self.queue.push(value, delay).ok().unwrap();
        assert!(self.queue.contains(id) && self.queue.reset(id, delay));
        let taken = self.queue.try_take().ok();
        (id, taken)
    }

    fn futures(&mut self, value: T) -> bool {
        self.push = Some(self.queue.push_async(value, NOW));
        self.take = Some(self.queue.take_async());
        #[cfg(feature = "stream")]
        {
            self.stream = Some(self.queue.stream());
        }
        self.push.as_mut().is_some_and(|push| poll(push).is_ready())
            && self.take.as_mut().is_some_and(|take| poll(take).is_ready())
    }
}

/// A cache's own method, say, which knows nothing of threads.
fn sweep<T>(queue: &DelayQueue<T, ManualClock>) -> usize {
    let mut batch = Vec::new();
    let swept = queue.try_take_many(&mut batch, NonZeroUsize::MAX);
    swept.unwrap_or(0) + queue.close_now().len()
}

#[test]
fn a_queue_can_be_held_and_used_where_nothing_is_known_of_its_values() {
    let mut batch = Vec::new();
    let clock = ManualClock::new();
    let mut all = Everything {
        builder: Some(DelayQueue::builder().clock(clock.clone()).bound(9)),
        queue: DelayQueue::with_clock(clock),
        push: None,
        take: None,
        many: None,
        #[cfg(feature = "stream")]
        stream: None,
    };
    let (id, taken) = all.pass("value", NOW);
    assert_eq!(taken.map(|taken| taken.id), Some(id));
    assert!(all.futures("other"));
    all.many = Some(all.queue.take_many_async(&mut batch, NonZeroUsize::MIN));
    assert!(
        all.many
            .as_mut()
            .is_some_and(|many| poll(many).is_pending())
    );
    all.queue.push("late", Duration::MAX).unwrap();
    assert_eq!(sweep(&all.queue), 1);
    let built = all.builder.take().unwrap().build().unwrap();
    built.push("built", NOW).unwrap();
    assert_eq!(sweep(&built), 1);
}
