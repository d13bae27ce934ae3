//! The trait bounds of the types. The compiler checks them; running the test shows that building a
//! queue needs no further bounds.

use std::num::NonZeroUsize;
use std::time::Duration;

use delay_queue::{
    Builder, Clock, DelayQueue, EntryId, Expired, ManualClock, PushFuture, TakeFuture,
    TakeManyFuture,
};

use crate::support::{NOW, poll};

/// Each type of the crate with a value parameter, for any value and any clock.
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

/// For example a method of a cache that knows nothing about threads.
fn sweep<T>(queue: &DelayQueue<T, ManualClock>) -> usize {
    let mut batch = Vec::new();
    let swept = queue.try_take_many(&mut batch, NonZeroUsize::MAX);
    swept.unwrap_or(0) + queue.close_now().len()
}

#[test]
fn a_queue_is_usable_without_bounds_on_its_values() {
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
