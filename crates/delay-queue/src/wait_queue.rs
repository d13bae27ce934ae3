//! The wait queue of a full queue: pushers, first come, first served.
//!
//! A pusher leaves its value here. The section that frees a place adds the first value to the queue
//! and wakes its owner. So a sleeping owner, or a future that is never polled again, delays no
//! other pusher. Held under the queue's lock.

use std::mem;

use crate::EntryId;
use crate::wait::{Waiter, WaiterId, WakeList};

/// A linked list in one vector: each step is O(1). A map would be compiled for each type of values,
/// and would make up half of the code of a queue.
pub(crate) struct WaitQueue<T> {
    places: Vec<Place<T>>,
    first: usize,
    last: usize,
    waiting: usize,
    /// Head of the free list, which is linked by `after`.
    free: usize,
    used: usize,
}

struct Place<T> {
    before: usize,
    after: usize,
    content: Content<T>,
}

enum Content<T> {
    Free,
    Waiting(Pusher<T>),
    /// Not yet collected by its owner. The error contains a value that was rejected because the
    /// queue was closed.
    Ended(Result<EntryId, T>),
}

/// The index that stands for no place.
const NONE: usize = usize::MAX;
/// The vector's memory is freed when no place is used and it has more places than this.
const KEPT: usize = 64;

pub(crate) struct Pusher<T> {
    pub(crate) value: T,
    pub(crate) due: u64,
    pub(crate) waiter: Waiter,
}

pub(crate) enum Wait<T> {
    /// Its value was added to the queue, with this id.
    Entered(EntryId),
    /// The queue was closed first.
    Refused(T),
    Waiting,
}

impl<T> WaitQueue<T> {
    pub(crate) const fn new() -> Self {
        Self {
            places: Vec::new(),
            first: NONE,
            last: NONE,
            waiting: 0,
            free: NONE,
            used: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting
    }

    /// Returns whether the queue has no trace of any pusher.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.used == 0 && self.waiting == 0 && self.places.len() <= KEPT
    }

    pub(crate) fn enqueue(&mut self, pusher: Pusher<T>) -> WaiterId {
        let place = Place {
            before: self.last,
            after: NONE,
            content: Content::Waiting(pusher),
        };
        let at = if let Some(free) = self.places.get_mut(self.free) {
            mem::replace(&mut self.free, mem::replace(free, place).after)
        } else {
            self.places.push(place);
            self.places.len() - 1
        };
        match self.places.get_mut(self.last) {
            Some(last) => last.after = at,
            None => self.first = at,
        }
        self.last = at;
        self.waiting += 1;
        self.used += 1;
        at as WaiterId
    }

