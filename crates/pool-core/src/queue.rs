//! The queue of accepted tasks: first in, first out, grown in blocks.
//!
//! It never copies what it holds to grow (a million entries would be moved under the pool's
//! lock), and it gives memory back: of the blocks it has emptied it keeps [`SPARE`], so a
//! backlog that comes and goes within that allocates nothing.

use std::collections::VecDeque;

/// Entries in a block.
const BLOCK: usize = 256;
/// Emptied blocks kept for reuse.
const SPARE: usize = 4;

#[derive(Debug)]
pub(crate) struct TaskQueue<J> {
    /// Where entries leave. Where they enter too, while nothing stands behind it.
    front: VecDeque<J>,
    /// Full blocks.
    middle: VecDeque<VecDeque<J>>,
    /// Where entries enter.
    back: VecDeque<J>,
    spare: Vec<VecDeque<J>>,
    len: usize,
}

impl<J> TaskQueue<J> {
    pub(crate) fn new() -> Self {
        Self {
            front: VecDeque::new(),
            middle: VecDeque::new(),
            back: VecDeque::new(),
            spare: Vec::new(),
            len: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: J) {
        if self.len == self.front.len() && self.front.len() < BLOCK {
            reserve(&mut self.front);
            self.front.push_back(entry);
        } else {
            if self.back.len() == BLOCK {
                let fresh = self.spare.pop().unwrap_or_default();
                self.middle
                    .push_back(std::mem::replace(&mut self.back, fresh));
            }
            reserve(&mut self.back);
            self.back.push_back(entry);
        }
        self.len += 1;
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<J> {
        if let Some(entry) = self.front.pop_front() {
            self.len -= 1;
            return Some(entry);
        }
        if self.len == 0 {
            return None;
        }
        self.next_block();
        self.len -= 1;
        self.front.pop_front()
    }

    /// The front block is empty and others are not: the next one becomes the front.
    #[cold]
    fn next_block(&mut self) {
        let next = match self.middle.pop_front() {
            Some(block) => block,
            None => std::mem::take(&mut self.back),
        };
        let emptied = std::mem::replace(&mut self.front, next);
        if self.back.capacity() == 0 {
            self.back = emptied;
        } else if self.spare.len() < SPARE {
            self.spare.push(emptied);
        }
    }

    /// Takes everything out, oldest first, and the memory with it.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = J> + use<J> {
        let Self {
            front,
            middle,
            back,
            ..
        } = std::mem::replace(self, Self::new());
        front
            .into_iter()
            .chain(middle.into_iter().flatten())
            .chain(back)
    }
}

/// A block's memory is had at once, when it is first used.
fn reserve<J>(block: &mut VecDeque<J>) {
    if block.capacity() == 0 {
        block.reserve_exact(BLOCK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_leave_in_the_order_they_came_across_blocks() {
        let mut queue = TaskQueue::new();
        let (mut pushed, mut popped) = (0, 0);
        // Grows by 7 and shrinks by 5 until several blocks deep, then drains.
        while pushed < 20 * BLOCK {
            for _ in 0..7 {
                queue.push(pushed);
                pushed += 1;
            }
            for _ in 0..5 {
                assert_eq!(queue.pop(), Some(popped));
                popped += 1;
            }
            assert_eq!(queue.len(), pushed - popped);
        }
        while let Some(entry) = queue.pop() {
            assert_eq!(entry, popped);
            popped += 1;
        }
        assert_eq!((popped, queue.len()), (pushed, 0));
    }

    #[test]
    fn taking_all_yields_the_oldest_first_and_leaves_an_empty_queue() {
        let mut queue = TaskQueue::new();
        (0..3 * BLOCK).for_each(|entry| queue.push(entry));
        assert_eq!(queue.pop(), Some(0));
        assert!(queue.take_all().eq(1..3 * BLOCK));
        assert_eq!((queue.len(), queue.pop()), (0, None));
        queue.push(7);
        assert_eq!(queue.pop(), Some(7));
    }

    #[test]
    fn memory_beyond_the_spare_blocks_is_given_back() {
        let mut queue = TaskQueue::new();
        (0..100 * BLOCK).for_each(|entry| queue.push(entry));
        while queue.pop().is_some() {}
        let kept = queue.front.capacity()
            + queue.back.capacity()
            + queue.spare.iter().map(VecDeque::capacity).sum::<usize>();
        assert!(kept <= (SPARE + 2) * BLOCK, "{kept} entries of memory kept");
        assert!(queue.middle.is_empty());
    }
}