    /// Dequeues the first pusher. Its place is kept for its result.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<(WaiterId, Pusher<T>)> {
        let id = self.first as WaiterId;
        Some((id, self.unlink(id)?))
    }

    /// Stores the result of a popped pusher.
    pub(crate) fn serve(&mut self, id: WaiterId, entry: EntryId) {
        self.end(id, Ok(entry));
    }

    pub(crate) fn refuse_all(&mut self, wakes: &mut WakeList) {
        while let Some((id, pusher)) = self.pop() {
            self.end(id, Err(pusher.value));
            wakes.push(pusher.waiter);
        }
    }

    /// Returns the state of a pusher. A result is returned once.
    pub(crate) fn look(&mut self, id: WaiterId) -> Wait<T> {
        let Some(place) = self.places.get_mut(index(id)) else {
            return Wait::Waiting;
        };
        match mem::replace(&mut place.content, Content::Free) {
            Content::Ended(answer) => {
                self.free(id);
                match answer {
                    Ok(id) => Wait::Entered(id),
                    Err(value) => Wait::Refused(value),
                }
            }
            other => {
                place.content = other;
                Wait::Waiting
            }
        }
    }

    /// Replaces the waiter of a waiting pusher. The returned waiter must be dropped after the lock
    /// is released.
    pub(crate) fn replace_waiter(&mut self, id: WaiterId, waiter: Waiter) -> Waiter {
        match self.places.get_mut(index(id)) {
            Some(Place {
                content: Content::Waiting(pusher),
                ..
            }) => mem::replace(&mut pusher.waiter, waiter),
            _ => waiter,
        }
    }

    /// Removes a waiting pusher, and returns its value.
    pub(crate) fn leave(&mut self, id: WaiterId) -> Option<Pusher<T>> {
        let pusher = self.unlink(id)?;
        self.free(id);
        Some(pusher)
    }

    /// Removes a pusher from the list, if it waits.
    fn unlink(&mut self, id: WaiterId) -> Option<Pusher<T>> {
        let place = self.places.get_mut(index(id))?;
        let pusher = match mem::replace(&mut place.content, Content::Free) {
            Content::Waiting(pusher) => pusher,
            other => {
                place.content = other;
                return None;
            }
        };
        let (before, after) = (place.before, place.after);
        match self.places.get_mut(before) {
            Some(before) => before.after = after,
            None => self.first = after,
        }
        match self.places.get_mut(after) {
            Some(after) => after.before = before,
            None => self.last = before,
        }
        self.waiting -= 1;
        Some(pusher)
    }

    fn end(&mut self, id: WaiterId, answer: Result<EntryId, T>) {
        if let Some(place) = self.places.get_mut(index(id)) {
            place.content = Content::Ended(answer);
        }
    }

    fn free(&mut self, id: WaiterId) {
        if let Some(place) = self.places.get_mut(index(id)) {
            place.after = mem::replace(&mut self.free, index(id));
        }
        self.used -= 1;
        if self.used == 0 && self.places.len() > KEPT {
            *self = Self::new();
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "ids are made from indices")]
fn index(id: WaiterId) -> usize {
    id as usize
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use testkit::Rng;

    use super::*;
    use crate::{DelayHeap, DelayQueue};

    /// Compares the list with a `VecDeque`: pushers come, are served and leave at random.
    #[test]
    fn pushers_leave_first_come_first_served_when_others_withdraw() {
        let mut rng = Rng::from_env();
        let mut queue = WaitQueue::new();
        let (mut twin, mut served) = (VecDeque::new(), Vec::new());
        let mut heap = DelayHeap::new();
        for value in 0..10_000 {
            match rng.below(5) {
                0 | 1 => {
                    let waiter = Waiter::Task(Waker::noop().clone());
                    let id = queue.enqueue(Pusher {
                        value,
                        due: 0,
                        waiter,
                    });
                    twin.push_back((id, value));
                }
                2 => {
                    let popped = queue.pop().map(|(id, pusher)| (id, pusher.value));
                    assert_eq!(popped, twin.pop_front());
                    if let Some((id, _)) = popped {
                        let entry = heap.push((), 0);
                        queue.serve(id, entry);
                        served.push((id, entry));
                    }
                }
                3 if !twin.is_empty() => {
                    let (id, value) = twin
                        .remove(rng.below(twin.len()))
                        .expect("the index is valid");
                    assert!(matches!(queue.look(id), Wait::Waiting));
                    assert_eq!(queue.leave(id).map(|pusher| pusher.value), Some(value));
                }
                4 if !served.is_empty() => {
                    let (id, entry) = served.swap_remove(rng.below(served.len()));
                    assert!(queue.leave(id).is_none());
                    assert!(matches!(queue.look(id), Wait::Entered(found) if found == entry));
                }
                _ => {}
            }
            assert_eq!(queue.len(), twin.len());
        }
        queue.refuse_all(&mut WakeList::new());
        for (id, value) in twin {
            assert!(matches!(queue.look(id), Wait::Refused(refused) if refused == value));
        }
        for (id, _) in served {
            assert!(matches!(queue.look(id), Wait::Entered(_)));
        }
        assert!(queue.is_forgotten());
    }

    /// Results do not accumulate, however waiting pushers and their futures end.
    #[test]
    fn an_uncollected_answer_is_not_kept() {
        let queue = DelayQueue::builder()
            .bound(1)
            .build()
            .expect("the bound is positive");
        queue.push(0, Duration::ZERO).expect("there is room");
        for is_refused in [false, true] {
            let mut future = queue.push_async(1, Duration::ZERO);
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut future).poll(&mut context).is_pending());
            if is_refused {
                queue.close();
            } else {
                queue.try_take().expect("the entry is due");
            }
            let answers = || queue.0.peek(|state| state.pushers.used);
            assert_eq!(answers(), 1);
            drop(future);
            assert_eq!(answers(), 0);
        }
    }
}
